//! A private etcd cluster.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::{Backend, Certificates, Missing, Processes, await_ready, folder, free_port, program};

/// An etcd cluster.
#[derive(Debug)]
pub struct Etcd {
    /// Its members.
    pub members: Vec<Member>,
    folder: TempDir,
}

/// One member.
#[derive(Debug)]
pub struct Member {
    program: PathBuf,
    name: String,
    port: u16,
    peer_port: u16,
    cluster: String,
    folder: PathBuf,
    /// Its certificate and key, where it takes encrypted connections only.
    encrypted: Option<(PathBuf, PathBuf)>,
    /// What else it is started with.
    settings: Vec<String>,
    /// Where it tells its health.
    metrics_port: u16,
    processes: Processes,
}

impl Etcd {
    /// A cluster of so many members.
    pub fn start(members: usize) -> Result<Etcd, Missing> {
        Etcd::with(members, None, &[])
    }

    /// One member whose database may become so large.
    pub fn with_quota(bytes: u64) -> Result<Etcd, Missing> {
        Etcd::with(1, None, &[format!("--quota-backend-bytes={bytes}")])
    }

    /// One member that takes encrypted connections only.
    pub fn encrypted(certificates: &Certificates) -> Result<Etcd, Missing> {
        Etcd::with(1, Some(certificates), &[])
    }

    fn with(
        members: usize,
        encrypted: Option<&Certificates>,
        settings: &[String],
    ) -> Result<Etcd, Missing> {
        let program = program("etcd")?;
        let folder = folder();
        let ports: Vec<(u16, u16)> = (0..members).map(|_| (free_port(), free_port())).collect();
        let peers = ports.iter().enumerate();
        let peers = peers.map(|(number, ports)| format!("m{number}=http://127.0.0.1:{}", ports.1));
        let cluster = peers.collect::<Vec<_>>().join(",");
        let member = |(number, (port, peer_port)): (usize, (u16, u16))| Member {
            program: program.clone(),
            name: format!("m{number}"),
            port,
            peer_port,
            cluster: cluster.clone(),
            folder: folder.path().to_owned(),
            encrypted: encrypted.map(|it| (it.certificate(), it.key())),
            settings: settings.to_vec(),
            metrics_port: free_port(),
            processes: Processes::none(),
        };
        let members: Vec<Member> = ports.into_iter().enumerate().map(member).collect();
        let mut etcd = Etcd { folder, members };
        Backend::start(&mut etcd);
        Ok(etcd)
    }

    /// The number of the member that leads.
    ///
    /// # Panics
    ///
    /// When none does within 40 seconds.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        await_ready("a leader of etcd", self.folder.path(), || {
            leader = self.members.iter().position(Member::is_leader);
            leader.is_some()
        });
        leader.expect("just found")
    }
}

impl Member {
    /// The port that clients use.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.processes.kill();
    }

    /// Starts it, without waiting for it to answer.
    pub fn start(&mut self) {
        let log = self.log();
        let scheme = if self.encrypted.is_some() { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{}", self.port);
        let metrics = format!("http://127.0.0.1:{}", self.metrics_port);
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let mut command = Command::new(&self.program);
        command
            .args(["--name", &self.name])
            .arg("--data-dir")
            .arg(self.folder.join(&self.name))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.cluster, "--initial-cluster-state", "new"])
            .args(["--listen-metrics-urls", &metrics])
            .args(&self.settings);
        if let Some((certificate, key)) = &self.encrypted {
            command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
        }
        self.processes.start(&mut command, &log);
    }

    /// Waits until it answers for a majority.
    pub fn await_healthy(&self) {
        let healthy = || self.get("/health").is_some_and(|said| said.contains("\"true\""));
        await_ready(&self.name, &self.log(), healthy);
    }

    fn is_leader(&self) -> bool {
        let metrics = self.get("/metrics");
        metrics.is_some_and(|said| said.contains("\netcd_server_is_leader 1"))
    }

    fn log(&self) -> PathBuf {
        Path::join(&self.folder, format!("{}.log", self.name))
    }

    fn get(&self, path: &str) -> Option<String> {
        ask(self.metrics_port, &format!("GET {path} HTTP/1.0\r\n\r\n"))
    }

    /// One of its metrics, by its whole name; `None` where it does not tell it.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let metrics = self.get("/metrics")?;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse().ok()
    }

    /// Calls its API in JSON, and returns the answer.
    ///
    /// # Panics
    ///
    /// When it refuses.
    pub fn call(&self, path: &str, json: &str) -> String {
        let answer = self.try_call(path, json);
        assert!(answer.contains(" 200 OK"), "{path}: {answer}");
        answer
    }

    /// The same, whatever it answers.
    pub fn try_call(&self, path: &str, json: &str) -> String {
        let length = json.len();
        let request = format!("POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{json}");
        ask(self.port, &request).unwrap_or_default()
    }
}

fn ask(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

impl Backend for Etcd {
    fn url(&self) -> String {
        let hosts = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port));
        format!("etcd://{}/keymill", hosts.collect::<Vec<_>>().join(","))
    }

    fn kill(&mut self) {
        self.members.iter_mut().for_each(Member::kill);
    }

    fn start(&mut self) {
        self.members.iter_mut().for_each(Member::start);
        self.members.iter().for_each(Member::await_healthy);
    }
}
