//! Generations: ordinals run on, no key comes twice, and every key finds its ordinal.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::HashSet;

use keymill_core::{Codec, DecodeError, GenerationError, Generations, Located, Shape, ShapeSpec};
use proptest::prelude::*;

#[test]
fn one_generation_is_its_codec() {
    let (codec, grown) = (sequential("decimal", 2, 3, 1), space("decimal", &[2], 3, 1));
    assert_eq!((grown.count(), grown.capacity(), grown.first_end()), (1, 33, 33));
    assert_eq!(grown.text_len_max(), 2);
    for ordinal in 0..33 {
        assert_eq!(grown.key(ordinal), codec.key(ordinal));
        assert_eq!(grown.number(ordinal), codec.number(ordinal));
    }
    assert_eq!(grown.ordinal(b"00"), codec.ordinal(b"00"));
    assert_eq!(grown.ordinal(b"123"), codec.ordinal(b"123"));
}

#[test]
fn ordinals_run_on_and_numbers_begin_again() {
    let grown = space("decimal", &[1, 2, 4], 1, 0);
    assert_eq!((grown.count(), grown.capacity(), grown.first_end()), (3, 10_110, 10));
    assert_eq!(grown.text_len_max(), 4);
    for (ordinal, key, number) in
        [(0, "0", 0), (9, "9", 9), (10, "00", 0), (109, "99", 99), (110, "0000", 0)]
    {
        assert_eq!(grown.key(ordinal).as_str(), key);
        assert_eq!(grown.number(ordinal), number);
        assert_eq!(grown.ordinal(key.as_bytes()), Ok(Located::Ordinal(ordinal)));
    }
}

#[test]
fn no_key_comes_twice() {
    for (step, offset) in [(1, 0), (3, 2)] {
        check_all(&space("decimal", &[1, 2, 3], step, offset));
        check_all(&space("hex", &[1, 3], step, offset));
    }
}

#[test]
fn a_run_over_the_seam_of_a_shuffled_space_is_made_of_both_generations() {
    let codec = |length| Codec::shuffled(shape("base36", length), 1, 0, &[length; 16]).unwrap();
    let seam = 36_u64.pow(4);
    let grown = Generations::new(codec(4)).then(codec(5)).unwrap();
    assert_eq!(grown.capacity(), seam + 36_u64.pow(5));
    let mut next = seam - 300;
    grown.keys(seam - 300..seam + 300, |ordinal, key| {
        assert_eq!(ordinal, next);
        let (base, length) = if ordinal < seam { (0, 4) } else { (seam, 5) };
        assert_eq!(key, codec(length).key(ordinal - base).as_bytes());
        assert_eq!(grown.ordinal(key), Ok(Located::Ordinal(ordinal)));
        next += 1;
    });
    assert_eq!(next, seam + 300);
}

#[test]
fn a_key_of_another_region_is_elsewhere_in_every_generation() {
    let here = space("decimal", &[1, 2], 2, 0);
    assert_eq!(here.ordinal(b"7"), Ok(Located::Elsewhere { number: 7 }));
    assert_eq!(here.ordinal(b"07"), Ok(Located::Elsewhere { number: 7 }));
    assert_eq!(here.ordinal(b"08"), Ok(Located::Ordinal(5 + 4)));
}

#[test]
fn what_is_no_key_is_refused_by_the_generation_of_its_length() {
    let grown = space("decimal", &[1, 3], 1, 0);
    assert_eq!(grown.ordinal(b"0x0"), Err(DecodeError::Character { at: 1, found: b'x' }));
    assert_eq!(grown.ordinal(b"00"), Err(DecodeError::Length { expected: 1, found: 2 }));
    assert_eq!(grown.ordinal(b""), Err(DecodeError::Empty));
}

#[test]
fn what_is_beyond_all_that_can_be_counted_is_cut_off() {
    let first = 10_u64.pow(18);
    let grown = space("decimal", &[18, 19], 1, 0);
    assert_eq!(grown.capacity(), (1 << 63) - 1);
    // 10^19 of the second generation are more than are left.
    let last = grown.capacity() - 1;
    assert_eq!(grown.ordinal(&grown.key(last)), Ok(Located::Ordinal(last)));
    let beyond = format!("{:019}", last + 1 - first);
    assert_eq!(grown.ordinal(beyond.as_bytes()), Ok(Located::Beyond));
}

