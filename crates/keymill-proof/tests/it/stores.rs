//! Real instances on real database servers, which are killed, cut off, emptied and restored.

mod doubt;
mod etcd;
mod mysql;
mod pgbouncer;
mod postgres;
mod redis;
mod serve;
mod tls;

use std::path::Path;
use std::process::{Command, Output};

use keymill_proof::backend::{Backend, Kind, skip};
use keymill_proof::{Server, ServerSpec, binary};

/// A server of a kind; none where the machine lacks it, which CI does not allow.
fn backend(kind: Kind) -> Option<Box<dyn Backend>> {
    kind.start().map_err(|missing| skip(&missing)).ok()
}

/// An instance that notices others' doings only by asking: its heartbeat is rare.
fn quiet(store: &str, folder: &Path, data_dir: &str) -> ServerSpec {
    let spec = ServerSpec::keymill_on(store, folder, data_dir);
    spec.env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "60")
}

/// An instance that looks at its store again and again.
fn watchful(store: &str, folder: &Path, data_dir: &str) -> ServerSpec {
    let spec = ServerSpec::keymill_on(store, folder, data_dir);
    spec.env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2")
}

/// Runs a keymill command on a store.
fn keymill(store: &str, data_dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(binary("keymill"));
    command.args(args).args(["--store", store, "--data-dir"]).arg(data_dir);
    command.output().unwrap()
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// What a command that failed complained of.
#[track_caller]
fn fails(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it succeeded: {said}");
    said + &String::from_utf8_lossy(&output.stdout)
}

fn is_ready(server: &Server) -> bool {
    super::get(server, "/readyz").text().contains("\"problems\":[]")
}

fn has_problem(server: &Server, code: &str) -> bool {
    super::get(server, "/readyz").text().contains(&format!("\"{code}\""))
}
