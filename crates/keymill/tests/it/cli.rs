//! The command line, as a person or a script meets it.

mod advance;
mod asking;
mod backup;
mod bench;
mod closed_ports;
mod digest;
mod greeting;
mod growth;
mod health;
mod imports;
mod listed_tokens;
mod listeners;
mod manual;
mod mistyped;
mod moving;
mod names;
mod notify;
mod origins;
mod output;
mod paths;
mod reload;
mod secretless;
mod secrets;
mod serve;
mod server_mode;
mod server_refusals;
mod server_secrets;
mod settings;
mod spaces;
mod stores;
mod take;
mod tokens;
#[cfg(feature = "otel")]
mod traces;
mod tuning;
mod unknown;
mod untouched;

use std::path::Path;
use std::process::{Command, Output};

pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keymill"));
        command.args(args).current_dir(self.path()).env_clear();
        command.env("XDG_DATA_HOME", self.path()).env("HOME", self.path());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns what it wrote to standard output.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail with this code and say this.
    #[track_caller]
    pub(crate) fn fails(&self, args: &[&str], code: i32, says: &str) {
        failed(&self.run(args), code, says);
    }
}

#[track_caller]
fn failed(output: &Output, code: i32, says: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(says), "`{said}` does not say `{says}`");
    assert!(!said.contains("panicked"), "{said}");
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
