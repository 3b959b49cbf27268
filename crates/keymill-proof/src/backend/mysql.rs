//! A private MySQL, of the kind that is not MariaDB.
//!
//! Its programs are where `mysql-server fetch`, a script of this crate, has put them; `./test` runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::mariadb::{ask, greets, url};
use super::{
    Backend, Certificates, Missing, Processes, await_ready, folder, free_port, program, run,
};

/// What gets it, makes a data directory, and runs it.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mysql-server");
/// What is missing where it was not fetched.
pub(super) const MISSING: &str = "MySQL 9 (crates/keymill-proof/mysql-server fetch)";

/// A MySQL server with a user `keymill` who may do everything.
#[derive(Debug)]
pub struct Mysql {
    client: PathBuf,
    port: u16,
    settings: Vec<String>,
    // Ended before their folder is removed.
    processes: Processes,
    folder: TempDir,
}

impl Mysql {
    /// One with MySQL's own defaults, on an empty folder.
    pub fn start() -> Result<Mysql, Missing> {
        Mysql::with(Vec::new())
    }

    /// One that takes encrypted connections by these certificates. It always takes some.
    pub fn encrypted(certificates: &Certificates) -> Result<Mysql, Missing> {
        Mysql::with(vec![
            format!("--ssl-cert={}", certificates.certificate().display()),
            format!("--ssl-key={}", certificates.key().display()),
            format!("--ssl-ca={}", certificates.authority().display()),
        ])
    }

    /// One with settings of the caller's choice.
    pub fn with(settings: Vec<String>) -> Result<Mysql, Missing> {
        if !is_fetched() {
            return Err(Missing(MISSING.to_owned()));
        }
        let mut mysql = Mysql {
            client: program("mariadb")?,
            folder: folder(),
            port: free_port(),
            settings,
            processes: Processes::none(),
        };
        run(Command::new(SCRIPT).arg("data").arg(mysql.data()));
        Backend::start(&mut mysql);
        mysql.sql(super::mariadb::MAKE_USER);
        Ok(mysql)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements as its administrator; what they answer.
    pub fn sql(&self, statements: &str) -> String {
        ask(&self.client, &self.data().join("socket"), statements)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Backend for Mysql {
    fn url(&self) -> String {
        url(self.port)
    }

    fn kill(&mut self) {
        self.processes.kill();
    }

    fn start(&mut self) {
        let log = self.folder.path().join("mysql.log");
        let mut command = Command::new(SCRIPT);
        command.arg("run").arg(self.data()).arg(self.port.to_string()).args(&self.settings);
        self.processes.start(&mut command, &log);
        let port = self.port;
        await_ready("mysql", &log, || greets(port));
    }
}

/// Whether the script has put it where it keeps it.
fn is_fetched() -> bool {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty());
    let cache = cache.map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cache"))
    });
    cache.is_some_and(|cache| cache.join("keymill/mysql/data").is_dir())
}
