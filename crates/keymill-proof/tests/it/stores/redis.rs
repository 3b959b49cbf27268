//! Redis as it loses data: refused where it would, and noticed where it did. And switchovers, which
//! lose nothing.

mod switchover;

use std::fs;

use keymill_proof::backend::{Backend, Redis, unless_missing};
use keymill_proof::{Deployment, Received};

use super::super::{
    advice, copy_files, eventually, get, gives, has_problem, is_problem, put, quiet, take, watchful,
};

#[test]
fn the_redis_of_debian_is_refused_with_the_settings_to_change() {
    let Some(redis) = unless_missing(Redis::with(&[])) else { return };
    let deployment = Deployment::on(redis.url());
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["take"]] {
        let complaint = deployment.run_in_vain("cli", command);
        for said in ["appendonly", "appendfsync", "always", "--allow-unsafe-store"] {
            assert!(complaint.contains(said), "{said} is not in {complaint}");
        }
    }
    let check = deployment.run_in_vain("cli", &["store", "check"]);
    assert!(check.contains("UNSAFE") && check.contains("best effort"), "{check}");
    let server = deployment.server("d0").arg("--allow-unsafe-store").start();
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
    let Some(redis) = unless_missing(Redis::with(&[&settings[..], &eviction[..]].concat())) else {
        return;
    };
    let deployment = Deployment::on(redis.url());
    let complaint = deployment.run_in_vain("cli", &["take"]);
    assert!(complaint.contains("maxmemory-policy is allkeys-lru"), "{complaint}");
}

#[test]
fn a_redis_that_was_emptied_is_noticed_by_living_and_by_restarted_instances() {
    let Some(redis) = unless_missing(Redis::start()) else { return };
    let deployment = Deployment::on(redis.url());
    let mut received = Received::default();
    let mut living = quiet(&deployment, "living").start();
    let mut restarted = quiet(&deployment, "restarted").start();
    received.add(&take(&living, "default", 10));
    received.add(&take(&restarted, "default", 10));
    assert_eq!(redis.command("FLUSHALL"), "+OK");
    // What is held goes on, then it is refused.
    is_problem(&received.drain(living.address(), "default", 100), 503, "store_rolled_back");
    is_problem(&received.drain(living.address(), "default", 1), 503, "store_rolled_back");
    assert!(has_problem(&living, "store_rolled_back"));
    restarted.kill();
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let complaint = deployment.run_in_vain("restarted", &serve);
    assert!(complaint.contains("belongs to the store"), "{complaint}");
    // A newcomer makes it its own; the one that has seen the other still grants nothing.
    let newcomer = watchful(&deployment, "newcomer").start();
    assert_eq!(take(&newcomer, "default", 10).status, 200);
    is_problem(&take(&living, "default", 1), 503, "store_rolled_back");
    living.stop();
}

#[test]
fn a_redis_restarted_from_an_old_log_is_noticed_and_reopened() {
    let Some(mut redis) = unless_missing(Redis::start()) else { return };
    let deployment = Deployment::on(redis.url());
    let mut received = Received::default();
    let living = watchful(&deployment, "living").start();
    let mut restarted = watchful(&deployment, "restarted").start();
    received.add(&take(&living, "default", 10));
    received.add(&take(&restarted, "default", 10));
    let (log, old) = (redis.folder().join("appendonlydir"), deployment.path("old"));
    copy_files(&log, &old);
    received.add(&take(&living, "default", 3_000));
    received.add(&take(&restarted, "default", 3_000));
    restarted.kill();
    redis.kill();
    fs::remove_dir_all(&log).unwrap();
    copy_files(&old, &log);
    redis.start();

    let restarted = watchful(&deployment, "restarted").start();
    for server in [&living, &restarted] {
        eventually("it is noticed", || has_problem(server, "store_rolled_back"));
        is_problem(&received.drain(server.address(), "default", 100), 503, "store_rolled_back");
    }
    let highest = [&living, &restarted].map(advice).into_iter().max().unwrap();
    deployment.run("living", &["space", "advance", "default", "--to", &highest.to_string()]);
    for server in [&living, &restarted] {
        eventually("keys come again", || gives(&mut received, server, "default", 100));
        for _ in 0..40 {
            received.add(&take(server, "default", 100));
        }
    }
}

#[test]
fn a_lease_that_no_replica_confirms_is_burned() {
    let Some(redis) = unless_missing(Redis::start()) else { return };
    let port = redis.port().to_string();
    let mut replica = Redis::with(&["--replicaof", "127.0.0.1", &port]).unwrap();
    eventually("the replica follows", || {
        redis.command("INFO replication").contains("connected_slaves:1")
            && replica.command("INFO replication").contains("master_link_status:up")
    });
    let deployment = Deployment::on(redis.url());
    let server = watchful(&deployment, "d0").start();
    put(&server, "links", r#"{"lease_size_min": 100, "lease_size_max": 100}"#);
    let mut received = Received::default();
    received.add(&take(&server, "links", 50));
    replica.kill();
    is_problem(&received.drain(server.address(), "links", 10), 503, "no_keys_ready");
    eventually("it says so", || has_problem(&server, "store_unavailable"));
    // Why is told by the log alone.
    server.log_with("replicas of redis");
    replica.start();
    eventually("keys come again", || gives(&mut received, &server, "links", 50));
    // Nobody goes to a replica.
    let complaint = Deployment::on(replica.url()).run_in_vain("cli", &["take"]);
    assert!(complaint.contains("role is slave"), "{complaint}");
}
