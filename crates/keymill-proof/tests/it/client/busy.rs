//! Three servers and callers that take 5,000 keys a second, while each server is killed and started again, and then all of
//! them are down for ten seconds: no caller sees an error, and no key comes twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keymill_client::{CachedKeyspace, Error, Key};
use keymill_proof::{Deployment, Fleet, Received};
use tokio::time::{MissedTickBehavior, interval};

use super::client_of;

const CLIENTS: usize = 5;
/// Every 10 ms, by each client: 1,000 a second.
const KEYS_AT_A_TIME: usize = 10;
const OUTAGE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn callers_of_a_cache_do_not_notice_that_servers_die() {
    let deployment = Deployment::sqlite();
    let fleet =
        Fleet::start(["d0", "d1", "d2"].map(|name| deployment.server(name))).keeps_addresses();
    let end = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let callers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            // A client each: nothing is shared but the servers.
            let cache = client_of(&fleet).keyspace("default").cached();
            tokio::spawn(take(cache, end.clone()))
        })
        .collect();
    tokio::task::block_in_place(|| harm(&fleet));
    end.store(true, Ordering::Relaxed);
    let mut received = Received::default();
    let mut longest = Duration::ZERO;
    for caller in callers {
        let (keys, slowest) = caller.await.unwrap().unwrap_or_else(|error| panic!("{error}"));
        keys.iter().for_each(|key| received.add_key(key));
        longest = longest.max(slowest);
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{} keys in {seconds:.1} s, each once; the slowest take took {longest:?}",
        received.len()
    );
    let expected = CLIENTS as f64 * 1_000.0 * seconds;
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let share = received.len() as f64 / expected;
    assert!(share > 0.5, "only {share:.2} of the keys that callers wanted");
}

/// What happens to the servers.
fn harm(fleet: &Fleet) {
    let wait = |seconds| std::thread::sleep(Duration::from_secs(seconds));
    wait(3);
    for number in 0..fleet.len() {
        fleet.hold(number).kill();
        wait(2);
        fleet.hold(number).start();
        wait(2);
    }
    for mut server in fleet.each() {
        server.kill();
    }
    std::thread::sleep(OUTAGE);
    for mut server in fleet.each() {
        server.start();
    }
    wait(3);
}

/// Takes keys at a steady rate; all of them, and the longest time that one took.
async fn take(cache: CachedKeyspace, end: Arc<AtomicBool>) -> Result<(Vec<Key>, Duration), Error> {
    let (mut keys, mut longest) = (Vec::new(), Duration::ZERO);
    let mut ticks = interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !end.load(Ordering::Relaxed) {
        ticks.tick().await;
        for _ in 0..KEYS_AT_A_TIME {
            let asked = Instant::now();
            keys.push(cache.take().await?);
            longest = longest.max(asked.elapsed());
        }
    }
    Ok((keys, longest))
}
