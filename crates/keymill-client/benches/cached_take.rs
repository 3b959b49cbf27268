//! How fast a cache hands out keys, per thread.
//!
//! Run with `cargo bench -p keymill-client`. Keys come from a stub that answers takes, because no server is to be measured
//! here; refills are waited for outside of the time that is measured.

#![allow(clippy::unwrap_used)] // A bench has nobody to report an error to.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use keymill_client::blocking::{CachedKeyspace, Client};

/// How many keys are taken in a row, at most. The cache holds more than that.
const RUN: u64 = 40_000;

fn cached_takes(c: &mut Criterion) {
    let client = Client::connect(&format!("http://{}", stub())).unwrap();
    let cache =
        client.keyspace("links").cached_with(|cache| cache.keys_min(100_000).any_keyspace());
    let mut group = c.benchmark_group("cached take");
    group
        .throughput(Throughput::Elements(1))
        .sample_size(20)
        .measurement_time(Duration::from_secs(2));
    group.bench_function("one thread", |b| {
        b.iter_custom(|count| in_runs(count, &cache, |run| draw(&cache, run)));
    });
    group.bench_function("two threads, per key", |b| {
        b.iter_custom(|count| {
            in_runs(count, &cache, |run| {
                thread::scope(|scope| {
                    scope.spawn(|| draw(&cache, run / 2));
                    draw(&cache, run - run / 2);
                });
            })
        });
    });
    group.finish();
}

/// The time that it takes to draw so many keys, without the time to fetch them.
fn in_runs(count: u64, cache: &CachedKeyspace, draw: impl Fn(u64)) -> Duration {
    let mut time = Duration::ZERO;
    let mut left = count;
    while left > 0 {
        while cache.len() < RUN {
            // Not a busy wait for the refill only: it also wakes it the first time.
            black_box(cache.try_take());
            thread::sleep(Duration::from_millis(1));
        }
        let run = left.min(RUN);
        let started = Instant::now();
        draw(run);
        time += started.elapsed();
        left -= run;
    }
    time
}

fn draw(cache: &CachedKeyspace, count: u64) {
    for _ in 0..count {
        black_box(cache.try_take().expect("there are enough"));
    }
}

/// Something that answers takes, with as many keys as are asked for.
fn stub() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || answer(&stream));
        }
    });
    address
}

fn answer(mut stream: &TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let mut next = 0_u64;
    while let Some(first) = lines.next() {
        while lines.next().is_some_and(|line| !line.is_empty()) {}
        let count = first.split("count=").nth(1).and_then(|rest| rest.split(' ').next());
        let count: u64 = count.map_or(1, |count| count.parse().unwrap());
        let mut body = String::from(r#"{"space":"links","keys":["#);
        for key in next..next + count {
            write!(body, "\"{key:07}\",").unwrap();
        }
        next += count;
        body.pop();
        body += "]}";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

criterion_group!(benches, cached_takes);
criterion_main!(benches);
