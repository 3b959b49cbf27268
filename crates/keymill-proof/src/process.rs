//! A server process: started, awaited, paused, killed, and always ended by its own pid.
//!
//! Tests and `torture` hold servers here. A [`Server`] that is dropped, by a panic too, takes
//! its process with it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// How long a server may take to greet, and to stop.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Where a server listens that is not told where.
const ANY_PORT: &str = "127.0.0.1:0";

/// What to start.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    /// The program.
    pub binary: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables on top of this process's own.
    pub env: Vec<(String, String)>,
    /// The file that its standard error is added to.
    pub log: PathBuf,
}

impl ServerSpec {
    /// A keymill on a store, with a data directory of its own in `folder`.
    pub fn keymill(store: &str, folder: &Path, data_dir: &str) -> ServerSpec {
        let args = [
            "serve",
            "--listen",
            ANY_PORT,
            "--store",
            store,
            "--data-dir",
            &folder.join(data_dir).display().to_string(),
        ];
        ServerSpec {
            binary: binary("keymill"),
            args: args.map(str::to_owned).to_vec(),
            env: Vec::new(),
            log: folder.join(format!("{data_dir}.log")),
        }
    }

    /// A program that greets and does nothing else.
    #[cfg(test)]
    pub(crate) fn idle(folder: &Path) -> ServerSpec {
        ServerSpec::shell(folder, "echo '  listening  http://127.0.0.1:9' >&2; exec sleep 60")
    }

    #[cfg(test)]
    fn shell(folder: &Path, script: &str) -> ServerSpec {
        ServerSpec {
            binary: PathBuf::from("/bin/sh"),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: Vec::new(),
            log: folder.join("shell.log"),
        }
    }

    /// The same with one more argument.
    pub fn arg(mut self, arg: impl Into<String>) -> ServerSpec {
        self.args.push(arg.into());
        self
    }

    /// The same with one more variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> ServerSpec {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The same with a sign of life every so many seconds, at which it notices what others did: often, or so rarely
    /// that the other ways of noticing have to do.
    pub fn heartbeat(self, seconds: f32) -> ServerSpec {
        self.env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", seconds.to_string())
    }

    /// The same at an address that is known.
    pub fn listen(mut self, address: SocketAddr) -> ServerSpec {
        let listen = self.args.iter_mut().find(|arg| *arg == ANY_PORT);
        *listen.expect("it listens on any port") = address.to_string();
        self
    }

