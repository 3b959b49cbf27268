//! PostgreSQL's failovers: one that loses nothing, and one that loses the last leases.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use keymill_proof::backend::{Backend, Postgres, skip};
use keymill_proof::proxy::{Fault, Proxy};
use keymill_proof::{Client, Server};

use super::super::{Received, eventually, is_problem, put, take};
use super::redis::advice;
use super::{fails, has_problem, is_ready, keymill, succeeds, watchful};

const SMALL: &str = r#"{"lease_size_min": 200, "lease_size_max": 200}"#;

#[test]
fn instances_follow_a_failover_to_a_synchronous_standby_and_refuse_the_old_primary() {
    let mut primary = match Postgres::start() {
        Ok(primary) => primary,
        Err(missing) => return skip(&missing),
    };
    let standby = primary.standby("standby").unwrap();
    primary.set("synchronous_standby_names", "standby");
    let both = format!(
        "postgres://keymill@127.0.0.1:{},127.0.0.1:{}/keymill",
        primary.port(),
        standby.port()
    );
    let folder = tempfile::tempdir().unwrap();
    let start = |name| Server::start(&watchful(&both, folder.path(), name));
    let mut servers = ["d0", "d1", "d2"].map(start);
    put(&servers[0], "links", SMALL);
    let received = Mutex::new(Received::default());

    // Under load, until the failover is over.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetWhenDropped(&done);
        for address in servers.each_ref().map(Server::address) {
            let (received, done) = (&received, &done);
            scope.spawn(move || {
                let mut client = Client::new(address);
                while !done.load(Ordering::SeqCst) {
                    let answer = client.take("links", 50).unwrap();
                    if answer.status == 200 {
                        received.lock().unwrap().add(&answer);
                    }
                }
            });
        }
        let count = || received.lock().unwrap().keys.len();
        eventually("many leases were granted", || count() > 20_000);
        primary.kill();
        standby.promote();
        // It has no standby of its own yet.
        standby.set("synchronous_standby_names", "");
        let before = count();
        eventually("they have moved over", || count() > before + 20_000);
    });
    let mut received = received.into_inner().unwrap();
    println!("{} keys over the failover, none twice", received.keys.len());

    // The old primary comes back, and believes that it still is one.
    primary.start();
    primary.set("synchronous_standby_names", "");
    servers[0].kill();
    let again = Server::start(&watchful(&both, folder.path(), "d0"));
    for server in [&again, &servers[1], &servers[2]] {
        eventually("keys come from the new primary", || is_ready(server));
        for _ in 0..20 {
            received.add(&take(server, "links", 50));
        }
    }
    // With nothing but the old one to go to, nothing is granted.
    servers[1].kill();
    let only_old = Server::start(&watchful(&primary.url(), folder.path(), "d1"));
    is_problem(&take(&only_old, "links", 1), 503, "store_went_back");
    eventually("it says so", || has_problem(&only_old, "store_went_back"));
    assert!(only_old.log().contains("timeline"), "{}", only_old.log());
}

/// Ends the callers, also when the test fails.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_failover_that_loses_leases_is_warned_of_noticed_and_reopened() {
    let mut primary = match Postgres::start() {
        Ok(primary) => primary,
        Err(missing) => return skip(&missing),
    };
    // The standby follows through a link that can stall.
    let link = Proxy::start(primary.port());
    let standby = primary.standby_through(link.port(), "standby").unwrap();
    let both = format!(
        "postgres://keymill@127.0.0.1:{},127.0.0.1:{}/keymill",
        primary.port(),
        standby.port()
    );
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("d0");
    let warned = fails(&keymill(&both, &data_dir, &["store", "check"]));
    assert!(warned.contains("none synchronous") && warned.contains("UNSAFE"), "{warned}");
    let refused = fails(&keymill(&both, &data_dir, &["take"]));
    assert!(refused.contains("synchronous_standby_names"), "{refused}");

    let start = |name| {
        let spec = watchful(&both, folder.path(), name);
        Server::start(&spec.arg("--allow-unsafe-store"))
    };
    let servers = ["d0", "d1", "d2"].map(start);
    put(&servers[0], "links", SMALL);
    let mut received = Received::default();
    let work = |received: &mut Received| {
        for turn in 0..60 {
            received.add(&take(&servers[turn % 3], "links", 50));
        }
    };
    work(&mut received);
    eventually("the standby has all that", || {
        let position = "SELECT pg_current_wal_flush_lsn() <= replay_lsn FROM pg_stat_replication";
        primary.sql("postgres", position) == "t"
    });
    link.set(Fault::Stall);
    work(&mut received);
    primary.kill();
    link.cut();
    standby.promote();

    for server in &servers {
        eventually("it is noticed", || has_problem(server, "store_went_back"));
        is_problem(&received.drain(server.address(), "links", 10), 503, "store_went_back");
    }
    let to = servers.iter().map(advice).max().unwrap().to_string();
    succeeds(&keymill(&both, &data_dir, &["space", "advance", "links", "--to", &to]));
    for server in &servers {
        eventually("keys come again", || {
            let answer = take(server, "links", 50);
            answer.status == 200 && received.add(&answer) == 50
        });
    }
    work(&mut received);
    println!("{} keys, none twice", received.keys.len());
}
