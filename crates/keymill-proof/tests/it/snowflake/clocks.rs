//! Hosts whose clocks are set back and forth, or are a year ahead: processes that read the time of
//! day through libfaketime, which takes it from a file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use keymill_proof::backend::{Kind, Missing, unless_missing};
use keymill_proof::{Caller, Deployment, Fleet, Load, Server, ServerSpec};

use super::super::eventually;
use super::{Layout, SPACE, gives, highest_end, ids, instance, make, metric, turned_away};

const WINDOW: Duration = Duration::from_secs(1);
/// What the clock is set to, one after another, from the right time on: back by a millisecond, by a
/// second, by an hour; forward by an hour, by another; and back again.
const CHANGES: [&str; 6] = ["-0.001s", "-1s", "-1h", "+0", "+1h", "+0"];
/// The window where the clock of one host is a year ahead. On etcd, where a member tells the time to
/// the second only, such a host may be ahead by two seconds: a shorter window could seem to be over.
const LONG_WINDOW: Duration = Duration::from_secs(5);
/// How far in the future an ID or the end of a window may lie there.
const FUTURE_MAX: Duration = Duration::from_secs(10);

#[test]
fn ids_go_on_in_their_order_while_the_clock_is_set_on_sqlite() {
    // The clock that windows are measured by is the one that is set: a worker whose window lies
    // ahead of it is left, and another leased.
    let workers = check_changes("SQLite", &Deployment::sqlite());
    assert!(workers.is_none_or(|workers| workers.len() > 1), "no other worker was leased");
}

#[test]
fn ids_go_on_in_their_order_while_the_clock_is_set_on_postgres() {
    let Some(deployment) = Deployment::on_server(Kind::Postgres) else { return };
    // Only the clock of the instance is set, which windows do not depend on.
    let workers = check_changes("PostgreSQL", &deployment);
    assert!(workers.is_none_or(|workers| workers.len() == 1), "another worker was leased");
}

#[test]
fn a_host_a_year_ahead_takes_nothing_of_the_future_on_postgres() {
    check_year_ahead(Kind::Postgres);
}

#[test]
fn a_host_a_year_ahead_takes_nothing_of_the_future_on_etcd() {
    check_year_ahead(Kind::Etcd);
}

/// Sets the clock of an instance under a caller who takes IDs all the time; the workers it used.
fn check_changes(name: &str, deployment: &Deployment) -> Option<BTreeSet<u64>> {
    let layout = Layout { worker_bits: 3 };
    let clock = unless_missing(HostClock::new(deployment.folder(), "+0"))?;
    let Host { fleet, .. } = &clock.start(instance(deployment, "d0"));
    make(&fleet.hold(0), layout, WINDOW.as_secs());
    let caller = Caller::http(SPACE).of(0).takes(50).rests(Duration::from_millis(1));
    let received = Load::of([caller]).received(layout.received()).run(fleet, |run| {
        let goes_on = |after: &str| {
            let (before, begin) = (run.received().acknowledged, Instant::now());
            // Until the window has ended that was held before.
            eventually(&format!("IDs come after {after}"), || {
                begin.elapsed() > WINDOW * 3 / 2 && run.received().acknowledged > before + 20
            });
        };
        goes_on("the start");
        for offset in CHANGES {
            let before = jumps(&fleet.hold(0));
            clock.set(offset);
            eventually(&format!("{offset} is counted"), || jumps(&fleet.hold(0)) > before);
            goes_on(offset);
        }
    });
    let server = fleet.hold(0);
    println!("{}", server.log_with("the clock of this host was changed"));
    println!("{} jumps noticed", jumps(&server));
    received.check(name);
    // Until another worker is leased.
    received.check_answered(&["503"]);
    Some(ids(&received).map(|id| layout.worker(id)).collect())
}

fn jumps(server: &Server) -> u64 {
    metric(server, "keymill_clock_jumps_total").unwrap()
}

