//! `keymill bench`: load, latency and uniqueness in one report.
//!
//! Users take keys from servers by a plan (`plan`, `load`, `worker`, `user`) over one of the protocols (`target`, `http`,
//! `redis`, `grpc`). What they are answered is counted (`tally`), every key is checked (`collector`, `uniqueness`), and
//! all of it is told (`live`, `report`, `html`, `thresholds`). Nothing here knows a store.

mod collector;
mod fault;
#[cfg(feature = "grpc")]
mod grpc;
mod html;
mod http;
mod live;
mod load;
mod plan;
mod redis;
mod report;
mod shared;
mod signals;
mod tally;
mod target;
mod thresholds;
mod told;
mod uniqueness;
mod user;
mod values;
mod worker;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use keymill_engine::space::check_name;
use tokio::time::sleep;

use self::live::Live;
use self::plan::{Load, Plan};
use self::report::{Found, Report};
use self::shared::{End, Shared};
use self::signals::Signals;
use self::target::{Asking, Protocol, Target};
use self::thresholds::Thresholds;
use self::uniqueness::{Check, Counted, Settings};
use self::values::{Rate, Stages};
use super::figures::counted;
use super::site::refusal::Refusal;
use super::usage;
use crate::config::{Flags, Remote};

/// How long a bench takes that is told nothing about it.
const TIME_USUAL: Duration = Duration::from_secs(10);
/// How often the progress of the check is shown.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// The most keys that a request can ask for. Their answer is held in memory, for each connection.
const COUNT_MAX: u32 = 1_000_000;

pub(super) const EXAMPLES: &str = "\
Users take keys, each on a connection of its own: as fast as servers answer, by ramps (--stages), or at a
fixed rate (--rate), where the latency of a request counts from when it was due and not from when it
could be sent. Every key that was received is compared with all others; those that do not fit into
--memory are sorted on disk, in --temp-dir. Keys that were taken are used up.

The exit code is 0 if no key came twice and all thresholds were met, and otherwise 1. It is 3 if servers cannot be
reached or answered no request with keys; a first request that is refused ends with the refusal's code, 1 or 2.
Ctrl-C ends the load, and the report is still printed.

A request that failed counts for thresholds as one that took longer than every limit. At a fixed rate this includes
requests that were due and could not be sent.

The token is read from KEYMILL_TOKEN, or from the file that KEYMILL_TOKEN_FILE names.

Examples:
  keymill bench http://localhost:8080
  keymill bench http://a:8080 http://b:8080 --space links --duration 1m --p99 20ms --failures 0.1%
  keymill bench http://localhost:8080 --stages 50:30s,1000:30s,2000:30s,0:30s --p95 200ms --html report.html
  keymill bench http://localhost:8080 --rate 5000/s --duration 30s --json
  keymill bench http://localhost:8080 --protocol http-batch --count 10000 --connections 8 --keys 100000000
  keymill bench redis://localhost:6380 --pipeline 16 --keys-out keys.txt";

#[derive(Debug, clap::Args)]
pub(super) struct BenchArgs {
    /// The servers: http://host:port, https://host:port, redis://host:port, rediss://host:port or
    /// unix:/path; connections are spread over them in turn
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// The keyspace [default: default]
    #[arg(long)]
    space: Option<String>,
    /// How servers are asked [default: by the URL, http or redis]
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// How many keys each request asks for [default: 1, with http-batch 1000]
    #[arg(long, value_name = "KEYS", value_parser = clap::value_parser!(u32).range(1..=i64::from(COUNT_MAX)))]
    count: Option<u32>,
    /// How many connections take keys at the same time
    #[arg(long, value_name = "N", default_value_t = 64, conflicts_with = "stages", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// How many requests a connection sends before it reads the answers; only for the Redis protocol
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "rate", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pipeline: u32,
    /// Ramps of users: USERS:TIME,…; each ramps linearly to USERS within TIME
    #[arg(long, conflicts_with = "rate", value_parser = values::stages)]
    stages: Option<Stages>,
    /// Send requests at this rate in all, such as 5000/s
    #[arg(long, value_parser = values::rate)]
    rate: Option<Rate>,
    /// How long to take keys, such as 30s [default: 10s, unless --stages or --keys are given]
    #[arg(long, value_name = "TIME", conflicts_with = "stages", value_parser = values::time)]
    duration: Option<Duration>,
    /// End when this many keys were received
    #[arg(long, value_name = "KEYS", value_parser = super::values::count)]
    keys: Option<u64>,
    /// How long a request may take before it counts as failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::time)]
    timeout: Duration,
    /// How many threads send requests [default: half of the processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    #[command(flatten)]
    thresholds: Thresholds,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write the report with charts into one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write all keys to a file, one per line
    #[arg(long, value_name = "FILE")]
    keys_out: Option<PathBuf>,
    /// The folder for keys that do not fit into memory [default: TMPDIR, or /var/tmp]
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
    /// How much memory the check for duplicates may take, such as 256MB or 2GB
    #[arg(long, value_name = "SIZE", default_value = "256MB", value_parser = values::bytes)]
    memory: usize,
}

