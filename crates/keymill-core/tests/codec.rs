//! Codecs: no two ordinals share a key, and every key finds its ordinal.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use std::collections::HashSet;

use keymill_core::{Codec, CodecError, DecodeError, Located, Shape, ShapeSpec};
use proptest::prelude::*;

#[test]
fn regions_share_a_shuffled_space_without_overlap_or_gap() {
    let regions: Vec<Codec> = (0..3).map(|offset| shuffled("base36", 4, 3, offset)).collect();
    check_regions(&regions, 36u64.pow(4));
}

#[test]
fn ticket_servers_share_a_sequential_space_without_overlap_or_gap() {
    let regions: Vec<Codec> = (0..7).map(|offset| sequential("decimal", 4, 7, offset)).collect();
    check_regions(&regions, 10_000);
}

#[test]
fn a_sequential_space_counts_as_forge_does() {
    let codec = sequential("base62", 7, 1, 0);
    assert_eq!(codec.key(98).as_str(), "000001a");
    assert_eq!(sequential("decimal", 0, 2, 1).key(3).as_str(), "7");
}

#[test]
fn the_capacity_is_what_the_offset_leaves() {
    check_capacity(&sequential("decimal", 2, 1, 0), 100);
    check_capacity(&sequential("decimal", 2, 3, 0), 34);
    check_capacity(&sequential("decimal", 2, 3, 1), 33);
    check_capacity(&sequential("decimal", 2, 3, 2), 33);
    check_capacity(&sequential("decimal", 2, 1000, 99), 1);
    check_capacity(&sequential("decimal", 0, 1, 0), 1 << 63);
    check_capacity(&sequential("decimal", 0, 2, 1), 1 << 62);
    check_capacity(&sequential("base64url", 20, 1, 0), 1 << 63);
    // 2^120 / (2^64 - 1) is a little more than 2^56.
    check_capacity(&sequential("base64url", 20, u64::MAX, 0), (1 << 56) + 1);
    check_capacity(&sequential("base64url", 20, u64::MAX, u64::MAX - 1), 1 << 56);
    check_capacity(&shuffled("base62", 7, 1, 0), 62u64.pow(7));
    check_capacity(&shuffled("base62", 20, 1, 0), 1 << 63);
    check_capacity(&shuffled("hex", 5, u64::MAX, 3), 1);
}

#[test]
fn a_key_of_another_region_is_elsewhere() {
    let (here, there) = (shuffled("base62", 7, 2, 0), shuffled("base62", 7, 2, 1));
    let key = there.key(5);
    assert_eq!(here.ordinal(&key), Ok(Located::Elsewhere { number: 11 }));
    assert_eq!(there.ordinal(&key), Ok(Located::Ordinal(5)));
}

#[test]
fn a_key_whose_number_no_ordinal_reaches_is_beyond() {
    let codec = sequential("decimal", 20, 1, 0);
    check_located(&codec, "09223372036854775807", Located::Ordinal((1 << 63) - 1));
    check_located(&codec, "09223372036854775808", Located::Beyond);
    check_located(&codec, "99999999999999999999", Located::Beyond);
    let odd = sequential("decimal", 20, 2, 1);
    check_located(&odd, "18446744073709551615", Located::Ordinal((1 << 63) - 1));
    check_located(&odd, "18446744073709551614", Located::Elsewhere { number: (1 << 64) - 2 });
    check_located(&odd, "18446744073709551616", Located::Beyond);
}

#[test]
fn nearly_every_forged_long_key_is_beyond() {
    let codec = shuffled("base62", 20, 1, 0);
    let forged = ["abcdefghijklmnopqrst", "00000000000000000000", "zzzzzzzzzzzzzzzzzzzz"];
    for key in forged {
        check_located(&codec, key, Located::Beyond);
    }
}

#[test]
fn what_is_no_key_has_no_ordinal() {
    let codec = shuffled("base62", 7, 1, 0);
    let expected = DecodeError::Length { expected: 7, found: 3 };
    assert_eq!(codec.ordinal(b"abc"), Err(expected));
}

#[test]
fn parameters_that_cannot_be_are_refused_with_the_reason() {
    let sequential = |step, offset| Codec::sequential(shape("decimal", 2), step, offset);
    check_refused(sequential(0, 0), "the step must be at least 1");
    check_refused(sequential(3, 3), "the offset 3 must be below the step 3");
    check_refused(sequential(1000, 100), "allows only 100");
}