#[test]
fn a_generation_that_cannot_be_is_refused_with_the_reason() {
    let then = |lengths: &[u8], length| {
        let error = space("decimal", lengths, 1, 0).then(sequential("decimal", length, 1, 0));
        error.unwrap_err()
    };
    assert_eq!(then(&[0], 5), GenerationError::PlainIntegers);
    assert_eq!(then(&[3], 3), GenerationError::NotLonger { length: 3, last: 3 });
    assert_eq!(then(&[3, 6], 5), GenerationError::NotLonger { length: 5, last: 6 });
    assert_eq!(then(&[3], 0), GenerationError::NotLonger { length: 0, last: 3 });
    assert_eq!(then(&[19], 20), GenerationError::Full);
}

#[test]
#[should_panic(expected = "ordinal 110 of 110")]
fn there_is_no_key_at_the_capacity() {
    space("decimal", &[1, 2], 1, 0).key(110);
}

#[test]
#[should_panic(expected = "ordinals 9..111 of 110")]
fn there_are_no_keys_beyond_the_capacity() {
    space("decimal", &[1, 2], 1, 0).keys(9..111, |_, _| ());
}

#[test]
fn an_empty_range_has_no_keys() {
    let grown = space("decimal", &[1, 2], 1, 0);
    grown.keys(10..10, |_, _| panic!("a key of nothing"));
    grown.keys(110..110, |_, _| panic!("a key of nothing"));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 500 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn many_keys_are_those_made_one_by_one(
        lengths in prop::collection::btree_set(1_u8..=20, 1..4),
        (step, offset) in (1_u64..9).prop_flat_map(|step| (Just(step), 0..step)),
        seam in any::<bool>(),
        at in 0_u64..=10,
        count in 0_u64..100,
    ) {
        let lengths: Vec<u8> = lengths.into_iter().collect();
        let mut grown = Generations::new(sequential("decimal", lengths[0], step, offset));
        for &length in &lengths[1..] {
            // Where nothing is left to count, the space has grown enough.
            if grown.check_next(length).is_ok() {
                grown = grown.then(sequential("decimal", length, step, offset)).unwrap();
            }
        }
        let count = count.min(grown.capacity());
        let last = grown.capacity() - count;
        let start = match seam {
            true => grown.first_end().saturating_sub(count / 2).min(last),
            false => last / 10 * at,
        };
        let mut expected = start;
        grown.keys(start..start + count, |ordinal, key| {
            assert_eq!(ordinal, expected);
            assert_eq!(key, grown.key(ordinal).as_bytes());
            assert_eq!(grown.ordinal(key), Ok(Located::Ordinal(ordinal)));
            expected += 1;
        });
        prop_assert_eq!(expected, start + count);
    }
}

fn shape(alphabet: &str, length: u8) -> Shape {
    let spec = ShapeSpec { alphabet: alphabet.into(), length, ..ShapeSpec::default() };
    Shape::new(&spec).unwrap()
}

fn sequential(alphabet: &str, length: u8, step: u64, offset: u64) -> Codec {
    Codec::sequential(shape(alphabet, length), step, offset).unwrap()
}

/// A sequential space with generations of these lengths.
fn space(alphabet: &str, lengths: &[u8], step: u64, offset: u64) -> Generations {
    let codec = |length: &u8| sequential(alphabet, *length, step, offset);
    let mut codecs = lengths.iter().map(codec);
    let first = Generations::new(codecs.next().unwrap());
    codecs.fold(first, |grown, codec| grown.then(codec).unwrap())
}

/// Every ordinal has a key of its own, which finds it again.
#[track_caller]
fn check_all(grown: &Generations) {
    let mut seen = HashSet::new();
    grown.keys(0..grown.capacity(), |ordinal, key| {
        assert!(seen.insert(key.to_vec()), "{} twice", key.escape_ascii());
        assert_eq!(grown.ordinal(key), Ok(Located::Ordinal(ordinal)));
        assert_eq!(key, grown.key(ordinal).as_bytes());
    });
    assert_eq!(seen.len() as u64, grown.capacity());
}
