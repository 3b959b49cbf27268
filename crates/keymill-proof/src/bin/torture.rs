//! `torture`: takes keys of servers that are killed, paused and stopped, and looks for one
//! received twice. Exits with 1 when there is one, or when the run fell short of its aims.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use clap::Parser;
use keymill_proof::backend::{Kind, Missing};
use keymill_proof::harm::StoreServer;
use keymill_proof::{Deed, Deployment, Harm, Torture, binary};

/// Kill, pause and stop keymill servers under load, and look for a key received twice.
#[derive(Debug, Parser)]
struct Args {
    /// How many servers share the store.
    #[arg(long, default_value_t = 3)]
    servers: usize,
    /// How many keys to receive, at least.
    #[arg(long, default_value_t = 3_000_000)]
    keys: usize,
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
    /// What callers and harm do by chance follows from it.
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
    let store = match args.store_server() {
        Ok(store) => store,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    let deployment = match &store {
        Some(store) => Deployment::on(store.lock().expect("nobody else has it").url()),
        None => Deployment::sqlite(),
    };
    let report = args.torture(&deployment, store).run();
    println!("{report}");
    if !report.is_reached && !args.until_duplicate {
        eprintln!("the run fell short of what it aimed at");
    }
    if report.received.duplicated() == 0 && report.is_reached {
        return ExitCode::SUCCESS;
    }
    eprintln!("store and logs are kept in {}", deployment.keep().display());
    ExitCode::FAILURE
}

impl Args {
    fn store_server(&self) -> Result<Option<StoreServer>, String> {
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
        Ok(Some(Mutex::new(started)))
    }

    fn torture(&self, deployment: &Deployment, store: Option<StoreServer>) -> Torture {
        let binary = self.binary.clone().unwrap_or_else(|| binary("keymill"));
        let spec = |number| {
            let mut spec = deployment.server(&format!("server-{number}"));
            spec.binary.clone_from(&binary);
            spec.args.extend(self.server_args.iter().cloned());
            spec
        };
        let mut torture = Torture::new((1..=self.servers.max(1)).map(spec).collect());
        torture.keys = self.keys;
        for harm in &mut torture.plan.harms {
            harm.count = match harm.deed {
                Deed::Kill => self.kills,
                Deed::Pause => self.pauses,
                Deed::Stop => self.stops,
                Deed::KillStore => 0,
            };
        }
        let store_kills = Harm::new(Deed::KillStore, self.store_kills, 2_000..4_000, 200..1_500);
        torture.plan.harms.push(store_kills);
        torture.plan.store = store;
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
