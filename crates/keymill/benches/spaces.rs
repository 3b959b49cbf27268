//! Ten thousand keyspaces in one instance: what each costs to make, to keep, to use and to leave.
//!
//! Run it with private servers: `backends cargo bench --all-features --bench spaces`; PostgreSQL is
//! found by `KEYMILL_TEST_POSTGRES` and left out without it. `KEYMILL_BENCH_SPACES` sets another number.

#![allow(clippy::unwrap_used, reason = "a bench that fails to unwrap has failed, and says where")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keymill::front::http::Http;
use keymill::server::{self, ServerLimits};
use keymill_core::Blocklist;
use keymill_engine::internals::store::{LeasePage, Opening, Store};
use keymill_engine::operations::{AliasRules, Limits, Service, Setup, Space};
use keymill_engine::space::SpaceSpec;

/// How long an idle instance is watched.
const IDLE: Duration = Duration::from_secs(20);
/// How long takes are counted.
const BUSY: Duration = Duration::from_secs(2);

fn main() {
    let spaces = std::env::var("KEYMILL_BENCH_SPACES").ok().and_then(|text| text.parse().ok());
    let spaces: usize = spaces.unwrap_or(10_000);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("keymill.db").display());
    runtime.block_on(measure("sqlite", &url, spaces));
    match std::env::var("KEYMILL_TEST_POSTGRES") {
        Ok(url) => runtime.block_on(measure("postgres", &url, spaces)),
        Err(_) => println!("postgres: no server"),
    }
}

async fn measure(kind: &str, url: &str, spaces: usize) {
    let store = keymill_engine::internals::store::open(url, Opening::default()).await.unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let service = start(store.clone(), data_dir.path()).await;
    service.announce("bench".to_owned());
    println!("{kind}, {spaces} keyspaces");

    let name: fn(usize) -> String = |number| format!("bench-{number:05}");
    let before = memory();
    let (mut begin, half) = (Instant::now(), spaces / 2);
    let mut halves = Vec::new();
    for number in 0..spaces {
        service.ensure_space(&name(number), &SpaceSpec::default()).await.unwrap();
        if number + 1 == half || number + 1 == spaces {
            halves.push(begin.elapsed());
            begin = Instant::now();
        }
    }
    let ratio = halves[1].as_secs_f64() / halves[0].as_secs_f64();
    println!(
        "  made: first half {:.1?}, second half {:.1?} (ratio {ratio:.2})",
        halves[0], halves[1]
    );
    tokio::time::sleep(Duration::from_secs(6)).await;
    println!("  never used: {} bytes each", (memory() - before) / spaces);

    // One take from each, many at once, as callers do.
    let before = memory();
    let begin = Instant::now();
    let mut opened = Vec::with_capacity(spaces);
    for some in (0..spaces).collect::<Vec<_>>().chunks(64) {
        let takes = some.iter().map(|number| {
            let (service, name) = (service.clone(), name(*number));
            tokio::spawn(async move {
                let space = service.space(&name).await.unwrap();
                service.take(&space, 1, "", |key| _ = black_box(key.len())).await.unwrap();
                space
            })
        });
        for take in takes.collect::<Vec<_>>() {
            opened.push(take.await.unwrap());
        }
    }
    println!("  first take of each: {:.1?} in all", begin.elapsed());
    tokio::time::sleep(Duration::from_secs(6)).await;
    println!("  used: {} bytes each", (memory() - before) / spaces);

    let one = takes(&service, &opened[..1]).await;
    let all = takes(&service, &opened).await;
    println!(
        "  takes a second in process: {one:.0} of one, {all:.0} of all (ratio {:.2})",
        all / one
    );
    let (one, all) = takes_by_http(&service, spaces, name).await;
    println!(
        "  takes a second over HTTP: {one:.0} of one, {all:.0} of all (ratio {:.2})",
        all / one
    );

    // What was just used is looked at less and less often.
    tokio::time::sleep(Duration::from_secs(70)).await;
    let before = cpu_time();
    tokio::time::sleep(IDLE).await;
    let idle = (cpu_time() - before).as_secs_f64() / IDLE.as_secs_f64();
    println!("  idle: {:.2} % of a core", idle * 100.0);

    let begin = Instant::now();
    drop(opened);
    service.stop(Duration::from_secs(60)).await;
    println!(
        "  clean stop: {:.2?}, {} leases left open",
        begin.elapsed(),
        open_leases(&store).await
    );
}

