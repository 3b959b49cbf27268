//! Private servers, databases and what stands before instances: on free ports, in a temporary
//! folder, ended by their own pids.
//!
//! Tests start them for themselves where they mean to harm them; the binary `backends` starts
//! one of each for a whole test run. A server that is dropped takes its processes and its data
//! with it.

mod certificates;
mod etcd;
mod mariadb;
mod mysql;
mod nginx;
mod pgbouncer;
mod postgres;
mod redis;

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

pub use certificates::Certificates;
pub use etcd::{Etcd, Member};
pub use mariadb::MariaDb;
pub use mysql::Mysql;
pub use nginx::Nginx;
pub use pgbouncer::{PgBouncer, PoolMode};
pub use postgres::Postgres;
pub use redis::Redis;

/// How long a server may take to answer after its start.
const READY_MAX: Duration = Duration::from_secs(40);

/// A database server that can be harmed.
pub trait Backend: Send {
    /// How keymill names the store on it.
    fn url(&self) -> String;
    /// Kills it as a power cut does, with all its processes.
    fn kill(&mut self);
    /// Starts it again on its data, and waits until it answers.
    fn start(&mut self);
}

/// The programs of a server are not on this machine.
#[derive(Debug)]
pub struct Missing(pub String);

/// One of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MariaDb,
    /// MySQL 9.
    Mysql,
    /// Redis.
    Redis,
    /// etcd, with one member.
    Etcd,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] =
        [Kind::Postgres, Kind::MariaDb, Kind::Mysql, Kind::Redis, Kind::Etcd];

    /// The variable that names a running one to the tests.
    pub fn variable(self) -> &'static str {
        match self {
            Kind::Postgres => "KEYMILL_TEST_POSTGRES",
            Kind::MariaDb => "KEYMILL_TEST_MYSQL",
            Kind::Mysql => "KEYMILL_TEST_MYSQL9",
            Kind::Redis => "KEYMILL_TEST_REDIS",
            Kind::Etcd => "KEYMILL_TEST_ETCD",
        }
    }

    /// Starts one.
    pub fn start(self) -> Result<Box<dyn Backend>, Missing> {
        Ok(match self {
            Kind::Postgres => Box::new(Postgres::start()?),
            Kind::MariaDb => Box::new(MariaDb::start()?),
            Kind::Mysql => Box::new(Mysql::start()?),
            Kind::Redis => Box::new(Redis::start()?),
            Kind::Etcd => Box::new(Etcd::start(1)?),
        })
    }
}

/// What was started; nothing where this machine lacks it. CI fails then; a developer is told, and goes on. MySQL 9 is
/// not installed but fetched, and CI may go on without it when `./test` says that the archive could not be reached.
///
/// # Panics
///
/// In CI.
pub fn unless_missing<T>(started: Result<T, Missing>) -> Option<T> {
    let Missing(what) = match started {
        Ok(started) => return Some(started),
        Err(missing) => missing,
    };
    let is_set = |name: &str| std::env::var(name).is_ok_and(|value| value == "true");
    let excused = what == mysql::MISSING && is_set("KEYMILL_TEST_WITHOUT_MYSQL9");
    assert!(!is_set("CI") || excused, "{what} is missing, and CI must have it");
    eprintln!("\n*** NOT TESTED: {what} is missing on this machine ***\n");
    None
}

/// A free port of this machine. Somebody may take it before it is used; nobody here does.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// The processes of one server.
#[derive(Debug)]
pub(crate) struct Processes {
    child: Option<Child>,
}

impl Processes {
    pub(crate) fn none() -> Processes {
        Processes { child: None }
    }

    /// Starts a program, in a group of its own, its words in a log.
    pub(crate) fn start(&mut self, command: &mut Command, log: &Path) {
        self.kill();
        let file = OpenOptions::new().create(true).append(true).open(log);
        let file = file.unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let again = file.try_clone().expect("a file can be opened twice");
        command.stdin(Stdio::null()).stdout(file).stderr(again).process_group(0);
        let child = command.spawn();
        self.child =
            Some(child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")));
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal(&child, Signal::KILL);
            child.wait().expect("a child can be waited for");
        }
    }

    /// Asks the program to end, and waits until it has; where it does not, it is killed.
    pub(crate) fn stop(&mut self, by: Signal) {
        let pid = self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // Its own children are its own affair.
            let _ = kill_process(pid, by);
        }
        let deadline = Instant::now() + READY_MAX;
        while Instant::now() < deadline {
            if self.has_ended() {
                self.child = None;
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Its group is its own; a child that has ended is not yet reaped.
        let _ = kill_process_group(pid, signal);
    }
}

/// Waits until a server answers.
///
/// # Panics
///
/// With the log, when it does not.
pub(crate) fn await_ready(name: &str, log: &Path, mut is_ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + READY_MAX;
    while !is_ready() {
        assert!(
            Instant::now() < deadline,
            "{name} does not answer:\n{}",
            fs::read_to_string(log).unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A folder for a server's data.
pub(crate) fn folder() -> TempDir {
    let made = tempfile::Builder::new().prefix("keymill-backend-").tempdir();
    made.expect("a temporary folder can be made")
}

/// A program, on the path or where Debian keeps it.
pub(crate) fn program(name: &str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    // Before the path: what is there may be a wrapper.
    let debian = versions.map(|version| version.path().join("bin"));
    let mut found = debian.chain(folders).map(|folder| folder.join(name));
    found.find(|path| path.is_file()).ok_or_else(|| Missing(name.to_owned()))
}

/// Runs a program to its end.
///
/// # Panics
///
/// With its words, when it fails.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{said}{complaint}");
    said
}
