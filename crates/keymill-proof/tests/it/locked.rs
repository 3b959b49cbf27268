//! The database locked by another process: takes go on from the lease, a dry mill answers in
//! bounded time, and afterwards all recovers by itself.

use std::time::{Duration, Instant};

use keymill_proof::{Client, Deployment, Received};

use super::{eventually, get, gives, is_problem, is_well, put, take};

const LOCKED: Duration = Duration::from_secs(30);

#[test]
fn a_database_locked_for_thirty_seconds_stops_no_take_that_has_a_lease() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    put(&server, "busy", r#"{"lease_size_min": 1000000}"#);
    put(&server, "dry", r#"{"lease_size_min": 10, "lease_size_max": 10}"#);
    let mut received = Received::default();
    received.add(&take(&server, "busy", 1));
    received.add(&take(&server, "dry", 10));

    let locker = rusqlite::Connection::open(deployment.path("keymill.db")).unwrap();
    locker.busy_timeout(Duration::from_secs(10)).unwrap();
    locker.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let locked_at = Instant::now();
    // What is left of the dry space's leases goes quickly. One by one: where a key of a lease is blocked, a few are left
    // behind that a take of five would not get.
    let refusal = received.drain(server.address(), "dry", 1);
    is_problem(&refusal, 503, "no_keys_ready");
    let mut client = Client::new(server.address());
    let (mut takes, mut refusals, mut slowest) = (0, 0, Duration::ZERO);
    while locked_at.elapsed() < LOCKED {
        received.add(&client.take("busy", 20).unwrap());
        takes += 1;
        if takes % 100 == 0 {
            let asked_at = Instant::now();
            let refusal = client.take("dry", 1).unwrap();
            slowest = slowest.max(asked_at.elapsed());
            is_problem(&refusal, 503, "no_keys_ready");
            assert!(refusal.header("retry-after").is_some());
            refusals += 1;
        }
        // A load, not a flood: the lease must last for the whole time.
        std::thread::sleep(Duration::from_millis(2));
    }
    let ready = get(&server, "/readyz");
    assert_eq!(ready.status, 503, "{}", ready.text());
    assert!(ready.text().contains("store_unavailable"), "{}", ready.text());
    assert!(slowest < Duration::from_secs(5), "a refusal took {slowest:?}");
    assert!(takes > 1_000 && refusals > 5, "{takes} takes, {refusals} refusals");

    locker.execute_batch("COMMIT").unwrap();
    eventually("the dry space has keys again", || gives(&mut received, &server, "dry", 1));
    eventually("all is well again", || is_well(&server));
    println!("{takes} takes and {refusals} refusals while locked, the slowest refusal {slowest:?}");
}

#[test]
fn an_instance_whose_first_demand_meets_a_locked_database_recovers() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    let locker = rusqlite::Connection::open(deployment.path("keymill.db")).unwrap();
    locker.execute_batch("BEGIN EXCLUSIVE").unwrap();
    is_problem(&take(&server, "default", 1), 503, "no_keys_ready");
    // Long enough for the lease that nobody waits for any more to be refused as well.
    eventually("the failure shows", || get(&server, "/readyz").status == 503);
    locker.execute_batch("COMMIT").unwrap();
    eventually("keys come", || take(&server, "default", 1).status == 200);
    eventually("all is well again", || is_well(&server));
}

#[test]
fn a_floor_file_held_by_a_paused_process_stops_nobody_for_long() {
    let deployment = Deployment::sqlite();
    let mut server = deployment.start("d0");
    let held = std::fs::File::open(deployment.path("keymill.db-floors.lock")).unwrap();
    held.lock().unwrap();
    let asked_at = Instant::now();
    is_problem(&take(&server, "default", 1), 503, "no_keys_ready");
    assert!(asked_at.elapsed() < Duration::from_secs(5));
    held.unlock().unwrap();
    eventually("keys come", || take(&server, "default", 1).status == 200);
    held.lock().unwrap();
    let stopped_at = Instant::now();
    server.stop();
    assert!(stopped_at.elapsed() < Duration::from_secs(16), "a stop is bounded in time");
}
