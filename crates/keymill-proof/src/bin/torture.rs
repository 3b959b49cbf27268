//! `torture`: takes keys of servers that are killed, paused and stopped, and looks for one
//! received twice. Exits with 1 when there is one, or when the run fell short of its aims.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use keymill_proof::backend::{Kind, Missing};
use keymill_proof::torture::{Harm, Store};
use keymill_proof::{ServerSpec, Torture, binary};

/// Kill, pause and stop keymill servers under load, and look for a key received twice.
#[derive(Debug, Parser)]
struct Args {
    /// How many servers share the store.
    #[arg(long, default_value_t = 3)]
    servers: usize,
    /// How many keys to receive, at least.
    #[arg(long, default_value_t = 3_000_000)]
    keys: u64,
    /// How many servers to kill, at least.
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// How many servers to pause, at least.
    #[arg(long, default_value_t = 20)]
    pauses: u32,
    /// How many servers to stop in order, at least.
    #[arg(long, default_value_t = 5)]
    stops: u32,
    /// The store: sqlite, postgres, mysql (MariaDB), mysql9, redis or etcd; a private server is
    /// started for it.
    #[arg(long, default_value = "sqlite")]
    store: String,
    /// How often to kill that server, at least.
    #[arg(long, default_value_t = 0)]
    store_kills: u32,
    /// How many callers take keys at once.
    #[arg(long, default_value_t = 12)]
    callers: usize,
    /// The longest a run may take.
    #[arg(long, default_value_t = 90)]
    seconds_max: u64,
    /// The keyspace to take from; it is made.
    #[arg(long, default_value = "torture")]
    space: String,
    /// Its definition and tuning, in JSON [default: small leases]
    #[arg(long)]
    space_body: Option<String>,
    /// What the nemesis does follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End with the first duplicate.
    #[arg(long)]
    until_duplicate: bool,
    /// The server program [default: the keymill of this build]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// More arguments for the servers.
    #[arg(last = true)]
    server_args: Vec<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let folder = tempfile::Builder::new()
        .prefix("keymill-torture-")
        .tempdir()
        .expect("a temporary folder can be made");
    let store = match args.backend() {
        Ok(store) => store,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    let torture = args.torture(folder.path(), store);
    let report = torture.run();
    println!("{report}");
    let reached = torture.is_reached_by(&report);
    if !reached && !args.until_duplicate {
        eprintln!("the run fell short of what it aimed at");
    }
    if report.is_valid() && reached {
        return ExitCode::SUCCESS;
    }
    eprintln!("store and logs are kept in {}", folder.keep().display());
    ExitCode::FAILURE
}

impl Args {
    fn backend(&self) -> Result<Option<Store>, String> {
        let kind = match self.store.as_str() {
            "sqlite" => return Ok(None),
            "postgres" => Kind::Postgres,
            "mysql" => Kind::MariaDb,
            "mysql9" => Kind::Mysql,
            "redis" => Kind::Redis,
            "etcd" => Kind::Etcd,
            other => return Err(format!("`{other}` is not a kind of store")),
        };
        let started = kind.start().map_err(|Missing(what)| format!("{what} is missing"))?;
        Ok(Some(Arc::new(Mutex::new(started))))
    }

    fn torture(&self, folder: &Path, store: Option<Store>) -> Torture {
        let url = store.as_ref().map(|store| store.lock().expect("nobody else has it").url());
        let binary = self.binary.clone().unwrap_or_else(|| binary("keymill"));
        let spec = |number| {
            let name = format!("server-{number}");
            let mut spec = match &url {
                Some(url) => ServerSpec::keymill_on(url, folder, &name),
                None => ServerSpec::keymill(folder, &name),
            };
            spec.binary.clone_from(&binary);
            spec.args.extend(self.server_args.iter().cloned());
            spec
        };
        let mut torture = Torture::new((1..=self.servers.max(1)).map(spec).collect());
        torture.keys = self.keys;
        torture.kills.count = self.kills;
        torture.pauses.count = self.pauses;
        torture.stops.count = self.stops;
        torture.store_kills = Harm::new(self.store_kills, 2_000..4_000, 200..1_500);
        torture.store = store;
        torture.callers = self.callers.max(1);
        torture.time_max = Duration::from_secs(self.seconds_max);
        torture.space.clone_from(&self.space);
        if let Some(body) = &self.space_body {
            torture.space_body.clone_from(body);
        }
        torture.seed = self.seed;
        torture.until_duplicate = self.until_duplicate;
        torture
    }
}
