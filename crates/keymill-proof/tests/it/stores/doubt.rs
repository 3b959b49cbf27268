//! Faults between an instance and its store: the answer to a commit that is lost, a link that
//! stalls or resets, and an instance paused in the middle of a transaction.

use std::time::{Duration, Instant};

use keymill_proof::backend::Kind;
use keymill_proof::proxy::{Fault, Proxy};
use keymill_proof::{Client, Deployment, Received, Server};

use super::super::{eventually, get, gives, json, number, put, quiet, take};
use super::serve::on_every_server;

/// Longer than a caller waits for keys, shorter than anything without a limit.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const LEASE_SIZE: u64 = 1_000;

on_every_server! {
    an_answer_that_is_lost_burns_what_it_granted_and_little_more
    an_instance_paused_in_a_transaction_stops_nobody_for_long
}

fn an_answer_that_is_lost_burns_what_it_granted_and_little_more(kind: Kind) {
    let Some(deployment) = Deployment::on_server(kind) else { return };
    let (proxy, through) = Proxy::before(deployment.store());
    let through = Deployment::on(through);
    let direct = quiet(&deployment, "direct").start();
    let size = format!(r#"{{"lease_size_min": {LEASE_SIZE}, "lease_size_max": {LEASE_SIZE}}}"#);
    put(&direct, "links", &size);
    let server = quiet(&through, "through").start();
    let mut received = Received::default();
    received.add(&take(&server, "links", 10));

    let commit = commit_of(kind);
    let mut slowest = Duration::ZERO;
    let faults = [Fault::LoseAnswer(commit), Fault::Stall, Fault::Reset];
    for fault in faults {
        proxy.set(fault);
        // Until it is dry, and for a while after it.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(6) {
            let asked_at = Instant::now();
            let answer = take(&server, "links", 100);
            slowest = slowest.max(asked_at.elapsed());
            match answer.status {
                200 => _ = received.add(&answer),
                503 => assert!(answer.header("retry-after").is_some(), "{}", answer.text()),
                _ => panic!("{}", answer.text()),
            }
        }
        proxy.set(Fault::None);
        eventually("keys come again", || gives(&mut received, &server, "links", 1));
    }
    assert!(slowest < ANSWER_MAX, "an answer took {slowest:?}");
    assert!(proxy.struck() >= 2, "{} answers were lost", proxy.struck());
    let drawn = received.len() as u64;
    received.add(&take(&direct, "links", 3_000));

    // What was granted to the one behind the proxy, and neither drawn nor at hand, is burned.
    // A refill may still be on its way.
    let (mut leases, mut at_hand) = (Vec::new(), 0);
    eventually("nothing is on its way", || {
        let before = self::leases(&direct, &server);
        at_hand = number(&json(&get(&server, "/v1/spaces/links"))["at_hand"]);
        leases = self::leases(&direct, &server);
        leases == before
    });
    let granted: u64 = leases.iter().sum();
    let burned = granted - drawn - at_hand;
    let singles = leases.iter().filter(|size| **size == 1).count() as u64;
    println!(
        "{kind:?}: {} leases, {granted} granted, {drawn} drawn, {at_hand} at hand, {burned} burned, \
         {singles} asked for one; {} answers lost, the slowest answer {slowest:?}",
        leases.len(),
        proxy.struck()
    );
    // One whole lease each time that a doubt begins, and one ordinal each time after it.
    assert!(burned <= faults.len() as u64 * LEASE_SIZE + singles, "{burned} burned: {leases:?}");
    assert!(singles > 0, "after a doubt one ordinal is asked for: {leases:?}");
}

fn an_instance_paused_in_a_transaction_stops_nobody_for_long(kind: Kind) {
    let Some(deployment) = Deployment::on_server(kind) else { return };
    let (proxy, through) = Proxy::before(deployment.store());
    let through = Deployment::on(through);
    let direct = quiet(&deployment, "direct").start();
    put(&direct, "links", r#"{"lease_size_min": 1000, "lease_size_max": 1000}"#);
    let paused = quiet(&through, "through").start();
    let mut received = Received::default();
    received.add(&take(&paused, "links", 10));

    // Its first heartbeat commits as well; the next is a minute away.
    let address = paused.address().to_string();
    eventually("its first sign of life is on record", || {
        get(&direct, "/v1/instances").text().contains(&address)
    });
    proxy.set(Fault::HoldBack(commit_of(kind)));
    let mut client = Client::new(paused.address()).time_max(Duration::from_secs(1));
    // Down to where it leases again: the lease waits for its commit.
    while proxy.struck() == 0 {
        match client.take("links", 100) {
            Ok(answer) if answer.status == 200 => _ = received.add(&answer),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    paused.pause();
    let begin = Instant::now();
    let mut answer = take(&direct, "links", 100);
    while answer.status != 200 && begin.elapsed() < Duration::from_secs(20) {
        answer = take(&direct, "links", 100);
    }
    let waited = begin.elapsed();
    received.add(&answer);
    println!("{kind:?}: the other instance had its keys after {waited:?}");
    assert!(waited < Duration::from_secs(8), "the other instance waited {waited:?}");

    proxy.set(Fault::None);
    paused.resume();
    eventually("it goes on by itself", || gives(&mut received, &paused, "links", 100));
    for _ in 0..30 {
        received.add(&take(&direct, "links", 100));
        received.add(&take(&paused, "links", 100));
    }
}

/// What the request that commits a lease contains.
fn commit_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => "COMMIT",
        // With the byte that makes it a statement: `READ COMMITTED` is another matter.
        Kind::MariaDb | Kind::Mysql => "\u{3}COMMIT",
        // Who holds the lease, in JSON.
        Kind::Redis => "{\"id\":",
        // The key of a lease that is open.
        Kind::Etcd => "/open/",
    }
}

/// The sizes of all leases of an instance, as another one knows them.
fn leases(witness: &Server, of: &Server) -> Vec<u64> {
    let listed = json(&get(witness, "/v1/leases?space=links&limit=1000"));
    let leases = listed["leases"].as_array().unwrap().iter();
    let leases = leases.filter(|lease| lease["holder"]["pid"] == of.pid());
    leases.map(|lease| number(&lease["end"]) - number(&lease["start"])).collect()
}
