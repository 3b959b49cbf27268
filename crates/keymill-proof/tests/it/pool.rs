//! A pool drawn to its last key by three processes that are killed and paused: no key comes twice,
//! and the record of used keys accounts for every one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keymill_proof::backend::Kind;
use keymill_proof::{Caller, Deed, Deployment, Fleet, Harm, HttpTake, Load, Plan, Received, Taken};

use super::rolled_back::{Way, back_up, restore};
use super::{eventually, is_problem, put, take, watchful};

const KEYS: usize = 40_000;
/// The longest that servers are harmed.
const HARM_MAX: Duration = Duration::from_secs(120);
/// The shortest time after which a reservation ends.
const RESERVE: Duration = Duration::from_secs(5);
/// How long most callers wait for a server, and how long those who can ask another one.
const PATIENCE: [Duration; 2] = [Duration::from_secs(10), Duration::from_millis(300)];

#[test]
fn a_pool_is_drawn_to_its_end_on_sqlite() {
    check(&Deployment::sqlite(), "batch");
}

#[test]
fn a_pool_with_every_key_on_record_is_drawn_to_its_end_on_sqlite() {
    check(&Deployment::sqlite(), "key");
}

#[test]
fn a_pool_is_drawn_to_its_end_on_postgres() {
    check_server(Kind::Postgres, "batch");
}

#[test]
fn a_pool_with_every_key_on_record_is_drawn_to_its_end_on_postgres() {
    check_server(Kind::Postgres, "key");
}

#[test]
fn a_pool_is_drawn_to_its_end_on_mysql() {
    check_server(Kind::MariaDb, "batch");
}

#[test]
fn a_pool_with_every_key_on_record_is_drawn_to_its_end_on_mysql() {
    check_server(Kind::MariaDb, "key");
}

#[test]
fn a_pool_is_drawn_to_its_end_on_mysql9() {
    check_server(Kind::Mysql, "batch");
}

#[test]
fn a_pool_with_every_key_on_record_is_drawn_to_its_end_on_mysql9() {
    check_server(Kind::Mysql, "key");
}

#[test]
fn a_pool_is_drawn_to_its_end_on_redis() {
    check_server(Kind::Redis, "batch");
}

fn check_server(kind: Kind, audit: &str) {
    if let Some(deployment) = Deployment::on_server(kind) {
        check(&deployment, audit);
    }
}

fn check(deployment: &Deployment, audit: &str) {
    let spec = |number| watchful(deployment, &format!("d{number}"));
    let fleet = Fleet::start((0..3).map(spec));
    let definition = format!(
        r#"{{"kind":"pooled","audit":"{audit}","reserve_seconds":{},"lease_size_min":50,
            "lease_size_max":500,"horizon_seconds":1}}"#,
        RESERVE.as_secs()
    );
    put(&fleet.hold(0), "pool", &definition);
    deployment.run("cli", &["pool", "fill", "pool", "--count", &KEYS.to_string()]);
    let export = || deployment.run("cli", &["pool", "export", "pool"]);
    let all: HashSet<String> = export().lines().map(str::to_owned).collect();
    assert_eq!(all.len(), KEYS);

    // One of them sleeps for longer than a reservation lasts.
    let sleep = u64::try_from(RESERVE.as_millis()).unwrap() + 1_000;
    let harms = vec![
        Harm::new(Deed::Kill, 5, 50..200, 0..1).to(0..2),
        Harm::new(Deed::Pause, 5, 50..200, 100..101).to(0..2),
        Harm::new(Deed::Pause, 1, 200..201, sleep..sleep + 1).to(2..3),
    ];
    let plan = Plan { harms, store: None };
    let is_harmed = AtomicBool::new(true);
    let callers = (0..6).map(|number| caller(number, &is_harmed));
    let (mut done, mut left) = (Vec::new(), 0);
    let received = Load::of(callers).run(&fleet, |run| {
        done = plan.run(run, HARM_MAX, |is_done| is_done);
        left = KEYS - run.keys();
        is_harmed.store(false, Ordering::SeqCst);
        run.wait_for_callers();
    });
    received.check_unique(&format!("{audit}: {KEYS} keys, {left} left after the harm, {done:?}"));
    received.check_refusals(&["409", "503"]);
    assert!(plan.is_done(done), "there was too little harm");
    assert!(received.keys().all(|key| all.contains(&key)), "a key that was not in the pool");

    let exported = deployment.run("cli", &["audit", "export", "pool", "--format", "csv"]);
    let used = exported.lines().skip(1).map(|line| line.split(',').next().unwrap_or_default());
    let used: Vec<&str> = used.collect();
    let used_once: HashSet<&str> = used.iter().copied().collect();
    assert_eq!(used_once.len(), used.len(), "a key is on record twice");
    let is_on_record = |key: String| used_once.contains(key.as_str());
    assert!(received.keys().all(is_on_record), "a key that is not on record");
    let available = export().lines().count();
    println!("{} on record, {available} available", used.len());
    assert_eq!(used.len() + available, KEYS, "a key is neither used nor available");
    assert_eq!(available, 0, "the pool was drawn to its end");
    if audit == "key" {
        let for_nobody = used.len() - received.len();
        let in_doubt = usize::try_from(received.in_doubt).unwrap();
        assert!(for_nobody <= in_doubt, "{for_nobody} keys on record that nobody was given");
    }
}

