//! A pool drawn to its last key by three processes that are killed and paused: no key comes twice,
//! and the record of used keys accounts for every one.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keymill_proof::backend::{Kind, skip};
use keymill_proof::random::Dice;
use keymill_proof::{Client, Server, ServerSpec, binary};

use super::rolled_back::{Way, back_up, restore};
use super::{Received, eventually, is_problem, put, take};

const KEYS: usize = 40_000;
/// How long the servers are harmed.
const HARM: Duration = Duration::from_secs(4);
/// The shortest time after which a reservation ends.
const RESERVE: Duration = Duration::from_secs(5);

#[test]
fn a_pool_is_drawn_to_its_end_on_sqlite() {
    check_sqlite("batch");
}

#[test]
fn a_pool_with_every_key_on_record_is_drawn_to_its_end_on_sqlite() {
    check_sqlite("key");
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

fn check_sqlite(audit: &str) {
    let folder = tempfile::tempdir().unwrap();
    check(&format!("sqlite:{}", folder.path().join("keymill.db").display()), audit);
}

fn check_server(kind: Kind, audit: &str) {
    match kind.start() {
        Ok(backend) => check(&backend.url(), audit),
        Err(missing) => skip(&missing),
    }
}

/// Says that the harm is over, when dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// What callers were given.
#[derive(Default)]
struct Given {
    keys: Mutex<Vec<String>>,
    /// How many keys were in answers that were cut off or whose commit was in doubt, at the most.
    cut_off: Mutex<usize>,
}

fn check(store: &str, audit: &str) {
    let folder = tempfile::tempdir().unwrap();
    let spec = |number| {
        ServerSpec::keymill_on(store, folder.path(), &format!("d{number}"))
            .env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2")
    };
    let specs: Vec<ServerSpec> = (0..3).map(spec).collect();
    let servers: Vec<Mutex<Server>> =
        specs.iter().map(|spec| Mutex::new(Server::start(spec))).collect();
    let definition = format!(
        r#"{{"kind":"pooled","audit":"{audit}","reserve_seconds":{},"lease_size_min":50,
            "lease_size_max":500,"horizon_seconds":1}}"#,
        RESERVE.as_secs()
    );
    put(&servers[0].lock().unwrap(), "pool", &definition);
    keymill(store, folder.path(), &["pool", "fill", "pool", "--count", &KEYS.to_string()]);
    let all: HashSet<String> =
        lines(&keymill(store, folder.path(), &["pool", "export", "pool"])).collect();
    assert_eq!(all.len(), KEYS);

    let (given, harming) = (Given::default(), AtomicBool::new(true));
    let (mut kills, mut pauses, mut left) = (0, 0, 0_usize);
    std::thread::scope(|scope| {
        for caller in 0..6 {
            let (servers, given, harming) = (&servers, &given, &harming);
            scope.spawn(move || take_to_the_end(servers, caller, given, harming));
        }
        // Also when a server does not come back: callers must come to their end.
        let _over = Over(&harming);
        // One of them sleeps for longer than a reservation lasts.
        let long_pause = scope.spawn(|| {
            std::thread::sleep(HARM / 20);
            let server = servers[2].lock().unwrap();
            server.pause();
            std::thread::sleep(RESERVE + Duration::from_secs(1));
            server.resume();
        });
        let begin = Instant::now();
        let mut dice = Dice::new(7);
        let between = Duration::from_millis(50)..Duration::from_millis(200);
        // A start may have to wait for the one that sleeps, where that holds a lock.
        while begin.elapsed() < HARM || kills == 0 || pauses == 0 {
            std::thread::sleep(dice.time(&between));
            let number = usize::try_from(dice.number(0..2)).unwrap();
            let mut server = servers[number].lock().unwrap();
            if dice.one_in(2) {
                server.kill();
                *server = Server::start(&specs[number]);
                kills += 1;
            } else {
                server.pause();
                std::thread::sleep(Duration::from_millis(100));
                server.resume();
                pauses += 1;
            }
        }
        long_pause.join().unwrap();
        let available = keymill(store, folder.path(), &["space", "show", "pool", "--json"]);
        left = available
            .split_once("\"available\": ")
            .map_or(0, |(_, rest)| rest.split(',').next().unwrap_or_default().parse().unwrap_or(0));
    });
    let cut_off = given.cut_off.into_inner().unwrap();
    let given = given.keys.into_inner().unwrap();
    let unique: HashSet<&String> = given.iter().collect();
    assert_eq!(unique.len(), given.len(), "a key was handed out twice");
    assert!(given.iter().all(|key| all.contains(key)), "a key that was not in the pool");

    let exported = keymill(store, folder.path(), &["audit", "export", "pool", "--format", "csv"]);
    let used: Vec<String> = lines(&exported)
        .skip(1)
        .map(|line| line.split(',').next().unwrap_or_default().to_owned())
        .collect();
    let used_once: HashSet<&String> = used.iter().collect();
    assert_eq!(used_once.len(), used.len(), "a key is on record twice");
    assert!(given.iter().all(|key| used_once.contains(key)), "a key that is not on record");
    let available = lines(&keymill(store, folder.path(), &["pool", "export", "pool"])).count();
    println!(
        "{audit}: {KEYS} keys, {left} left after the harm, {} given, {} on record, {available} available, at most {cut_off} in answers cut off, {kills} kills, {pauses} pauses",
        given.len(),
        used.len()
    );
    assert_eq!(used.len() + available, KEYS, "a key is neither used nor available");
    assert_eq!(available, 0, "the pool was drawn to its end");
    if audit == "key" {
        assert!(used.len() - given.len() <= cut_off, "keys on record that nobody was given");
    }
    assert!(kills > 0 && pauses > 0);
}