    /// Starts a server and waits until it has greeted.
    ///
    /// # Panics
    ///
    /// With the log, when the server does not greet within 20 seconds.
    pub fn start(&self) -> Server {
        self.try_start().unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Starts a server; what it said instead of a greeting is the error.
    pub fn try_start(&self) -> Result<Server, String> {
        Server::try_start(self)
    }
}

/// A running server, or one that was killed or stopped and not started again.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    /// Says nothing, and hangs up when the process has ended.
    ended: Receiver<SocketAddr>,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    fn try_start(spec: &ServerSpec) -> Result<Server, String> {
        let name = spec.binary.display();
        let log = OpenOptions::new().create(true).append(true).open(&spec.log);
        let log = log.map_err(|error| format!("cannot write {}: {error}", spec.log.display()))?;
        let mut child = Command::new(&spec.binary)
            .args(&spec.args)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        let stderr = child.stderr.take().expect("it was asked to be piped");
        let (found, ended) = mpsc::channel();
        let listener = std::thread::spawn(move || listen(stderr, log, &found));
        let mut server = Server {
            child,
            // Replaced below, before anybody sees it.
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            log: spec.log.clone(),
            ended,
            listener: Some(listener),
        };
        match server.ended.recv_timeout(TIME_MAX) {
            Ok(address) => {
                server.address = address;
                Ok(server)
            }
            Err(why) => {
                server.kill();
                let log = server.log();
                Err(match why {
                    RecvTimeoutError::Timeout => format!("no greeting of {name}:\n{log}"),
                    RecvTimeoutError::Disconnected => format!("{name} ended at once:\n{log}"),
                })
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.reap();
    }

    /// Suspends it; it is suspended when this returns.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        if let Some(pid) = self.live_pid() {
            // Looks without reaping, so that `Child` can still be waited for.
            let what = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(pid), what).expect("the child can be waited for");
        }
    }

    /// Lets it go on after a pause.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to stop in order, and waits until it has.
    ///
    /// # Panics
    ///
    /// With the log, when it has not stopped within 20 seconds; it is killed then.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        if self.ended.recv_timeout(TIME_MAX) == Err(RecvTimeoutError::Timeout) {
            self.kill();
            panic!("did not stop within {TIME_MAX:?}:\n{}", self.log());
        }
        self.reap()
    }

    /// All that it, and servers before it with the same log, wrote to standard error.
    pub fn log(&self) -> String {
        fs::read(&self.log).map_or_else(
            |error| format!("cannot read {}: {error}", self.log.display()),
            |log| String::from_utf8_lossy(&log).into_owned(),
        )
    }

    /// The log, once it contains `text`: what a server writes arrives here a moment after its answers.
    ///
    /// # Panics
    ///
    /// With the log, when it has not come within 20 seconds.
    #[track_caller]
    pub fn log_with(&self, text: &str) -> String {
        let deadline = Instant::now() + TIME_MAX;
        loop {
            let log = self.log();
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < deadline, "no {text:?} in the log:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn reap(&mut self) -> ExitStatus {
        let status = self.child.wait().expect("a child can be waited for");
        if let Some(listener) = self.listener.take() {
            // It ends with the pipe; after it the log is complete.
            let _ = listener.join();
        }
        status
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.live_pid() {
            // The child may have ended by itself, but is not reaped: the pid is still its own.
            let _ = kill_process(pid, signal);
        }
    }

    /// The pid while it cannot be another process's: until the child is reaped.
    fn live_pid(&self) -> Option<Pid> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.filter(|_| self.listener.is_some())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        self.kill();
    }
}

/// The program `name` of the build that the running one belongs to.
///
/// # Panics
///
/// When it has not been built.
pub fn binary(name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("a running program has a path");
    let mut folder = here.parent().expect("a program lies in a folder");
    if folder.ends_with("deps") {
        folder = folder.parent().expect("deps lies in the profile's folder");
    }
    let path = folder.join(name);
    let found = path.is_file();
    assert!(found, "{} is missing: run `cargo build --workspace` first", path.display());
    path
}

/// Copies a server's words into its log, and tells the address once the greeting names it.
fn listen(stderr: impl Read, mut log: File, found: &Sender<SocketAddr>) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    let mut greeted = false;
    while lines.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        // A log that cannot be written must not stop the server by a full pipe.
        let _ = log.write_all(&line);
        if !greeted && let Some(address) = greeting(&String::from_utf8_lossy(&line)) {
            greeted = true;
            let _ = found.send(address);
        }
        line.clear();
    }
}

fn greeting(line: &str) -> Option<SocketAddr> {
    let rest = line.strip_prefix("  listening")?.trim();
    rest.strip_prefix("http://")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_names_the_address() {
        let expected = SocketAddr::from(([127, 0, 0, 1], 4711));
        assert_eq!(greeting("  listening  http://127.0.0.1:4711\n"), Some(expected));
        assert_eq!(greeting("  docs       http://127.0.0.1:4711/docs\n"), None);
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let spec = ServerSpec::shell(folder.path(), "echo no luck >&2; exit 3");
        let problem = spec.try_start().unwrap_err();
        assert!(problem.contains("no luck"), "{problem}");
    }

    #[test]
    fn a_dropped_server_is_gone_even_when_it_was_paused() {
        let folder = tempfile::tempdir().unwrap();
        let server = ServerSpec::idle(folder.path()).start();
        let process = PathBuf::from(format!("/proc/{}", server.pid()));
        assert!(process.exists());
        server.pause();
        drop(server);
        assert!(!process.exists());
    }
}
