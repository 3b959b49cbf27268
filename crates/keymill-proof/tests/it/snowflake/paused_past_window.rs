//! One worker and two instances: the first is paused for longer than its window, the second leases
//! the worker, the first wakes up, and both are asked for IDs at once. And the negative control: the
//! same with instances that do not mind the end of their windows, and the harness sees it.

use std::path::Path;
use std::time::{Duration, Instant};

use keymill_proof::{Client, Server, ServerSpec};

use super::super::eventually;
use super::{
    ENDLESS_SECONDS, Layout, Received, SPACE, endless, gives, instance, make, sqlite, turned_away,
};

const LAYOUT: Layout = Layout { worker_bits: 0 };
const WINDOW_SECONDS: u64 = 2;
/// How long a pause may be.
const PAUSE_MAX: Duration = Duration::from_secs(6);
/// How long both are asked at once.
const BOTH: Duration = Duration::from_secs(1);
const BATCH: u32 = 2_000;

#[test]
fn an_instance_that_slept_through_the_end_of_its_window_makes_no_id_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(folder.path(), |spec| spec, WINDOW_SECONDS);
    let [mut sleeper, mut other] = run.servers;
    let [mut received, others] = run.received;
    println!("the sleeper: {received}\nthe other: {others}");
    assert!(received.refused_with("503 no_worker") > 0, "it was not told that the worker is held");
    received.absorb(others);
    assert!(other.stop().success());
    eventually("it gets the worker when that is free", || gives(&mut received, &sleeper, 100));
    assert!(sleeper.stop().success());
    received.check("both");
}

#[test]
fn an_instance_that_does_not_mind_the_end_of_its_window_shows() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(folder.path(), endless, ENDLESS_SECONDS);
    let [mut received, others] = run.received;
    println!("the sleeper: {received}\nthe other: {others}");
    assert!(received.refused.is_empty(), "{:?}\n{}", received.refused, run.servers[0].log());
    received.absorb(others);
    let duplicated = received.duplicated();
    println!("{duplicated} of {} IDs came twice", received.ids.len());
    assert!(duplicated > 0, "a window that is used after its end went unnoticed");
}

/// Both instances after the run, the sleeper first, and what each gave.
struct Run {
    servers: [Server; 2],
    received: [Received; 2],
}

impl Run {
    fn new(folder: &Path, with: impl Fn(ServerSpec) -> ServerSpec, window_seconds: u64) -> Run {
        let start = |data_dir| {
            let spec = instance(&sqlite(folder), folder, data_dir);
            Server::start(&with(spec))
        };
        let servers = ["sleeper", "other"].map(start);
        let mut received = [Received::new(LAYOUT), Received::new(LAYOUT)];
        make(&servers[0], LAYOUT, window_seconds);
        eventually("it has the worker", || gives(&mut received[0], &servers[0], 100));
        turned_away(&mut received[1], &servers[1]);
        eventually("its worker is free", || {
            pause_until(&servers[0], || gives(&mut received[1], &servers[1], 100))
        });
        servers[0].resume();
        std::thread::scope(|scope| {
            for (server, received) in servers.iter().zip(&mut received) {
                let mut client = Client::new(server.address());
                scope.spawn(move || {
                    let begin = Instant::now();
                    while begin.elapsed() < BOTH {
                        received.take(&mut client, SPACE, BATCH).unwrap();
                    }
                });
            }
        });
        Run { servers, received }
    }
}

/// Pauses a server until something is so, but not for much longer than its window: it may have been
/// paused in the middle of a transaction of SQLite's, which stops all others. Then it goes on.
fn pause_until(server: &Server, mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    server.pause();
    while begin.elapsed() < PAUSE_MAX {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    server.resume();
    false
}
