//! A private Redis.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::{Backend, Certificates, Missing, Processes, await_ready, folder, free_port, program};

/// A Redis server, safe unless told otherwise.
#[derive(Debug)]
pub struct Redis {
    program: PathBuf,
    port: u16,
    settings: Vec<String>,
    // Ended before their folder is removed.
    processes: Processes,
    folder: TempDir,
}

impl Redis {
    /// One that writes every change to disk before it answers.
    pub fn start() -> Result<Redis, Missing> {
        Redis::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// One that takes encrypted connections too, and its URL for them.
    pub fn encrypted(certificates: &Certificates) -> Result<(Redis, String), Missing> {
        let port = free_port();
        let redis = Redis::with(&[
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--tls-port",
            &port.to_string(),
            "--tls-auth-clients",
            "no",
            "--tls-cert-file",
            &certificates.certificate().display().to_string(),
            "--tls-key-file",
            &certificates.key().display().to_string(),
            "--tls-ca-cert-file",
            &certificates.authority().display().to_string(),
        ])?;
        Ok((redis, format!("rediss://127.0.0.1:{port}/0")))
    }

    /// One with settings of the caller's choice; none are Redis' own defaults.
    pub fn with(settings: &[&str]) -> Result<Redis, Missing> {
        let mut redis = Redis {
            program: program("redis-server")?,
            folder: folder(),
            port: free_port(),
            settings: settings.iter().map(ToString::to_string).collect(),
            processes: Processes::none(),
        };
        Backend::start(&mut redis);
        Ok(redis)
    }

    /// The folder of its data.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends a command, its words separated by spaces; the first bytes of the answer.
    ///
    /// # Panics
    ///
    /// When the server cannot be reached.
    pub fn command(&self, words: &str) -> String {
        ask(self.port, words).expect("the server answers")
    }
}

impl Backend for Redis {
    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    fn kill(&mut self) {
        self.processes.kill();
    }

    fn start(&mut self) {
        let log = self.folder.path().join("redis.log");
        let mut command = Command::new(&self.program);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.arg("--dir").arg(self.folder.path()).args(&self.settings);
        self.processes.start(&mut command, &log);
        let port = self.port;
        await_ready("redis", &log, || ask(port, "PING").is_some_and(|said| said == "+PONG"));
    }
}

fn ask(port: u16, words: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(format!("{words}\r\n").as_bytes()).ok()?;
    let mut answer = [0; 4_096];
    let length = stream.read(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer[..length]).trim().to_owned())
}
