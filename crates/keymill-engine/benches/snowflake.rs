//! IDs a second of a snowflake source, against crates that make such IDs, and UUIDs v7.
//!
//! Run it with `cargo bench --bench snowflake` where nothing else runs and there are two cores. The
//! tables at the end have the median rate of each, and the rate of keymill, taking one by one,
//! divided by it: above 1 keymill is faster.
//!
//! In 41/10/12, whoever keeps to the clock comes to 4,096,000 a second at most: those figures tell
//! who waits well. Two do not keep to it: `lazy_generate` reads the clock once, when it is made,
//! and then writes times to come, and a UUID has twice the bits. They are to be compared in
//! 41/0/22, where the clock holds nobody up and what counts is the cost of one ID. `snowflaked` and
//! the other generators of `rs-snowflake` have no such layout.
//!
//! Everybody spins to wait. `rs-snowflake` is shared in a mutex. `ferroid` reads no clock: a thread
//! of its own writes the time down every millisecond, on the cores of those that are measured.

#![allow(clippy::unwrap_used, reason = "a bench that fails to unwrap has failed, and says where")]

use std::fmt::Write as _;
use std::hint::{black_box, spin_loop};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput};
use criterion::{criterion_group, criterion_main};
use ferroid::generator as ferroids;
use ferroid::id::{SnowflakeId, SnowflakeTwitterId};
use ferroid::time::MonotonicClock as Clock;
use keymill_core::Layout;
use keymill_engine::internals::Ticks;
use keymill_engine::space::Timeline;
use snowflake::SnowflakeIdGenerator;

/// How many IDs are made in one turn: half a second, where the clock holds it up.
const COUNT: u64 = 2_000_000;

fn snowflakes(criterion: &mut Criterion) {
    let wide = Layout::parse("41/0/22").unwrap();
    let tables = [
        alone::<SnowflakeTwitterId>(criterion, Layout::TWITTER),
        shared::<SnowflakeTwitterId>(criterion, Layout::TWITTER),
        alone::<wide::Id>(criterion, wide),
        shared::<wide::Id>(criterion, wide),
    ];
    println!("{}", tables.join("\n"));
}

fn alone<Id: SnowflakeId<Ty = u64>>(criterion: &mut Criterion, layout: Layout) -> String {
    let mut section = Section::new(criterion, format!("{layout}, one thread"));
    let ticks = ticks(layout);
    section.alone("keymill", || take(&ticks, 1));
    section.alone("keymill, 1,000 at a time", || take(&ticks, 1_000));
    let mut lazy = SnowflakeIdGenerator::new(0, 0);
    section.alone("rs-snowflake, lazy_generate", || one(lazy.lazy_generate()));
    if layout == Layout::TWITTER {
        let mut punctual = SnowflakeIdGenerator::new(0, 0);
        section.alone("rs-snowflake, generate", || one(punctual.generate()));
        section.alone("rs-snowflake, real_time_generate", || one(punctual.real_time_generate()));
        let mut generator = snowflaked::Generator::new(0);
        section.alone("snowflaked", || one(generator.generate::<i64>()));
    }
    let basic = ferroids::BasicSnowflakeGenerator::<Id, _>::new(0, Clock::default());
    section.alone("ferroid, basic", || one(basic.next_id(|_| spin_loop())));
    let atomic = ferroids::AtomicSnowflakeGenerator::<Id, _>::new(0, Clock::default());
    section.alone("ferroid, atomic", || one(atomic.next_id(|_| spin_loop())));
    section.alone("uuid, now_v7", || one(uuid::Uuid::now_v7()));
    section.finish()
}

fn shared<Id>(criterion: &mut Criterion, layout: Layout) -> String
where
    Id: SnowflakeId<Ty = u64> + Send + Sync,
{
    let mut section = Section::new(criterion, format!("{layout}, two threads"));
    let ticks = ticks(layout);
    section.shared("keymill", || take(&ticks, 1));
    section.shared("keymill, 1,000 at a time", || take(&ticks, 1_000));
    let lazy = Mutex::new(SnowflakeIdGenerator::new(0, 0));
    section.shared("rs-snowflake, lazy_generate", || one(lazy.lock().unwrap().lazy_generate()));
    if layout == Layout::TWITTER {
        let punctual = Mutex::new(SnowflakeIdGenerator::new(0, 0));
        let lock = || punctual.lock().unwrap();
        section.shared("rs-snowflake, generate", || one(lock().generate()));
        section.shared("rs-snowflake, real_time_generate", || one(lock().real_time_generate()));
        let generator = snowflaked::sync::Generator::new(0);
        section.shared("snowflaked", || one(generator.generate::<i64>()));
    }
    let lock = ferroids::LockSnowflakeGenerator::<Id, _>::new(0, Clock::default());
    section.shared("ferroid, lock", || one(lock.try_next_id(|_| spin_loop()).unwrap()));
    let atomic = ferroids::AtomicSnowflakeGenerator::<Id, _>::new(0, Clock::default());
    section.shared("ferroid, atomic", || one(atomic.next_id(|_| spin_loop())));
    section.shared("uuid, now_v7", || one(uuid::Uuid::now_v7()));
    section.finish()
}

