//! `backends`: runs a command with one private database server of each kind, named to it by
//! `KEYMILL_TEST_…` variables, and stops the servers when it ends.

use std::process::{Child, Command, ExitCode};

use keymill_proof::backend::{Kind, Missing};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

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
    match command.spawn() {
        Ok(child) => wait_for(child),
        Err(error) => {
            eprintln!("cannot start {command:?}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for the command, and passes on what would end this process: the servers are to be stopped.
fn wait_for(mut child: Child) -> ExitCode {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the system can make a runtime");
    let status = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).expect("signals can be caught");
        let mut interrupt = signal(SignalKind::interrupt()).expect("signals can be caught");
        let mut ended = tokio::task::spawn_blocking(move || child.wait());
        loop {
            tokio::select! {
                status = &mut ended => break status.expect("waiting does not panic"),
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            // It may have ended just now.
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
    });
    let code = status.ok().and_then(|status| status.code()).and_then(|it| it.try_into().ok());
    ExitCode::from(code.unwrap_or(1))
}
