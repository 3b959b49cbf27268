//! Drawing an ordinal, against the cheapest thing that hands out distinct numbers: a bare
//! `AtomicU64::fetch_add`. Alone, and with two threads on one counter.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use keymill_engine::internals::Mill;
use keymill_engine::internals::{Draw, LEASE_SIZE_MAX, LeasePair};

fn draws(criterion: &mut Criterion) {
    let counter = AtomicU64::new(0);
    let leases = LeasePair::new();
    leases.offer(0..LEASE_SIZE_MAX);
    let mill = Mill::new(1, Duration::from_secs(1));
    mill.fill(0..LEASE_SIZE_MAX);

    let mut group = criterion.benchmark_group("draw one");
    group.throughput(Throughput::Elements(1));
    let fetch_add = || counter.fetch_add(1, Ordering::Relaxed);
    let draw = || match leases.draw(1) {
        Draw::Drawn { ordinals, .. } => ordinals.start,
        Draw::Dry | Draw::Sealed => unreachable!("the lease outlasts the bench"),
    };
    let through_mill = || mill.try_draw(1).expect("not sealed").expect("not dry").start;
    alone_and_contended(&mut group, "fetch_add", &fetch_add);
    alone_and_contended(&mut group, "lease", &draw);
    alone_and_contended(&mut group, "mill", &through_mill);
}

/// Measures a call alone, and while a second thread makes the same call as fast as it can.
fn alone_and_contended(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    call: &(impl Fn() -> u64 + Sync),
) {
    group.bench_function(name, |bencher| bencher.iter(|| black_box(call())));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                black_box(call());
            }
        });
        group.bench_function(format!("{name}, two threads"), |bencher| {
            bencher.iter(|| black_box(call()));
        });
        stop.store(true, Ordering::Relaxed);
    });
}

criterion_group!(benches, draws);
criterion_main!(benches);