async fn start(store: Store, data_dir: &Path) -> Service {
    let setup = Setup {
        store: store.into(),
        data_dir: data_dir.to_owned(),
        secret: None,
        blocklist: Blocklist::none(),
        alias_rules: AliasRules::default(),
        limits: Limits::default(),
        worker: None,
        clock: keymill_engine::clock::Clock::default(),
        require_existing: false,
        unsafe_store: None,
    };
    Service::start(setup).await.unwrap()
}

/// Takes of single keys a second, from these keyspaces in turn.
async fn takes(service: &Service, spaces: &[Arc<Space>]) -> f64 {
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < BUSY {
        for space in spaces.iter().cycle().take(1_000.max(spaces.len())) {
            match service.take_now(&space.name) {
                Some(key) => drop(black_box(key)),
                None => {
                    service.take(space, 1, "", |key| _ = black_box(key.len())).await.unwrap();
                }
            }
            count += 1;
        }
    }
    count as f64 / begin.elapsed().as_secs_f64()
}

/// Takes of single keys a second over HTTP, from one keyspace and from all in turn: medians of runs
/// that alternate.
async fn takes_by_http(service: &Service, spaces: usize, name: fn(usize) -> String) -> (f64, f64) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let http = Http::new(service.clone(), "default", 65_536);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async { _ = stopped.await };
    let serving = tokio::spawn(server::run(listener, http, ServerLimits::default(), stopped));
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        for (rates, among) in [(&mut one, 1), (&mut all, spaces)] {
            let asked = tokio::task::spawn_blocking(move || ask_for(address, among, name));
            rates.push(asked.await.unwrap());
        }
    }
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    (median(&mut one), median(&mut all))
}

/// Takes a second, on a few connections, each asking for the next key once it has the last one.
fn ask_for(address: SocketAddr, among: usize, name: fn(usize) -> String) -> f64 {
    const CONNECTIONS: usize = 4;
    let begin = Instant::now();
    let count = |connection: usize| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut count, mut answer) = (0_u64, [0; 1_024]);
        while begin.elapsed() < BUSY {
            // Far apart, so that the next one is not what was just used.
            let space = (usize::try_from(count).unwrap() * 7_919 + connection * 31) % among;
            let request =
                format!("POST /v1/spaces/{}/keys HTTP/1.1\r\nhost: localhost\r\n\r\n", name(space));
            stream.write_all(request.as_bytes()).unwrap();
            let length = stream.read(&mut answer).unwrap();
            assert!(answer[..length].starts_with(b"HTTP/1.1 200"), "{:?}", &answer[..length]);
            assert!(answer[..length].ends_with(b"]}\n"), "an answer of one packet");
            count += 1;
        }
        count
    };
    let total: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..CONNECTIONS).map(|number| scope.spawn(move || count(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    total as f64 / begin.elapsed().as_secs_f64()
}

async fn open_leases(store: &Store) -> usize {
    let (mut open, mut page) = (0, LeasePage { space: None, after: None, limit: 1_000 });
    loop {
        let leases = store.leases.leases(&page).await.unwrap();
        let Some(last) = leases.last() else { return open };
        page.after = Some((last.space.clone(), last.lease));
        open += leases.iter().filter(|lease| lease.closed_at.is_none()).count();
    }
}

/// The memory that this process has in use.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1_024
}

/// The time of the processor that this process has used.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<u64> = after.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    // The state is no number, so that user and system time are the 11th and 12th that are.
    Duration::from_millis((fields[10] + fields[11]) * 10)
}
