//! Shapes: every number is written one way, and read back from every way it may be typed.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use keymill_core::{DecodeError, KeyText, Shape, ShapeSpec};
use proptest::prelude::*;

#[test]
fn numbers_are_written_as_users_expect() {
    check_written("base62,7", 0, "0000000");
    check_written("base62,7", 62 + 36, "000001a");
    check_written("base62,7", 62u128.pow(7) - 1, "zzzzzzz");
    check_written("decimal,1", 7, "7");
    check_written("base64url,20", 0, "AAAAAAAAAAAAAAAAAAAA");
    check_written("base64url,20", (1 << 120) - 1, "____________________");
    check_written("base32,8,group=4", 31, "0000-000Z");
    check_written("base32,8,group=4,prefix=ord_", 32, "ord_0000-0010");
    check_written("base32,8,group=8", 31, "0000000Z");
    check_written("base32,3,group=1", 31, "0-0-Z");
    // The check character is grouped like the others: here it stands alone.
    check_written("decimal,4,group=4,check", 0, "0000-0");
}

#[test]
fn length_zero_writes_plain_integers() {
    check_written("decimal,0", 0, "0");
    check_written("decimal,0", 10, "10");
    check_written("decimal,0", (1 << 63) - 1, "9223372036854775807");
    check_written("decimal,0,prefix=T-", 99, "T-99");
    check_written("01,0,prefix=0123456789abcdef", (1 << 63) - 1, &{
        "0123456789abcdef".to_owned() + &"1".repeat(63)
    });
}

#[test]
fn other_spellings_are_read_as_the_same_key() {
    check_canonical("base32,8,group=4", "oilO-zz0L", "0110-ZZ01");
    check_canonical("base32,8,group=4", "OILOZZ0L", "0110-ZZ01");
    check_canonical("base32,8,group=4", "-0-1-1-0ZZ01-", "0110-ZZ01");
    check_canonical("hex,6", "AbCdEf", "abcdef");
    check_canonical("base62,4", "AbCd", "AbCd");
    check_canonical("base36,4,prefix=K-", "K-ABCD", "K-abcd");
}

#[test]
fn what_is_no_key_is_refused_with_the_reason() {
    let length = |expected, found| DecodeError::Length { expected, found };
    check_refused("base62,7", "", DecodeError::Empty);
    check_refused("base62,7", "123456", length(7, 6));
    check_refused("base62,7", "12345678", length(7, 8));
    check_refused("base62,7,check", "1234567", length(8, 7));
    check_refused("base62,7", "123-567", DecodeError::Character { at: 3, found: b'-' });
    check_refused("base62,7", "123456 ", DecodeError::Character { at: 6, found: b' ' });
    check_refused(
        "base62,7,prefix=a_",
        "a_1234\u{e9}7",
        DecodeError::Character { at: 6, found: 0xC3 },
    );
    check_refused("base62,7,prefix=a_", "b_1234567", DecodeError::Prefix { expected: "a_".into() });
    check_refused("base62,7,prefix=a_", "A_1234567", DecodeError::Prefix { expected: "a_".into() });
    check_refused("base62,7,prefix=a_", "a", DecodeError::Prefix { expected: "a_".into() });
    check_refused("base62,7,prefix=a_", "a_", DecodeError::Empty);
    check_refused("base32,8,group=4", "----", DecodeError::Empty);
    check_refused("base32,8,group=4", "1234-567", length(8, 7));
    check_refused("decimal,0", "007", DecodeError::LeadingZero);
    check_refused("decimal,0", "9223372036854775808", DecodeError::TooLarge);
    for digits in [19, 38, 39, 40, 64, 100] {
        check_refused("decimal,0", &"9".repeat(digits), DecodeError::TooLarge);
    }
    // 2^128, which would be 0 again.
    check_refused("decimal,0", "340282366920938463463374607431768211456", DecodeError::TooLarge);
    check_refused("decimal,0", "", DecodeError::Empty);
    check_refused("decimal,0,check", "0", DecodeError::Empty);
    check_refused("base62,7,check", "00000001", DecodeError::Check);
}

#[test]
fn decode_errors_say_what_is_wrong() {
    let error = shape("base62,7").read(b"abc\n567").unwrap_err();
    assert_eq!(error.to_string(), r"`\n` at position 4 is not in the alphabet of the keyspace");
    let error = shape("base62,7,prefix=a_").read(b"abc").unwrap_err();
    assert_eq!(error.to_string(), "the key does not begin with `a_`");
}

#[test]
fn shapes_that_cannot_be_are_refused_with_the_reason() {
    check_no_shape("base62,21", "at most 20 symbols");
    check_no_shape("base63,7", "no alphabet `base63`");
    check_no_shape("base62,7,prefix=12345678901234567", "at most 16 characters");
    check_no_shape("base62,7,prefix=a/", "`/` cannot be in a prefix");
    check_no_shape("base64url,8,group=4", "cannot be grouped by hyphens");
    check_no_shape("decimal,0,group=3", "plain integers");
    check_no_shape("01,20,check", "at least 3 symbols");
}

#[test]
fn the_settings_are_given_back_with_the_alphabet_by_name() {
    let given = spec("0123456789,8,group=4,prefix=a_,check");
    let shape = Shape::new(&given).unwrap();
    assert_eq!(shape.spec(), ShapeSpec { alphabet: "decimal".into(), ..given });
    assert_eq!(shape, self::shape("decimal,8,group=4,prefix=a_,check"));
    assert_ne!(shape, self::shape("decimal,8,group=4,prefix=a_"));
}

#[test]
fn what_follows_the_prefix_can_be_told() {
    assert_eq!(shape("base62,4,prefix=a_").after_prefix(b"a_1234"), b"1234");
    assert_eq!(shape("base62,4").after_prefix(b"1234"), b"1234");
    assert_eq!(shape("base62,4,prefix=a_").after_prefix(b"a"), b"");
}

