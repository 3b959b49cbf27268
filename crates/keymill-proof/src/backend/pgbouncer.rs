//! A private PgBouncer in front of a PostgreSQL server, which can be led to another one.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::postgres::{as_user, give_to_user};
use super::{Missing, Processes, await_ready, folder, free_port, program, run};

/// For how long a client has a server connection to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// Until it disconnects.
    Session,
    /// Until its transaction ends.
    Transaction,
    /// Until its statement ends: there are no transactions.
    Statement,
}

/// A PgBouncer for the database `keymill` and the user of that name.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    mode: PoolMode,
    // Ended before their folder is removed.
    processes: Processes,
    folder: TempDir,
}

impl PgBouncer {
    /// One that leads to the PostgreSQL on a port of this machine.
    pub fn start(mode: PoolMode, target: u16) -> Result<PgBouncer, Missing> {
        let program = program("pgbouncer")?;
        let folder = folder();
        give_to_user(folder.path());
        let mut bouncer =
            PgBouncer { port: free_port(), mode, processes: Processes::none(), folder };
        bouncer.write_config(target);
        let mut command = Command::new(program);
        as_user(&mut command).arg(bouncer.config());
        let log = bouncer.folder.path().join("pgbouncer.log");
        bouncer.processes.start(&mut command, &log);
        await_ready("pgbouncer", &log, || {
            bouncer.psql("SHOW VERSION").output().is_ok_and(|output| output.status.success())
        });
        Ok(bouncer)
    }

    /// How keymill names the store behind it.
    pub fn url(&self) -> String {
        format!("postgres://keymill@127.0.0.1:{}/keymill", self.port)
    }

    /// Leads to another server from now on: connections to the one before end with what they are at.
    pub fn lead_to(&self, target: u16) {
        self.write_config(target);
        run(&mut self.psql("RELOAD"));
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("pgbouncer.ini")
    }

    fn write_config(&self, target: u16) {
        let (port, mode) = (self.port, self.mode.name());
        // In transaction mode, so few that instances come by each other's all the time.
        let servers = if self.mode == PoolMode::Session { 40 } else { 3 };
        let config = format!(
            "[databases]\n\
             keymill = host=127.0.0.1 port={target} dbname=keymill user=keymill\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             admin_users = keymill\n\
             pool_mode = {mode}\n\
             default_pool_size = {servers}\n\
             max_client_conn = 200\n\
             server_login_retry = 0.2\n"
        );
        fs::write(self.config(), config).expect("a file can be written into a new folder");
    }

    /// A command of its console.
    fn psql(&self, statement: &str) -> Command {
        let psql = program("psql").unwrap_or_else(|missing| panic!("no {}", missing.0));
        let mut command = Command::new(psql);
        let port = self.port.to_string();
        command.args(["-h", "127.0.0.1", "-p", &port, "-U", "keymill", "-d", "pgbouncer"]);
        command.args(["-qAtc", statement]);
        command
    }
}

impl PoolMode {
    fn name(self) -> &'static str {
        match self {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        }
    }
}
