//! A private MariaDB.

use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::{
    Backend, Certificates, Missing, Processes, await_ready, folder, free_port, program, run,
};

/// Makes the user of the tests.
pub(super) const MAKE_USER: &str = "CREATE USER keymill@'127.0.0.1' IDENTIFIED BY 'secret'; \
     GRANT ALL ON *.* TO keymill@'127.0.0.1'";

/// A MariaDB server with a user `keymill` who may do everything.
#[derive(Debug)]
pub struct MariaDb {
    program: PathBuf,
    client: PathBuf,
    port: u16,
    settings: Vec<String>,
    // Ended before their folder is removed.
    processes: Processes,
    folder: TempDir,
}

impl MariaDb {
    /// One with MariaDB's own defaults, on an empty folder.
    pub fn start() -> Result<MariaDb, Missing> {
        MariaDb::with(Vec::new())
    }

    /// One that takes encrypted connections too.
    pub fn encrypted(certificates: &Certificates) -> Result<MariaDb, Missing> {
        MariaDb::with(vec![
            format!("--ssl-cert={}", certificates.certificate().display()),
            format!("--ssl-key={}", certificates.key().display()),
        ])
    }

    /// One with settings of the caller's choice.
    pub fn with(settings: Vec<String>) -> Result<MariaDb, Missing> {
        let mut mariadb = MariaDb {
            program: program("mariadbd")?,
            client: program("mariadb")?,
            folder: folder(),
            port: free_port(),
            settings,
            processes: Processes::none(),
        };
        mariadb.install()?;
        Backend::start(&mut mariadb);
        mariadb.sql(MAKE_USER);
        Ok(mariadb)
    }

    /// Makes its tables. That starts a server for a moment, which now and then does not get what it needs
    /// beside all the others that are starting; then it begins anew.
    fn install(&self) -> Result<(), Missing> {
        let data = self.folder.path().join("data");
        for last in [false, false, true] {
            let mut install = Command::new(program("mariadb-install-db")?);
            install
                .args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal"])
                .arg("--skip-test-db")
                .arg(format!("--datadir={}", data.display()));
            if last {
                run(&mut install);
                break;
            } else if install.output().is_ok_and(|output| output.status.success()) {
                break;
            }
            // What it has begun is of no use to the next attempt.
            let _ = std::fs::remove_dir_all(&data);
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        Ok(())
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements as its administrator; what they answer.
    pub fn sql(&self, statements: &str) -> String {
        ask(&self.client, &self.folder.path().join("socket"), statements)
    }
}

impl Backend for MariaDb {
    fn url(&self) -> String {
        url(self.port)
    }

    fn kill(&mut self) {
        self.processes.kill();
    }

    fn start(&mut self) {
        let log = self.folder.path().join("mariadb.log");
        let folder = self.folder.path();
        let mut command = Command::new(&self.program);
        command
            .args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1"])
            .arg("--skip-name-resolve")
            .arg(format!("--port={}", self.port))
            .arg(format!("--datadir={}", folder.join("data").display()))
            .arg(format!("--socket={}", folder.join("socket").display()))
            .arg(format!("--pid-file={}", folder.join("pid").display()))
            .args(&self.settings);
        self.processes.start(&mut command, &log);
        let port = self.port;
        await_ready("mariadb", &log, || greets(port));
    }
}

/// How keymill names the store on a server of this machine.
pub(super) fn url(port: u16) -> String {
    format!("mysql://keymill:secret@127.0.0.1:{port}/keymill")
}

/// Runs statements as the administrator of a server; what they answer.
pub(super) fn ask(client: &Path, socket: &Path, statements: &str) -> String {
    run(Command::new(client)
        .args(["--no-defaults", "--user=root", "--batch", "--skip-column-names", "-e"])
        .arg(statements)
        .arg(format!("--socket={}", socket.display())))
}

/// Whether the server speaks first, as it does once it takes connections.
pub(super) fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut greeting = [0; 16];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.read(&mut greeting).is_ok_and(|length| length > 0)
}
