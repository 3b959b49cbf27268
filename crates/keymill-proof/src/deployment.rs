//! A deployment: a store, and the folder in which the servers of one test on it have their data directories and logs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::backend::{Backend, Kind, unless_missing};
use crate::process::{Server, ServerSpec, binary};

/// A store with a folder, which is removed in the end.
pub struct Deployment {
    store: String,
    folder: TempDir,
    _backend: Option<Box<dyn Backend>>,
}

impl Deployment {
    /// On a SQLite file, `keymill.db` in the folder.
    pub fn sqlite() -> Deployment {
        let mut deployment = Deployment::on(String::new());
        deployment.store = format!("sqlite:{}", deployment.path("keymill.db").display());
        deployment
    }

    /// On the store at a URL.
    ///
    /// # Panics
    ///
    /// When there can be no temporary folder.
    pub fn on(store: impl Into<String>) -> Deployment {
        let folder = tempfile::Builder::new().prefix("keymill-proof-").tempdir();
        let folder = folder.expect("a temporary folder can be made");
        Deployment { store: store.into(), folder, _backend: None }
    }

    /// On a private server of that kind, which ends with it; `None` where this machine lacks it.
    pub fn on_server(kind: Kind) -> Option<Deployment> {
        let backend = unless_missing(kind.start())?;
        let deployment = Deployment::on(backend.url());
        Some(Deployment { _backend: Some(backend), ..deployment })
    }

    /// The URL of the store.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of a name in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server with a data directory of that name.
    pub fn server(&self, data_dir: &str) -> ServerSpec {
        ServerSpec::keymill(&self.store, self.folder(), data_dir)
    }

    /// Starts a server as it is by default.
    pub fn start(&self, data_dir: &str) -> Server {
        self.server(data_dir).start()
    }

    /// Runs a keymill command on the store, with a data directory of that name.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn command(&self, data_dir: &str, args: &[&str]) -> Output {
        let mut command = Command::new(binary("keymill"));
        command.args(args).args(["--store", &self.store, "--data-dir"]).arg(self.path(data_dir));
        command.output().expect("keymill can be started")
    }

    /// The same, and it succeeds; what it wrote.
    ///
    /// # Panics
    ///
    /// With its words, when it fails.
    #[track_caller]
    pub fn run(&self, data_dir: &str, args: &[&str]) -> String {
        let output = self.command(data_dir, args);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?} failed: {said}{complaint}");
        said
    }

    /// The same, and it fails; what it complained of, and all else that it wrote.
    ///
    /// # Panics
    ///
    /// When it succeeds.
    #[track_caller]
    pub fn run_in_vain(&self, data_dir: &str, args: &[&str]) -> String {
        let output = self.command(data_dir, args);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} succeeded: {complaint}");
        complaint + &String::from_utf8_lossy(&output.stdout)
    }

    /// Keeps the folder for somebody to look at.
    pub fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}
