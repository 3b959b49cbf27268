//! A private PostgreSQL, and standbys of it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    Backend, Certificates, Missing, Processes, await_ready, folder, free_port, program, run,
};

/// A PostgreSQL server with a superuser `keymill` and a database of that name.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    settings: Vec<String>,
    // Ended before their folder is removed.
    processes: Processes,
    folder: TempDir,
}

impl Postgres {
    /// One with PostgreSQL's own defaults, on an empty folder.
    pub fn start() -> Result<Postgres, Missing> {
        Postgres::with(&[])
    }

    /// One that takes encrypted connections too.
    pub fn encrypted(certificates: &Certificates) -> Result<Postgres, Missing> {
        let certificate = format!("ssl_cert_file={}", certificates.certificate().display());
        let key = format!("ssl_key_file={}", certificates.key().display());
        Postgres::with(&["ssl=on", &certificate, &key])
    }

    /// One with settings of the caller's choice.
    pub fn with(settings: &[&str]) -> Result<Postgres, Missing> {
        let mut postgres = Postgres::new()?;
        postgres.settings = settings.iter().map(ToString::to_string).collect();
        run(as_user(&mut Command::new(program("initdb")?))
            .args(["-U", "keymill", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(postgres.data()));
        Backend::start(&mut postgres);
        postgres.sql("postgres", "CREATE DATABASE keymill");
        Ok(postgres)
    }

    /// A standby that follows this server under a name, made with `pg_basebackup`.
    pub fn standby(&self, name: &str) -> Result<Postgres, Missing> {
        self.standby_through(self.port, name)
    }

    /// A standby that follows this server through a port that leads to it.
    pub fn standby_through(&self, port: u16, name: &str) -> Result<Postgres, Missing> {
        let mut standby = Postgres::new()?;
        let source = format!("host=127.0.0.1 port={port} user=keymill application_name={name}");
        run(as_user(&mut Command::new(program("pg_basebackup")?))
            .args(["-d", &source, "-X", "stream", "-c", "fast", "--no-sync", "-R", "-D"])
            .arg(standby.data()));
        Backend::start(&mut standby);
        Ok(standby)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs one statement; what it answers.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let psql = program("psql").unwrap_or_else(|missing| panic!("no {}", missing.0));
        let port = self.port.to_string();
        run(Command::new(psql)
            .args(["-h", "127.0.0.1", "-p", &port, "-U", "keymill", "-d", database])
            .args(["-v", "ON_ERROR_STOP=1", "-qAtc", statement]))
        .trim()
        .to_owned()
    }

    /// Changes a setting and has the server read it.
    pub fn set(&self, setting: &str, value: &str) {
        self.sql("postgres", &format!("ALTER SYSTEM SET {setting} = '{value}'"));
        self.sql("postgres", "SELECT pg_reload_conf()");
        await_ready(setting, &self.log(), || {
            self.sql("postgres", &format!("SHOW {setting}")) == value
        });
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.sql("postgres", "SELECT pg_promote(true, 30)");
    }

    /// Stops it in order, as an administrator does: whoever is connected is told.
    pub fn stop(&mut self) {
        self.processes.stop(Signal::INT);
    }

    fn new() -> Result<Postgres, Missing> {
        program("postgres")?;
        let folder = folder();
        give_to_user(folder.path());
        Ok(Postgres {
            folder,
            port: free_port(),
            settings: Vec::new(),
            processes: Processes::none(),
        })
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("postgres.log")
    }

    fn launch(&mut self) {
        let log = self.log();
        let program = program("postgres").unwrap_or_else(|missing| panic!("no {}", missing.0));
        let mut command = Command::new(program);
        as_user(&mut command)
            .arg("-D")
            .arg(self.data())
            .args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-c", "shared_buffers=32MB"])
            .args(self.settings.iter().flat_map(|setting| ["-c", setting]));
        self.processes.start(&mut command, &log);
    }
}

impl Backend for Postgres {
    fn url(&self) -> String {
        format!("postgres://keymill@127.0.0.1:{}/keymill", self.port)
    }

    fn kill(&mut self) {
        self.processes.kill();
    }

    fn start(&mut self) {
        let log = self.log();
        let port = self.port.to_string();
        let is_ready = program("pg_isready").unwrap_or_else(|missing| panic!("no {}", missing.0));
        self.launch();
        await_ready("postgres", &log, || {
            // Processes that a kill left may hold the shared memory for another moment.
            if self.processes.has_ended() {
                self.launch();
            }
            let mut command = Command::new(&is_ready);
            let command = command.args(["-q", "-h", "127.0.0.1", "-p", &port]);
            command.status().is_ok_and(|status| status.success())
        });
    }
}

/// PostgreSQL refuses to run as root.
pub(super) fn as_user(command: &mut Command) -> &mut Command {
    if let Some((user, group)) = unprivileged() {
        // A folder that user may enter.
        command.uid(user).gid(group).current_dir("/");
    }
    command
}

/// Gives a file or folder to the user that PostgreSQL runs as.
pub(super) fn give_to_user(folder: &Path) {
    if let Some((user, group)) = unprivileged() {
        std::os::unix::fs::chown(folder, Some(user), Some(group)).expect("root may give folders");
    }
}

/// The user to run as, where this is root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody"))
}