#[test]
#[should_panic(expected = "not below the capacity")]
fn a_number_beyond_the_capacity_is_not_written() {
    shape("decimal,2").write(100, &mut KeyText::new());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 5000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_number_is_read_back_from_its_text((spec, number) in spec_and_number()) {
        let shape = Shape::new(&spec).unwrap();
        let mut key = KeyText::new();
        shape.write(number, &mut key);
        prop_assert!(key.len() <= shape.text_len_max());
        prop_assert!(spec.length == 0 || key.len() == shape.text_len_max());
        prop_assert_eq!(shape.read(&key), Ok(number));
        prop_assert_eq!(shape.canonical(&key), Ok(key));
    }

    #[test]
    fn a_key_typed_another_way_is_the_same_key((spec, number) in spec_and_number()) {
        let shape = Shape::new(&spec).unwrap();
        let mut key = KeyText::new();
        shape.write(number, &mut key);
        let body = key.as_str().strip_prefix(&spec.prefix).unwrap();
        let has = |f: fn(&u8) -> bool| shape.alphabet().symbols().as_bytes().iter().any(f);
        let one_case = has(u8::is_ascii_uppercase) != has(u8::is_ascii_lowercase);
        let mut spellings = vec![body.to_owned()];
        if one_case {
            spellings.extend([body.to_uppercase(), body.to_lowercase()]);
        }
        if spec.alphabet == "base32" {
            spellings.push(body.replace('0', "o").replace('1', "L"));
        }
        if spec.group > 0 {
            spellings.push(body.replace('-', ""));
        }
        for spelling in spellings {
            let typed = spec.prefix.clone() + &spelling;
            prop_assert_eq!(shape.canonical(typed.as_bytes()), Ok(key), "{}", typed);
        }
    }

    #[test]
    fn any_bytes_are_a_key_with_one_canonical_spelling_or_refused(
        (spec, _) in spec_and_number(),
        text in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let shape = Shape::new(&spec).unwrap();
        if let Ok(canonical) = shape.canonical(&text) {
            prop_assert_eq!(shape.read(&canonical), shape.read(&text));
        }
    }
}

/// Any sound settings, with a number to write; the first and the last number come up often.
fn spec_and_number() -> impl Strategy<Value = (ShapeSpec, u128)> {
    let named = prop::sample::select(keymill_core::Alphabet::NAMES).prop_map(str::to_owned);
    let literal = (2usize..=64).prop_flat_map(|size| {
        let symbols = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
        let symbols: Vec<char> = symbols.chars().collect();
        let chosen = prop::sample::subsequence(symbols, size).prop_shuffle();
        chosen.prop_map(|symbols| symbols.into_iter().collect::<String>())
    });
    let spec = (
        prop_oneof![named, literal],
        0u8..=20,
        text_of("AZaz09_.~-", 0..=16),
        0u8..=6,
        any::<bool>(),
    );
    let spec = spec.prop_map(|(alphabet, length, prefix, group, check)| ShapeSpec {
        group: if length == 0 || alphabet.contains('-') { 0 } else { group },
        check: check && alphabet.len() > 2,
        alphabet: if alphabet.starts_with("base64") { "hex".into() } else { alphabet },
        length,
        prefix,
    });
    spec.prop_flat_map(|spec| {
        let last = Shape::new(&spec).unwrap().capacity() - 1;
        let small = 0..=last.min(5000);
        let number = prop_oneof![6 => 0..=last, 2 => small, 1 => Just(0), 1 => Just(last)];
        (Just(spec), number)
    })
}

/// Some of the given characters. (A pattern would do, but Miri takes minutes to parse one.)
fn text_of(
    characters: &str,
    length: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = String> + use<> {
    let character = prop::sample::select(characters.chars().collect::<Vec<_>>());
    prop::collection::vec(character, length).prop_map(String::from_iter)
}

/// Reads `alphabet,length[,group=N][,prefix=P][,check]`, to keep the cases above short.
fn spec(text: &str) -> ShapeSpec {
    let mut parts = text.split(',');
    let mut spec = ShapeSpec {
        alphabet: parts.next().unwrap().to_owned(),
        length: parts.next().unwrap().parse().unwrap(),
        ..ShapeSpec::default()
    };
    for part in parts {
        match part.split_once('=') {
            Some(("group", group)) => spec.group = group.parse().unwrap(),
            Some(("prefix", prefix)) => spec.prefix = prefix.to_owned(),
            _ => spec.check = part == "check",
        }
    }
    spec
}

#[track_caller]
fn shape(text: &str) -> Shape {
    Shape::new(&spec(text)).unwrap()
}

#[track_caller]
fn check_written(spec: &str, number: u128, expected: &str) {
    let shape = shape(spec);
    let mut key = KeyText::new();
    shape.write(number, &mut key);
    assert_eq!(key.as_str(), expected);
    assert_eq!(shape.read(expected.as_bytes()), Ok(number));
    assert!(key.len() <= shape.text_len_max());
}

#[track_caller]
fn check_canonical(spec: &str, typed: &str, expected: &str) {
    assert_eq!(shape(spec).canonical(typed.as_bytes()).unwrap().as_str(), expected);
}

#[track_caller]
fn check_refused(spec: &str, typed: &str, expected: DecodeError) {
    let shape = shape(spec);
    assert_eq!(shape.read(typed.as_bytes()), Err(expected.clone()));
    assert_eq!(shape.canonical(typed.as_bytes()), Err(expected));
}

#[track_caller]
fn check_no_shape(spec: &str, reason: &str) {
    let error = Shape::new(&self::spec(spec)).unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
}
