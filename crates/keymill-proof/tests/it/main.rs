//! Real servers as real processes: ends, stops, restored backups, locks; on one SQLite file, and
//! on the servers of the other stores.

#![allow(clippy::unwrap_used, reason = "a test that fails to unwrap has failed, and says where")]

mod chromium;
mod digests;
mod end;
mod grow;
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

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use keymill_proof::{Answer, Client, Server, ServerSpec};

/// Keys received so far, over all servers of a test.
#[derive(Default)]
struct Received {
    keys: HashSet<String>,
}

impl Received {
    /// Adds an answer's keys, none of which may have been there before.
    #[track_caller]
    fn add(&mut self, answer: &Answer) -> usize {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let mut count = 0;
        for key in answer.lines() {
            assert!(self.keys.insert(key.to_owned()), "{key} was handed out twice");
            count += 1;
        }
        count
    }

    /// Takes from a server until it refuses, and returns the refusal.
    #[track_caller]
    fn drain(&mut self, address: SocketAddr, space: &str, batch: u32) -> Answer {
        let mut client = Client::new(address);
        loop {
            let answer = client.take(space, batch).unwrap();
            if answer.status != 200 {
                return answer;
            }
            self.add(&answer);
        }
    }

    /// The same to the very end. The last keys come by ever smaller leases, and may take longer than
    /// one take waits: what it had drawn is still there for the next one.
    fn drain_to_the_end(&mut self, address: SocketAddr, space: &str, batch: u32) -> Answer {
        loop {
            let answer = self.drain(address, space, batch);
            if answer.status != 503 || !answer.text().contains("\"no_keys_ready\"") {
                return answer;
            }
        }
    }
}

/// A server on the folder's database that notices others' doings only by asking: its heartbeat
/// is rare, so that the other ways of noticing have to do.
fn spec(folder: &std::path::Path, data_dir: &str) -> ServerSpec {
    ServerSpec::keymill(folder, data_dir).env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "60")
}

fn take(server: &Server, space: &str, count: u32) -> Answer {
    Client::new(server.address()).take(space, count).unwrap()
}

fn get(server: &Server, path: &str) -> Answer {
    Client::new(server.address()).get(path).unwrap()
}

#[track_caller]
fn put(server: &Server, space: &str, json: &str) {
    let headers = [("content-type", "application/json")];
    let path = format!("/v1/spaces/{space}");
    let answer = Client::new(server.address()).request("PUT", &path, &headers, json.as_bytes());
    let answer = answer.unwrap();
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
