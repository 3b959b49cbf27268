//! Redis as it loses data: refused where it would, and noticed where it did. And switchovers, which
//! lose nothing.

mod switchover;

use std::fs;
use std::path::Path;

use keymill_proof::backend::{Backend, Redis, skip};
use keymill_proof::{Server, ServerSpec};

use super::super::{Received, eventually, get, is_problem, put, take};
use super::{fails, has_problem, keymill, quiet, succeeds, watchful};

#[test]
fn the_redis_of_debian_is_refused_with_the_settings_to_change() {
    let redis = match Redis::with(&[]) {
        Ok(redis) => redis,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    for command in [vec!["serve", "--listen", "127.0.0.1:0"], vec!["take"]] {
        let complaint = fails(&keymill(&redis.url(), folder.path(), &command));
        for said in ["appendonly", "appendfsync", "always", "--allow-unsafe-store"] {
            assert!(complaint.contains(said), "{said} is not in {complaint}");
        }
    }
    let check = fails(&keymill(&redis.url(), folder.path(), &["store", "check"]));
    assert!(check.contains("UNSAFE") && check.contains("best effort"), "{check}");
    let allowed = ServerSpec::keymill_on(&redis.url(), folder.path(), "d0");
    let server = Server::start(&allowed.arg("--allow-unsafe-store"));
    assert_eq!(take(&server, "default", 10).status, 200);
    assert!(has_problem(&server, "unsafe_store"));
    let told = get(&server, "/readyz");
    assert!(!told.text().contains("appendonly"), "{}", told.text());
    server.log_with("not safe to lease from: appendonly is no");
    server.log_with("leased from an unsafe store");
}

#[test]
fn a_redis_that_evicts_is_refused() {
    let settings = ["--appendonly", "yes", "--appendfsync", "always"];
    let eviction = ["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"];
    let redis = match Redis::with(&[&settings[..], &eviction[..]].concat()) {
        Ok(redis) => redis,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let complaint = fails(&keymill(&redis.url(), folder.path(), &["take"]));
    assert!(complaint.contains("maxmemory-policy is allkeys-lru"), "{complaint}");
}

#[test]
fn a_redis_that_was_emptied_is_noticed_by_living_and_by_restarted_instances() {
    let redis = match Redis::start() {
        Ok(redis) => redis,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut received = Received::default();
    let mut living = Server::start(&quiet(&redis.url(), folder.path(), "living"));
    let mut restarted = Server::start(&quiet(&redis.url(), folder.path(), "restarted"));
    received.add(&take(&living, "default", 10));
    received.add(&take(&restarted, "default", 10));
    assert_eq!(redis.command("FLUSHALL"), "+OK");
    // What is held goes on, then it is refused.
    is_problem(&received.drain(living.address(), "default", 100), 503, "store_rolled_back");
    is_problem(&received.drain(living.address(), "default", 1), 503, "store_rolled_back");
    assert!(has_problem(&living, "store_rolled_back"));
    restarted.kill();
    let data_dir = folder.path().join("restarted");
    let complaint = fails(&keymill(&redis.url(), &data_dir, &["serve", "--listen", "127.0.0.1:0"]));
    assert!(complaint.contains("belongs to the store"), "{complaint}");
    // A newcomer makes it its own; the one that has seen the other still grants nothing.
    let newcomer = Server::start(&watchful(&redis.url(), folder.path(), "newcomer"));
    assert_eq!(take(&newcomer, "default", 10).status, 200);
    is_problem(&take(&living, "default", 1), 503, "store_rolled_back");
    living.stop();
}

#[test]
fn a_redis_restarted_from_an_old_log_is_noticed_and_reopened() {
    let mut redis = match Redis::start() {
        Ok(redis) => redis,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let mut received = Received::default();
    let living = Server::start(&watchful(&redis.url(), folder.path(), "living"));
    let mut restarted = Server::start(&watchful(&redis.url(), folder.path(), "restarted"));
    received.add(&take(&living, "default", 10));
    received.add(&take(&restarted, "default", 10));
    let (log, old) = (redis.folder().join("appendonlydir"), folder.path().join("old"));
    copy(&log, &old);
    received.add(&take(&living, "default", 3_000));
    received.add(&take(&restarted, "default", 3_000));
    restarted.kill();
    redis.kill();
    fs::remove_dir_all(&log).unwrap();
    copy(&old, &log);
    redis.start();

    let restarted = Server::start(&watchful(&redis.url(), folder.path(), "restarted"));
    for server in [&living, &restarted] {
        eventually("it is noticed", || has_problem(server, "store_rolled_back"));
        is_problem(&received.drain(server.address(), "default", 100), 503, "store_rolled_back");
    }
    let data_dir = folder.path().join("living");
    let highest = [&living, &restarted].map(advice).into_iter().max().unwrap();
    let to = highest.to_string();
    let advance = ["space", "advance", "default", "--to", &to];
    succeeds(&keymill(&redis.url(), &data_dir, &advance));
    for server in [&living, &restarted] {
        eventually("keys come again", || {
            let answer = take(server, "default", 100);
            answer.status == 200 && received.add(&answer) == 100
        });
        for _ in 0..40 {
            received.add(&take(server, "default", 100));
        }
    }
}

#[test]
fn a_lease_that_no_replica_confirms_is_burned() {
    let redis = match Redis::start() {
        Ok(redis) => redis,
        Err(missing) => return skip(&missing),
    };
    let port = redis.port().to_string();
    let mut replica = Redis::with(&["--replicaof", "127.0.0.1", &port]).unwrap();
    eventually("the replica follows", || {
        redis.command("INFO replication").contains("connected_slaves:1")
            && replica.command("INFO replication").contains("master_link_status:up")
    });
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&watchful(&redis.url(), folder.path(), "d0"));
    put(&server, "links", r#"{"lease_size_min": 100, "lease_size_max": 100}"#);
    let mut received = Received::default();
    received.add(&take(&server, "links", 50));
    replica.kill();
    is_problem(&received.drain(server.address(), "links", 10), 503, "no_keys_ready");
    eventually("it says so", || has_problem(&server, "store_unavailable"));
    // Why is told by the log alone.
    server.log_with("replicas of redis");
    replica.start();
    eventually("keys come again", || {
        let answer = take(&server, "links", 50);
        answer.status == 200 && received.add(&answer) == 50
    });
    // Nobody goes to a replica.
    let to_replica = format!("redis://127.0.0.1:{}/0", replica.port());
    let complaint = fails(&keymill(&to_replica, folder.path(), &["take"]));
    assert!(complaint.contains("role is slave"), "{complaint}");
}

/// How far an instance says that the space must be advanced.
pub(super) fn advice(server: &Server) -> u64 {
    let said = get(server, "/readyz");
    let text = said.text();
    let from = text.find("--to ").unwrap_or_else(|| panic!("no advice in {text}")) + 5;
    let digits = text[from..].find(|c: char| !c.is_ascii_digit()).unwrap() + from;
    text[from..digits].parse().unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
