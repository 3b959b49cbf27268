//! Real instances on real database servers, which are killed, cut off, emptied and restored.

mod doubt;
mod etcd;
mod mysql;
mod pgbouncer;
mod postgres;
mod redis;
mod serve;
mod tls;

use std::fs;

use keymill_proof::{Caller, Deployment, Fleet, Load, Run};

/// One caller for each server, who takes of a space.
fn load<'a>(fleet: &Fleet, space: &'a str, count: u32) -> Load<'a> {
    Load::of((0..fleet.len()).map(|server| Caller::http(space).of(server).takes(count)))
}

/// Waits until callers have so many more keys.
#[track_caller]
fn await_more(run: &Run<'_>, what: &str, keys: usize) {
    let before = run.keys();
    super::eventually(what, || run.keys() > before + keys);
}

/// Says that keys of the space `tickets` are in use.
#[track_caller]
fn import_used(deployment: &Deployment, keys: &[String]) {
    let file = deployment.path("used.txt");
    fs::write(&file, keys.join("\n")).unwrap();
    let file = file.to_str().unwrap();
    println!("{}", deployment.run("importer", &["space", "import-used", "tickets", file]));
}
