//! How fast keys are made, against what else makes keys.
//!
//! Run with `cargo bench -p keymill-core`. The shape is base62×7 throughout, but for UUIDs, which
//! have their own.

#![allow(clippy::unwrap_used)] // A bench has nobody to report an error to.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use keymill_core::{Blocklist, Codec, Shape, ShapeSpec};

const BATCH: u64 = 1000;
/// Room for the text of a batch.
const ROOM: usize = 8 * 1000;

fn batched(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch of 1000");
    group.throughput(Throughput::Elements(BATCH));
    let shuffled = shuffled(&ShapeSpec::default());
    let blocklist = Blocklist::builtin();
    group.bench_function("shuffled", |b| {
        let mut start = 0;
        b.iter(|| {
            let mut text = [0u8; ROOM];
            let mut room = text.chunks_exact_mut(8);
            shuffled.keys(start..start + BATCH, |_, key| copy(key, room.next()));
            start += BATCH;
            black_box(text)
        });
    });
    group.bench_function("shuffled, blocklist", |b| {
        let mut start = 0;
        b.iter(|| {
            let mut text = [0u8; ROOM];
            let mut room = text.chunks_exact_mut(8);
            shuffled.keys(start..start + BATCH, |_, key| {
                if !blocklist.blocks(shuffled.shape().after_prefix(key)) {
                    copy(key, room.next());
                }
            });
            start += BATCH;
            black_box(text)
        });
    });
    for (name, spec) in [
        ("shuffled, check", ShapeSpec { check: true, ..ShapeSpec::default() }),
        (
            "shuffled, check, groups of 4",
            ShapeSpec { check: true, group: 4, ..ShapeSpec::default() },
        ),
        ("shuffled, base62×12", ShapeSpec { length: 12, ..ShapeSpec::default() }),
        ("shuffled, base62×20", ShapeSpec { length: 20, ..ShapeSpec::default() }),
    ] {
        let codec = self::shuffled(&spec);
        each_key(&mut group, name, &codec);
    }
    let shape = Shape::new(&ShapeSpec::default()).unwrap();
    each_key(&mut group, "sequential", &Codec::sequential(shape, 1, 0).unwrap());
    group.finish();
}

fn single(c: &mut Criterion) {
    let mut group = c.benchmark_group("one by one");
    group.throughput(Throughput::Elements(1));
    let shuffled = shuffled(&ShapeSpec::default());
    let mut ordinal = 0;
    group.bench_function("shuffled", |b| {
        b.iter(|| {
            ordinal += 1;
            shuffled.key(black_box(ordinal))
        });
    });
    let key = shuffled.key(42);
    group.bench_function("shuffled, back to the ordinal", |b| {
        b.iter(|| shuffled.ordinal(black_box(&key)));
    });
    group.bench_function("fpe crate", |b| {
        let ff1 = fpe::ff1::FF1::<aes::Aes128>::new(&SECRET, 62).unwrap();
        let symbols = shuffled.shape().alphabet().symbols().as_bytes();
        b.iter(|| {
            ordinal += 1;
            let mut digits = [0; 7];
            let mut rest = ordinal;
            for digit in digits.iter_mut().rev() {
                *digit = u16::try_from(rest % 62).unwrap();
                rest /= 62;
            }
            let digits = fpe::ff1::FlexibleNumeralString::from(digits.to_vec());
            let digits: Vec<u16> = ff1.encrypt(&[], &digits).unwrap().into();
            let mut text = [0; 7];
            for (symbol, digit) in text.iter_mut().zip(digits) {
                *symbol = symbols[usize::from(digit)];
            }
            text
        });
    });
    group.bench_function("nanoid crate", |b| {
        let symbols: Vec<char> = shuffled.shape().alphabet().symbols().chars().collect();
        b.iter(|| nanoid::nanoid!(7, &symbols));
    });
    group.bench_function("sqids crate", |b| {
        let sqids = sqids::Sqids::builder().min_length(7).build().unwrap();
        b.iter(|| {
            ordinal += 1;
            sqids.encode(&[black_box(ordinal)]).unwrap()
        });
    });
    group.bench_function("ulid crate", |b| {
        b.iter(|| {
            let mut text = [0; ulid::ULID_LEN];
            ulid::Ulid::generate().array_to_str(&mut text);
            text
        });
    });
    group.bench_function("uuid crate, v7", |b| {
        b.iter(|| {
            let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
            uuid::Uuid::now_v7().hyphenated().encode_lower(&mut text);
            text
        });
    });
    group.finish();
}

criterion_group!(benches, batched, single);
criterion_main!(benches);

const SECRET: [u8; 16] = *b"a secret, for us";

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn each_key(group: &mut Group<'_>, name: &str, codec: &Codec) {
    group.bench_function(name, |b| {
        let mut start = 0;
        b.iter(|| {
            codec.keys(start..start + BATCH, |_, key| {
                black_box(key);
            });
            start += BATCH;
        });
    });
}

fn shuffled(spec: &ShapeSpec) -> Codec {
    Codec::shuffled(Shape::new(spec).unwrap(), 1, 0, &SECRET).unwrap()
}

fn copy(key: &[u8], room: Option<&mut [u8]>) {
    if let Some(room) = room {
        room[..key.len()].copy_from_slice(key);
    }
}