criterion_group!(benches, snowflakes);
criterion_main!(benches);

/// Generators that are compared: each is a function that makes some IDs and says how many.
struct Section<'a> {
    heading: String,
    group: BenchmarkGroup<'a, WallTime>,
    /// IDs a second.
    rates: Vec<(&'static str, f64)>,
}

impl<'a> Section<'a> {
    fn new(criterion: &'a mut Criterion, heading: String) -> Section<'a> {
        let mut group = criterion.benchmark_group(&heading);
        group.throughput(Throughput::Elements(COUNT));
        group.sampling_mode(SamplingMode::Flat).sample_size(10);
        Section { heading, group, rates: Vec::new() }
    }

    fn alone(&mut self, name: &'static str, mut next: impl FnMut() -> u64) {
        self.measure(name, || make(COUNT, &mut next));
    }

    fn shared(&mut self, name: &'static str, next: impl Fn() -> u64 + Sync) {
        let half = || make(COUNT / 2, &next);
        self.measure(name, || {
            std::thread::scope(|scope| {
                scope.spawn(half);
                half();
            });
        });
    }

    fn measure(&mut self, name: &'static str, mut run: impl FnMut()) {
        let mut rates = Vec::new();
        self.group.bench_function(name, |bencher| {
            bencher.iter_custom(|turns| {
                let begin = Instant::now();
                (0..turns).for_each(|_| run());
                let passed = begin.elapsed();
                rates.push((COUNT * turns) as f64 / passed.as_secs_f64());
                passed
            });
        });
        rates.sort_unstable_by(f64::total_cmp);
        // There are none of one that criterion was told to leave out.
        self.rates.extend(rates.get(rates.len() / 2).map(|&median| (name, median)));
    }

    fn finish(self) -> String {
        self.group.finish();
        let keymill = self.rates.iter().find(|it| it.0 == "keymill").map_or(f64::NAN, |it| it.1);
        let mut table = format!("{:<34}{:>16}{:>14}\n", self.heading, "IDs a second", "keymill/it");
        for (name, rate) in self.rates {
            writeln!(table, "{name:<34}{rate:>16.0}{:>14.3}", keymill / rate).unwrap();
        }
        table
    }
}

/// Ferroid's IDs of 41/0/22.
#[allow(missing_docs, unreachable_pub, dead_code, reason = "ferroid's macro writes it")]
mod wide {
    use ferroid::define_snowflake_id as define;
    define!(Id, u64, reserved: 1, timestamp: 41, machine_id: 0, sequence: 22);
}

/// A source that has worker 0 for an hour.
fn ticks(layout: Layout) -> Ticks {
    let timeline = Timeline { epoch_ms: 0, layout };
    let clock = keymill_engine::clock::Clock::default();
    let now = clock.now_ms();
    let ticks = Ticks::new(timeline, clock, 1, Duration::from_secs(1));
    ticks.worker().begin(0, timeline.tick_at(now)..timeline.tick_at(now + 3_600_000), now);
    ticks
}

/// Draws as a take does, only that a take sleeps where it has to wait.
fn take(ticks: &Ticks, count: u64) -> u64 {
    let mut left = count;
    while left > 0 {
        if let Some(ids) = ticks.try_draw(left).unwrap() {
            left -= ids.end - ids.start;
            ids.for_each(|id| _ = black_box(id));
        } else {
            assert!(ticks.left() > 0, "the hour is over");
            spin_loop();
        }
    }
    count
}

fn one<T>(id: T) -> u64 {
    black_box(id);
    1
}

fn make(count: u64, mut next: impl FnMut() -> u64) {
    let mut made = 0;
    while made < count {
        made += next();
    }
}
