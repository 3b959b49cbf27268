//! `backends`: runs a command with one private database server of each kind, named to it by
//! `KEYMILL_TEST_…` variables, and stops the servers when it ends.

use std::process::{Command, ExitCode};

use keymill_proof::backend::{Kind, Missing};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!(
            "Run a command with private database servers.\n\nUsage: backends COMMAND…\n\nExample:\n  \
             backends cargo nextest run -p keymill"
        );
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(words);
    let mut running = Vec::new();
    for kind in Kind::ALL {
        match kind.start() {
            Ok(backend) => {
                command.env(kind.variable(), backend.url());
                running.push(backend);
            }
            Err(Missing(what)) => eprintln!("*** {what} is missing: no {kind:?} to test on ***"),
        }
    }
    match command.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|it| it.try_into().ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("cannot start {command:?}: {error}");
            ExitCode::FAILURE
        }
    }
}
