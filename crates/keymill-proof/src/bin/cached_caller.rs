//! A program that takes keys from a cache at a fixed rate, and prints what it met as JSON.
//!
//! `clients/check-together` runs it beside its counterparts in Python and TypeScript. Its client is as it is by default.
//!
//!     cached_caller RATE SECONDS FILE SERVERS    the keys go to FILE, one per line

use std::time::{Duration, Instant};

use keymill_client::blocking::{CachedKeyspace, Client};

const THREADS: u32 = 4;
/// How often each thread takes keys.
const EVERY: Duration = Duration::from_millis(20);
/// How many errors are printed.
const ERRORS_SHOWN: usize = 10;

/// What a thread has met.
#[derive(Debug, Default)]
struct Met {
    keys: Vec<String>,
    errors: Vec<String>,
    longest: Duration,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().expect("usage: cached_caller RATE SECONDS FILE SERVERS");
    let (rate, seconds) = (next(), next());
    let rate: f64 = rate.parse().expect("RATE is a number of keys a second");
    let seconds: f64 = seconds.parse().expect("SECONDS is a number");
    let (file, servers) = (next(), next());
    let client = keymill_client::Client::builder().servers(servers.split(',')).build();
    let client = Client::new(client.expect("the servers have addresses"));
    let cache = client.expect("there can be a thread").keyspace("default").cached();
    let (rate, time) = (rate / f64::from(THREADS), Duration::from_secs_f64(seconds));
    let all: Vec<Met> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|_| scope.spawn(|| take(&cache, rate, time))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let mut text = String::new();
    for key in all.iter().flat_map(|met| &met.keys) {
        text.push_str(key);
        text.push('\n');
    }
    std::fs::write(file, text).expect("the file can be written");
    let errors: Vec<&String> = all.iter().flat_map(|met| &met.errors).collect();
    let shown = &errors[..errors.len().min(ERRORS_SHOWN)];
    let longest = all.iter().map(|met| met.longest).max().unwrap_or_default();
    println!(
        r#"{{"errors": {shown:?}, "error_count": {}, "longest_ms": {}}}"#,
        errors.len(),
        longest.as_millis()
    );
}

/// Takes keys at a rate. What is late is made up for.
fn take(cache: &CachedKeyspace, rate: f64, time: Duration) -> Met {
    let (begun, mut met) = (Instant::now(), Met::default());
    let mut asked = 0.0;
    loop {
        let passed = begun.elapsed().min(time);
        while asked < passed.as_secs_f64() * rate {
            let since = Instant::now();
            match cache.take() {
                Ok(key) => met.keys.push(key.into()),
                Err(error) => met.errors.push(error.to_string()),
            }
            met.longest = met.longest.max(since.elapsed());
            asked += 1.0;
        }
        if passed == time {
            return met;
        }
        std::thread::sleep(EVERY);
    }
}