pub(super) async fn run(args: BenchArgs, mut flags: Flags) -> anyhow::Result<ExitCode> {
    // URLs, the token and whom to trust are read as for commands that work through a server.
    flags.server = Some(args.urls.join(","));
    let remote = Remote::load(&flags)?.context("no server is named")?;
    let space = args.space.clone().unwrap_or_else(|| remote.default_space.clone());
    usage(check_name(&space))?;
    let plan = args.plan();
    // Each user has a connection.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let target = Target::new(&remote, args.asking(space))?;
    let mut signals = Signals::new()?;
    target.reach().await?;
    if let Some(file) = &args.html {
        // Now rather than after an hour. What is in the file stays there until then.
        let opened = fs::File::options().append(true).create(true).open(file);
        opened.with_context(|| format!("cannot write to {}", file.display()))?;
    }
    let check = Check::start(args.uniqueness(&plan))?;
    let started_at = Timestamp::now();
    let mut live = Live::new(plan.clone());
    let shared = Arc::new(Shared::new(target, plan, args.workers()));
    let Check { chunks, progress, verdict } = check;
    let loaded = load::run(&shared, chunks, &progress, &mut live, &mut signals).await;
    live.clear();
    let outcome = loaded?;
    let bar = live.merge_bar();
    while !verdict.is_finished() {
        tokio::select! {
            () = sleep(SHOW_EVERY) => {}
            () = signals.next() => progress.is_cancelled.store(true, Ordering::Relaxed),
        }
        bar.set_length(progress.to_merge.load(Ordering::Relaxed));
        bar.set_position(progress.merged.load(Ordering::Relaxed));
    }
    bar.finish_and_clear();
    let verdict = verdict.join().unwrap_or_else(|_| Err("the check has panicked".to_owned()));
    let verdict = verdict.map_err(|why| match progress.found.load(Ordering::Relaxed) {
        0 => why,
        found => format!("{why}; before that, {} came twice", counted(found, "key", "keys")),
    });
    if let End::Refused(error) = outcome.end {
        let has_token = shared.target.has_token();
        return Err(Refusal::new(error, Some(&shared.target.space), has_token).into());
    }
    check_count(&verdict, outcome.total.keys);
    let judged = args.thresholds.judge(&outcome.total);
    let report = Report::new(Found {
        target: &shared.target,
        plan: &shared.plan,
        started_at,
        outcome: &outcome,
        verdict: &verdict,
        judged: &judged,
    });
    args.tell(&report)?;
    Ok(match (report.passed, outcome.total.acknowledged) {
        (true, _) => ExitCode::SUCCESS,
        (false, 0) => ExitCode::from(3),
        (false, _) => ExitCode::FAILURE,
    })
}

/// The folder for many keys. What is in /tmp may be in memory, and is meant to be small.
fn temp_dir() -> PathBuf {
    let lasting = PathBuf::from("/var/tmp");
    match std::env::var_os("TMPDIR").is_none() && lasting.is_dir() {
        true => lasting,
        false => std::env::temp_dir(),
    }
}

/// What was counted when it came, and what was checked at the end, is the same.
fn check_count(verdict: &Result<Counted, String>, received: u64) {
    if let Ok(counted) = verdict {
        assert_eq!(counted.keys, received, "every key that was received was checked");
    }
}

impl BenchArgs {
    fn plan(&self) -> Plan {
        let connections = self.connections;
        let (load, time) = match (&self.stages, self.rate) {
            (Some(Stages(stages)), _) => (Load::Stages(stages.clone()), None),
            (None, rate) => {
                let usual = self.keys.is_none().then_some(TIME_USUAL);
                let load = match rate {
                    Some(rate) => Load::Rate { rate, connections },
                    None => Load::Full { connections },
                };
                (load, self.duration.or(usual))
            }
        };
        Plan { load, time, keys: self.keys }
    }

    fn asking(&self, space: String) -> Asking {
        Asking {
            protocol: self.protocol,
            space,
            count: self.count,
            pipeline: self.pipeline,
            time_max: self.timeout,
        }
    }

    fn uniqueness(&self, plan: &Plan) -> Settings {
        let folder = self.temp_dir.clone().unwrap_or_else(temp_dir);
        Settings {
            keys_out: self.keys_out.clone(),
            planned: plan.keys,
            ..Settings::new(folder, self.memory)
        }
    }

    /// How many threads send requests. The server may be on the same machine, and needs some, too.
    fn workers(&self) -> usize {
        let half = || std::thread::available_parallelism().map_or(1, |it| it.get().div_ceil(2));
        self.threads.map_or_else(half, usize::from)
    }

    fn tell(&self, report: &Report) -> anyhow::Result<()> {
        // First, because a disk may be full by now.
        if self.json {
            println!("{}", serde_json::to_string_pretty(report)?);
        } else {
            print!("{}", report.text());
        }
        if let Some(file) = &self.html {
            let written = fs::write(file, html::page(report)?);
            written.with_context(|| format!("cannot write to {}", file.display()))?;
            note!("keymill: the report is in {}", file.display());
        }
        Ok(())
    }
}
