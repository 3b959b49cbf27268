//! Real servers as real processes: ends, stops, restored backups, locks; on one SQLite file, and
//! on the servers of the other stores.

#![allow(clippy::unwrap_used, reason = "a test that fails to unwrap has failed, and says where")]

mod bench;
mod chromium;
mod client;
mod digests;
mod end;
mod grow;
mod http2;
mod interleaved;
mod large;
mod locked;
mod names;
mod pool;
mod rolled_back;
mod rolling;
mod snowflake;
mod starts;
mod stops;
mod stores;
mod syncs;
mod tokens;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use keymill_proof::{Answer, Client, Deployment, Received, Server, ServerSpec};

/// A server that notices others' doings only by asking: its heartbeat is rare, so that the other ways of noticing
/// have to do.
fn quiet(deployment: &Deployment, data_dir: &str) -> ServerSpec {
    deployment.server(data_dir).heartbeat(60.0)
}

/// A server that looks at its store again and again.
fn watchful(deployment: &Deployment, data_dir: &str) -> ServerSpec {
    deployment.server(data_dir).heartbeat(0.2)
}

fn take(server: &Server, space: &str, count: u32) -> Answer {
    Client::new(server.address()).take(space, count).unwrap()
}

/// Whether a take gives as many keys as it asks for; none of them came before.
#[track_caller]
fn gives(received: &mut Received, server: &Server, space: &str, count: u32) -> bool {
    let answer = take(server, space, count);
    answer.status == 200 && received.add(&answer) == count as usize
}

fn get(server: &Server, path: &str) -> Answer {
    Client::new(server.address()).get(path).unwrap()
}

#[track_caller]
fn put(server: &Server, space: &str, json: &str) {
    let answer = Client::new(server.address()).put_space(space, json).unwrap();
    assert!([200, 201].contains(&answer.status), "{}", answer.text());
}

/// Asks until it is so, or fails after a time that is long enough for anything here.
#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn is_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let wanted = format!("\"code\":\"{code}\"");
    assert!(answer.text().contains(&wanted), "{} is not {code}", answer.text());
}

/// Whether a server is ready, and knows of nothing that is wrong.
fn is_well(server: &Server) -> bool {
    get(server, "/readyz").text().contains("\"problems\":[]")
}

fn has_problem(server: &Server, code: &str) -> bool {
    get(server, "/readyz").text().contains(&format!("\"{code}\""))
}

/// How far a server says that a space must be advanced.
#[track_caller]
fn advice(server: &Server) -> u64 {
    let ready = get(server, "/readyz");
    let (_, rest) = ready.text().split_once("--to ").unwrap_or_else(|| panic!("{}", ready.text()));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap()
}

/// An answer in JSON.
#[track_caller]
fn json(answer: &Answer) -> serde_json::Value {
    serde_json::from_str(answer.text()).unwrap_or_else(|_| panic!("{}", answer.text()))
}

/// A number in JSON, which may be written as a string.
#[track_caller]
fn number(json: &serde_json::Value) -> u64 {
    json.as_u64().or_else(|| json.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{json}"))
}

/// Copies the files of a folder into another, which is made.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