/// Keys that the backup still has in the pool were handed out since.
#[test]
fn a_pool_that_was_restored_under_living_instances_repeats_nothing() {
    for audit in ["batch", "key"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let store = format!("sqlite:{}", folder.join("keymill.db").display());
        let spec =
            |name| ServerSpec::keymill(folder, name).env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2");
        let servers = ["d0", "d1"].map(|name| Server::start(&spec(name)));
        let definition = format!(
            r#"{{"kind":"pooled","audit":"{audit}","lease_size_min":50,"lease_size_max":50}}"#
        );
        put(&servers[0], "pool", &definition);
        keymill(&store, folder, &["pool", "fill", "pool", "--count", "5000"]);
        let mut received = Received::default();
        for server in &servers {
            received.add(&take(server, "pool", 60));
        }
        back_up(folder);
        for server in &servers {
            received.add(&take(server, "pool", 400));
        }
        restore(folder, Way::InPlace);
        for server in &servers {
            let refusal = received.drain(server.address(), "pool", 20);
            is_problem(&refusal, 503, "store_rolled_back");
        }
        keymill(&store, folder, &["space", "advance", "pool", "--yes"]);
        keymill(&store, folder, &["pool", "fill", "pool", "--count", "1000"]);
        for server in &servers {
            eventually("keys of the new era", || {
                let answer = take(server, "pool", 100);
                answer.status == 200 && received.add(&answer) > 0
            });
        }
        println!("{audit}: {} keys, none twice", received.keys.len());
    }
}

/// Takes of whichever server is there, until the pool is empty for longer than reservations last.
fn take_to_the_end(servers: &[Mutex<Server>], caller: usize, given: &Given, harming: &AtomicBool) {
    let mut dice = Dice::new(caller as u64 + 1);
    let mut empty_since: Option<Instant> = None;
    let mut turn = caller;
    loop {
        turn += 1;
        // One that is being harmed is paused or gone; its address is that of before.
        let Ok(address) = servers[turn % servers.len()].try_lock().map(|it| it.address()) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let count = u32::try_from(dice.number(1..60)).unwrap();
        let mut client = Client::new(address).time_max(Duration::from_secs(10));
        if client.connect().is_err() {
            continue;
        }
        match client.take("pool", count) {
            Ok(answer) if answer.status == 200 => {
                empty_since = None;
                given.keys.lock().unwrap().extend(answer.lines().map(str::to_owned));
            }
            Ok(answer) => {
                assert!([409, 503].contains(&answer.status), "{}", answer.text());
                // One whose commit is in doubt may have keys on record.
                if answer.text().contains("store_unavailable") {
                    *given.cut_off.lock().unwrap() += count as usize;
                }
                let since = *empty_since.get_or_insert_with(Instant::now);
                let over = !harming.load(Ordering::SeqCst);
                if over && since.elapsed() > RESERVE + Duration::from_secs(2) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(_) => {
                // The last line may be cut short, so it is not a key.
                let whole = client.partial().split_inclusive(|byte| *byte == b'\n');
                let whole = whole.filter_map(|line| line.strip_suffix(b"\n"));
                let whole = whole.map(|line| String::from_utf8_lossy(line).into_owned());
                given.keys.lock().unwrap().extend(whole);
                *given.cut_off.lock().unwrap() += count as usize;
            }
        }
    }
}

/// Runs a command of keymill's and returns what it wrote.
#[track_caller]
fn keymill(store: &str, folder: &Path, args: &[&str]) -> String {
    let done = Command::new(binary("keymill"))
        .args(args)
        .args(["--store", store, "--data-dir"])
        .arg(folder.join("cli"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().map(str::to_owned)
}