#[test]
fn a_space_too_small_to_shuffle_says_which_length_would_do() {
    for (alphabet, length, expected) in
        [("base62", 3, 4), ("decimal", 5, 6), ("base32", 1, 4), ("01", 19, 20), ("base64url", 3, 4)]
    {
        let error = Codec::shuffled(shape(alphabet, length), 1, 0, &KEY).unwrap_err();
        let CodecError::TooSmallToShuffle { length_needed, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(length_needed, expected, "{alphabet}");
        assert!(error.to_string().contains(&format!("use length {expected} or more")));
        Codec::shuffled(shape(alphabet, length_needed), 1, 0, &KEY).unwrap();
    }
    let plain = Codec::shuffled(shape("decimal", 0), 1, 0, &KEY);
    check_refused(plain, "plain integers (length 0) cannot be shuffled");
}

#[test]
#[should_panic(expected = "ordinal 100 of 100")]
fn there_is_no_key_at_the_capacity() {
    sequential("decimal", 2, 1, 0).key(100);
}

#[test]
#[should_panic(expected = "ordinals 99..101 of 100")]
fn there_are_no_keys_beyond_the_capacity() {
    sequential("decimal", 2, 1, 0).keys(99..101, |_, _| ());
}

#[test]
fn an_empty_range_has_no_keys() {
    let codec = shuffled("base62", 7, 1, 0);
    codec.keys(5..5, |_, _| panic!("a key of nothing"));
    codec.keys(codec.capacity()..codec.capacity(), |_, _| panic!("a key of nothing"));
}

#[test]
fn the_secret_makes_the_order() {
    let of = |key| Codec::shuffled(shape("base62", 7), 1, 0, &key).unwrap().key(0);
    assert_ne!(of([1; 16]), of([2; 16]));
    assert_eq!(of([1; 16]), of([1; 16]));
}

#[test]
fn keys_stay_what_they_were_in_every_version() {
    // A change here would repeat keys that are out already.
    let codec = shuffled("base62", 7, 1, 0);
    let keys: Vec<String> = (0..4).map(|ordinal| codec.key(ordinal).to_string()).collect();
    assert_eq!(keys, ["nSXoIWO", "y27rAma", "N2Jpy4A", "aNCYCld"]);
}

#[test]
fn debug_shows_no_key_material() {
    let shown = format!("{:?}", shuffled("base62", 7, 1, 0));
    assert!(shown.contains("base62") && shown.contains("shuffled: true"), "{shown}");
    assert!(!shown.contains("key") && !shown.contains("state"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 1000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn many_keys_are_those_made_one_by_one(
        alphabet in prop::sample::select(&["base62", "base32", "decimal", "base64url", "01"]),
        length in 0u8..=20,
        check in any::<bool>(),
        shuffle in any::<bool>(),
        (step, offset) in prop_oneof![1u64..1000, any::<u64>()]
            .prop_flat_map(|step| (Just(step.max(1)), 0..step.max(1))),
        at in 0u64..=10,
        count in 0u64..150,
    ) {
        let check = check && alphabet != "01";
        let spec = ShapeSpec { alphabet: alphabet.into(), length, check, ..ShapeSpec::default() };
        let shape = Shape::new(&spec).unwrap();
        let codec = match shuffle {
            true => Codec::shuffled(shape, step, offset, &KEY),
            false => Codec::sequential(shape, step, offset),
        };
        // Settings that make no codec are other tests' business.
        let Ok(codec) = codec else { return Ok(()) };
        let count = if cfg!(miri) { count % 10 } else { count }.min(codec.capacity());
        let last = codec.capacity() - count;
        let start = if at == 10 { last } else { last / 10 * at };
        let mut expected = start;
        codec.keys(start..start + count, |ordinal, key| {
            assert_eq!(ordinal, expected);
            assert_eq!(key, codec.key(ordinal).as_bytes());
            assert_eq!(codec.ordinal(key), Ok(Located::Ordinal(ordinal)));
            expected += 1;
        });
        prop_assert_eq!(expected, start + count);
    }
}

const KEY: [u8; 16] = *b"0123456789abcdef";

fn shape(alphabet: &str, length: u8) -> Shape {
    let spec = ShapeSpec { alphabet: alphabet.into(), length, ..ShapeSpec::default() };
    Shape::new(&spec).unwrap()
}

fn sequential(alphabet: &str, length: u8, step: u64, offset: u64) -> Codec {
    Codec::sequential(shape(alphabet, length), step, offset).unwrap()
}

fn shuffled(alphabet: &str, length: u8, step: u64, offset: u64) -> Codec {
    Codec::shuffled(shape(alphabet, length), step, offset, &KEY).unwrap()
}

/// Every key of the space comes from exactly one region, and the others know that it is not theirs.
#[track_caller]
fn check_regions(regions: &[Codec], capacity: u64) {
    let total: u64 = regions.iter().map(Codec::capacity).sum();
    assert_eq!(total, capacity);
    let mut seen = HashSet::new();
    for (i, region) in regions.iter().enumerate() {
        let most = if cfg!(miri) { 3 } else { region.capacity() };
        region.keys(0..most, |ordinal, key| {
            assert!(seen.insert(key.to_vec()), "{} twice", key.escape_ascii());
            for (j, other) in regions.iter().enumerate() {
                let expected = match i == j {
                    true => Located::Ordinal(ordinal),
                    false => Located::Elsewhere { number: region.number(ordinal) },
                };
                // Decoding all is slow and adds nothing: a part will do.
                if ordinal % 97 < 3 {
                    assert_eq!(other.ordinal(key), Ok(expected));
                }
            }
        });
    }
    assert!(cfg!(miri) || seen.len() as u64 == capacity);
}

/// The capacity is as expected; the last ordinal has a key, which finds it again.
#[track_caller]
fn check_capacity(codec: &Codec, expected: u64) {
    assert_eq!(codec.capacity(), expected);
    let last = expected - 1;
    assert_eq!(codec.ordinal(&codec.key(last)), Ok(Located::Ordinal(last)));
    let mut keys = 0;
    codec.keys(last..expected, |_, key| {
        assert_eq!(key, codec.key(last).as_bytes());
        keys += 1;
    });
    assert_eq!(keys, 1);
}

#[track_caller]
fn check_located(codec: &Codec, key: &str, expected: Located) {
    assert_eq!(codec.ordinal(key.as_bytes()), Ok(expected));
}

#[track_caller]
fn check_refused(codec: Result<Codec, CodecError>, reason: &str) {
    let error = codec.unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
}
