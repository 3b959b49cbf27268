//! The check character on real keys: what a person mistypes, keymill notices.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use keymill_core::{DecodeError, KeyText, Shape, ShapeSpec};

#[test]
fn every_wrong_character_and_every_swap_is_noticed_in_decimal() {
    check("decimal", 9);
}

#[test]
fn every_wrong_character_and_every_swap_is_noticed_in_base32() {
    check("base32", 8);
}

#[test]
fn every_wrong_character_and_every_swap_is_noticed_in_base36() {
    check("base36", 8);
}

#[test]
fn every_wrong_character_and_every_swap_is_noticed_in_base58() {
    check("base58", 7);
}

#[test]
fn every_wrong_character_and_every_swap_is_noticed_in_base62() {
    check("base62", 7);
}

#[test]
fn every_wrong_character_and_every_swap_is_noticed_in_base64url() {
    check("base64url", 20);
}

/// Mistypes some keys in every possible way, at every position, the check character included.
#[track_caller]
fn check(alphabet: &str, length: u8) {
    let spec = ShapeSpec { alphabet: alphabet.into(), length, check: true, ..ShapeSpec::default() };
    let shape = Shape::new(&spec).unwrap();
    let (keys, wrong_step) = if cfg!(miri) { (1, 20) } else { (200, 1) };
    for i in 0..keys {
        let number = shape.capacity() / (keys + 1) * (i + 1) + i;
        let mut key = KeyText::new();
        shape.write(number, &mut key);
        assert_eq!(shape.read(&key), Ok(number));
        for at in 0..key.len() {
            for wrong in shape
                .alphabet()
                .symbols()
                .bytes()
                .step_by(wrong_step)
                .filter(|&wrong| wrong != key[at])
            {
                let mut mistyped = key.to_vec();
                mistyped[at] = wrong;
                assert_eq!(
                    shape.read(&mistyped),
                    Err(DecodeError::Check),
                    "{wrong} at {at}, {key}"
                );
            }
            if at > 0 && key[at] != key[at - 1] {
                let mut mistyped = key.to_vec();
                mistyped.swap(at - 1, at);
                assert_eq!(shape.read(&mistyped), Err(DecodeError::Check), "swap at {at}, {key}");
            }
        }
    }
}