fn check_year_ahead(kind: Kind) {
    let layout = Layout { worker_bits: 1 };
    let Some(deployment) = Deployment::on_server(kind) else { return };
    let Some(clock) = unless_missing(HostClock::new(deployment.folder(), "+366d")) else { return };
    let host = clock.start(instance(&deployment, "ahead"));
    let mut ahead = host.fleet.hold(0);
    let right = instance(&deployment, "right").start();
    make(&right, layout, LONG_WINDOW.as_secs());
    let mut received = layout.received();
    // Until windows were extended.
    let begin = Instant::now();
    while begin.elapsed() < LONG_WINDOW / 2 {
        for server in [&*ahead, &right] {
            eventually("it gives IDs", || gives(&mut received, server, 100));
        }
    }
    let until = layout.ms(ids(&received).max().unwrap());
    assert!(until <= future_max(), "{until} is the time of an ID");
    let until = Layout::ms_of_tick(highest_end(&right));
    assert!(until <= future_max(), "{until} is the end of a window");
    let years = [&*ahead, &right].map(year_of);
    assert!(years[0] > years[1], "{years:?}: its clock is not ahead");

    // Its worker is not lost with it.
    let third = instance(&deployment, "third").start();
    turned_away(&mut received, &third);
    ahead.kill();
    eventually("its worker is free", || gives(&mut received, &third, 100));
    eventually("the other has its own", || gives(&mut received, &right, 100));
    received.check(&format!("{kind:?}, one host a year ahead"));
}

fn future_max() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from((now + FUTURE_MAX).as_millis()).unwrap()
}

/// The year in which a server leased its worker, as its log has it.
#[track_caller]
fn year_of(server: &Server) -> u32 {
    let log = server.log_with("leased a worker");
    let line = log.lines().find(|line| line.contains("leased a worker")).unwrap();
    let year = line.trim_start_matches(|c: char| !c.is_ascii_digit()).split('-').next();
    year.unwrap().parse().unwrap()
}

/// The clock of a host.
struct HostClock {
    library: PathBuf,
    file: PathBuf,
}

/// A server on a host whose clock can be set.
struct Host {
    fleet: Fleet,
    // After the server.
    _traces: Traces,
}

/// What libfaketime leaves behind of a process that was killed, and a later one with the same
/// number would stumble over.
struct Traces(u32);

impl HostClock {
    /// One that is off by so much, as libfaketime writes it.
    fn new(folder: &Path, offset: &str) -> Result<HostClock, Missing> {
        let clock = HostClock { library: library()?, file: folder.join("clock") };
        clock.set(offset);
        Ok(clock)
    }

    /// Sets it.
    fn set(&self, offset: &str) {
        // Never half of it: it is read again and again.
        let whole = self.file.with_extension("new");
        fs::write(&whole, format!("{offset}\n")).unwrap();
        fs::rename(&whole, &self.file).unwrap();
    }

    /// Starts a server that has this clock. The one that only runs is left to it.
    fn start(&self, spec: ServerSpec) -> Host {
        let spec = spec
            .env("LD_PRELOAD", self.library.display().to_string())
            .env("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let fleet = Fleet::start([spec]);
        let traces = Traces(fleet.hold(0).pid());
        Host { fleet, _traces: traces }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        for name in ["faketime_shm", "sem.faketime_sem"] {
            // A process that has ended by itself has left none.
            let _ = fs::remove_file(format!("/dev/shm/{name}_{}", self.0));
        }
    }
}

/// The library of Debian's package `faketime`, the one for programs with threads first.
fn library() -> Result<PathBuf, Missing> {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let folders: Vec<PathBuf> = folders.map(|folder| folder.path().join("faketime")).collect();
    let names = ["libfaketimeMT.so.1", "libfaketime.so.1"];
    let mut paths = names.iter().flat_map(|name| folders.iter().map(move |it| it.join(name)));
    let found = paths.find(|path| path.is_file());
    found.ok_or_else(|| Missing("libfaketime (Debian's package `faketime`)".to_owned()))
}
