//! Leases on every store: latency on a young and on an old record, and how many a second.
//!
//! Run it with private servers: `backends cargo bench -p keymill-engine --all-features --bench lease`. A server is
//! found by its `KEYMILL_TEST_…` variable; a store without one is left out. The figures depend on
//! the disk and the network; what matters is how they compare in one run.

#![allow(clippy::unwrap_used, reason = "a bench that fails to unwrap has failed, and says where")]

use std::time::{Duration, Instant};

use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{Floor, LeaseAsk, Mark, NewSpace, Opening, Store};
use keymill_engine::space::{Definition, Tuning};
use mysql_async::prelude::Queryable;

/// How many leases are timed.
const TIMED: u32 = 1_000;
/// How many are on record when they are timed again.
const ON_RECORD: u64 = 100_000;
/// How many instances lease at once.
const INSTANCES: u32 = 8;
const BUSY: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() {
    println!(
        "{:<10} {:>12} {:>12} {:>7} {:>16} {:>16}",
        "store", "first 1,000", "after 100 k", "ratio", "one space, 8×/s", "8 spaces, 8×/s"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keymill.db");
    measure("sqlite", &format!("sqlite:{}", file.display())).await;
    for kind in ["postgres", "mysql", "mysql9", "redis", "etcd"] {
        match std::env::var(format!("KEYMILL_TEST_{}", kind.to_uppercase())) {
            Ok(url) => measure(kind, &url).await,
            Err(_) => println!("{kind:<10} no server"),
        }
    }
}

async fn measure(kind: &str, url: &str) {
    let store = keymill_engine::internals::store::open(url, Opening::default()).await.unwrap();
    let instance = Instance::this_process();
    let space = make_space(&store, "latency").await;
    let young = time(&store, &space, &instance).await;
    let grown = grow(kind, url, &space, &instance).await;
    let old = if grown { Some(time(&store, &space, &instance).await) } else { None };
    let ratio = old.map(|old| format!("{:.2}", old.as_secs_f64() / young.as_secs_f64()));
    let old = old.map(|old| format!("{old:.0?}"));
    let one = throughput(&store, 1).await;
    let many = throughput(&store, INSTANCES).await;
    println!(
        "{kind:<10} {:>12} {:>12} {:>7} {one:>16.0} {many:>16.0}",
        format!("{young:.0?}"),
        old.unwrap_or_default(),
        ratio.unwrap_or_default()
    );
}

/// The median time of a lease.
async fn time(store: &Store, space: &str, instance: &Instance) -> Duration {
    let mut times = Vec::new();
    let (mut last, floor) = (None, floor(store).await);
    for _ in 0..TIMED {
        let ask = ask(space, instance, last);
        let begin = Instant::now();
        last = Some(store.leases.lease(&ask, &floor).await.unwrap().lease);
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// Leases a second of eight instances, on so many spaces.
async fn throughput(store: &Store, spaces: u32) -> f64 {
    let mut names = Vec::new();
    for number in 0..spaces {
        names.push(make_space(store, &format!("busy-{spaces}-{number}")).await);
    }
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..INSTANCES {
        let space = names[(number % spaces) as usize].clone();
        let store = store.clone();
        tasks.spawn(async move {
            let instance = Instance::this_process();
            let (ask, floor) = (ask(&space, &instance, None), floor(&store).await);
            let mut count = 0_u32;
            while begin.elapsed() < BUSY {
                // One that was too late for its turn tries again.
                count += u32::from(store.leases.lease(&ask, &floor).await.is_ok());
            }
            count
        });
    }
    let leases: u32 = tasks.join_all().await.into_iter().sum();
    f64::from(leases) / begin.elapsed().as_secs_f64()
}

async fn make_space(store: &Store, name: &str) -> String {
    let name = format!("{name}-{}", Instance::this_process().id);
    let new = NewSpace {
        name: name.clone(),
        definition: Definition::default(),
        tuning: Tuning::default(),
        fingerprint: None,
        capacity: 1 << 50,
        start: 0,
    };
    store.spaces.create(&new, &floor(store).await).await.unwrap();
    name
}

fn ask(space: &str, instance: &Instance, last_lease: Option<u64>) -> LeaseAsk {
    LeaseAsk {
        space: space.to_owned(),
        instance: instance.clone(),
        size: 1_000,
        share: 64,
        last_lease,
        spent: last_lease.into_iter().collect(),
    }
}

async fn floor(store: &Store) -> Floor {
    Floor { store: store.admin.identity().await.unwrap(), mark: Mark::default() }
}

/// Puts leases on record in bulk, where the store has rows for it.
async fn grow(kind: &str, url: &str, space: &str, instance: &Instance) -> bool {
    let id = &instance.id;
    let rows = |numbers: std::ops::Range<u64>| {
        let row = |number: u64| {
            let (lease, start) = (number + 1_000_000, number * 1_000 + 10_000_000);
            let end = start + 1_000;
            format!(
                "('{space}',{lease},{start},{end},{end},'lease','{id}',1700000000000,1700000000000)"
            )
        };
        let values: Vec<String> = numbers.map(row).collect();
        format!(
            "INSERT INTO leases (space, lease, start_ordinal, end_ordinal, closed_at_ordinal,
             purpose, instance, granted_at, closed_at) VALUES {}",
            values.join(",")
        )
    };
    let mut statements: Vec<String> =
        (0..ON_RECORD / 1_000).map(|batch| rows(batch * 1_000..(batch + 1) * 1_000)).collect();
    statements.push(format!(
        "UPDATE spaces SET revision = 1200000, next = 200000000 WHERE name = '{space}'"
    ));
    match kind {
        "sqlite" => {
            let path = url.strip_prefix("sqlite:").unwrap();
            let connection = rusqlite::Connection::open(path).unwrap();
            for statement in &statements {
                connection.execute(statement, []).unwrap();
            }
        }
        "postgres" => {
            let (client, connection) =
                tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute("SET search_path = keymill").await.unwrap();
            for statement in &statements {
                client.batch_execute(statement).await.unwrap();
            }
        }
        "mysql" | "mysql9" => {
            let mut connection = mysql_async::Conn::from_url(url).await.unwrap();
            for statement in &statements {
                connection.query_drop(statement).await.unwrap();
            }
        }
        _ => return false,
    }
    true
}