/// Takes of one server, or of one after another, until the pool is empty for longer than reservations last.
fn caller(number: usize, is_harmed: &AtomicBool) -> Caller<'_> {
    let stays = number < 3;
    let patience = PATIENCE[usize::from(!stays)];
    let caller = Caller::over(move |address| HttpTake::new(address, "pool").time_max(patience));
    let caller = if stays { caller.of(number) } else { caller };
    let mut empty_since: Option<Instant> = None;
    // So that the pool lasts for most of the harm.
    let caller = caller.takes_by(|rng| rng.u32(1..60)).rests(Duration::from_millis(20));
    caller.until(move |taken| match taken {
        Taken::Refused(_) => {
            let since = *empty_since.get_or_insert_with(Instant::now);
            let is_over = !is_harmed.load(Ordering::SeqCst);
            is_over && since.elapsed() > RESERVE + Duration::from_secs(2)
        }
        Taken::Keys(_) => {
            empty_since = None;
            false
        }
        Taken::Interrupted { .. } => false,
    })
}

/// Keys that the backup still has in the pool were handed out since.
#[test]
fn a_pool_that_was_restored_under_living_instances_repeats_nothing() {
    for audit in ["batch", "key"] {
        let deployment = Deployment::sqlite();
        let servers = ["d0", "d1"].map(|name| watchful(&deployment, name).start());
        let definition = format!(
            r#"{{"kind":"pooled","audit":"{audit}","lease_size_min":50,"lease_size_max":50}}"#
        );
        put(&servers[0], "pool", &definition);
        deployment.run("cli", &["pool", "fill", "pool", "--count", "5000"]);
        let mut received = Received::default();
        for server in &servers {
            received.add(&take(server, "pool", 60));
        }
        back_up(&deployment);
        for server in &servers {
            received.add(&take(server, "pool", 400));
        }
        restore(&deployment, Way::InPlace);
        for server in &servers {
            let refusal = received.drain(server.address(), "pool", 20);
            is_problem(&refusal, 503, "store_rolled_back");
        }
        deployment.run("cli", &["space", "advance", "pool", "--yes"]);
        deployment.run("cli", &["pool", "fill", "pool", "--count", "1000"]);
        for server in &servers {
            eventually("keys of the new era", || {
                let answer = take(server, "pool", 100);
                answer.status == 200 && received.add(&answer) > 0
            });
        }
        println!("{audit}: {} keys, none twice", received.len());
    }
}
