//! FF1 against NIST's vectors and against an independent implementation.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use aes::{Aes128, Aes192, Aes256};
use fpe::ff1::{FF1, FlexibleNumeralString};
use keymill_core::Ff1;
use proptest::prelude::*;

#[test]
fn nist_sample_1() {
    check("2B7E151628AED2A6ABF7158809CF4F3C", "", 10, "2433477484");
}

#[test]
fn nist_sample_2() {
    check("2B7E151628AED2A6ABF7158809CF4F3C", "39383736353433323130", 10, "6124200773");
}

#[test]
fn nist_sample_3() {
    let key = "2B7E151628AED2A6ABF7158809CF4F3C";
    check(key, "3737373770717273373737", 36, "a9tv40mll9kdu509eum");
}

#[test]
fn nist_sample_4() {
    check("2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F", "", 10, "2830668132");
}

#[test]
fn nist_sample_5() {
    let key = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F";
    check(key, "39383736353433323130", 10, "2496655549");
}

#[test]
fn nist_sample_6() {
    let key = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F";
    check(key, "3737373770717273373737", 36, "xbj3kv35jrawxv32ysr");
}

#[test]
fn nist_sample_7() {
    let key = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94";
    check(key, "", 10, "6657667009");
}

#[test]
fn nist_sample_8() {
    let key = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94";
    check(key, "39383736353433323130", 10, "1001623463");
}

#[test]
fn nist_sample_9() {
    let key = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94";
    check(key, "3737373770717273373737", 36, "xs8a0azh2avyalyzuwd");
}

#[test]
fn a_whole_space_is_permuted() {
    // 36^4 is the standard's smallest domain of this radix; a slice of it will do for Miri.
    let capacity = 36u32.pow(4);
    let ff1 = Ff1::<Aes128>::new(&[7; 16], 36, 4).unwrap();
    let numbers = if cfg!(miri) { 20 } else { capacity };
    let mut images: Vec<u128> = (0..numbers).map(u128::from).collect();
    ff1.encrypt_many(&mut images);
    let mut seen = vec![false; capacity as usize];
    for &image in &images {
        let seen = &mut seen[usize::try_from(image).unwrap()];
        assert!(!*seen, "{image} is the image of two numbers");
        *seen = true;
    }
    ff1.decrypt_many(&mut images);
    assert!(images.into_iter().eq((0..numbers).map(u128::from)));
}

#[test]
fn no_parameter_beyond_the_standard_is_taken() {
    let refused = |key: &[u8], radix, length| Ff1::<Aes128>::new(key, radix, length).is_err();
    assert!(refused(&[0; 16], 1, 20), "a radix below 2");
    assert!(refused(&[0; 16], 65, 7), "a radix above 64");
    assert!(refused(&[0; 16], 62, 1), "a single digit");
    assert!(refused(&[0; 16], 62, 21), "more than 20 digits");
    assert!(refused(&[0; 16], 62, 3), "fewer than a million strings");
    assert!(refused(&[0; 15], 62, 7), "a short key");
    assert!(Ff1::<Aes128>::with_tweak(&[0; 16], 62, 7, &[0; 17]).is_err(), "a long tweak");
    assert!(!refused(&[0; 16], 10, 6), "exactly a million strings are enough");
}

#[test]
#[should_panic(expected = "below radix^length")]
fn a_number_beyond_the_domain_is_not_encrypted() {
    Ff1::<Aes128>::new(&[0; 16], 10, 6).unwrap().encrypt(1_000_000);
}

#[test]
fn debug_shows_no_key_material() {
    let ff1 = Ff1::<Aes128>::new(&[0xAB; 16], 10, 6).unwrap();
    assert_eq!(format!("{ff1:?}"), "Ff1 { radix: 10, length: 6, .. }");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 2000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn one_number_goes_where_the_fpe_crate_sends_it(case in case(1..=1)) {
        let Case { key, radix, length, tweak, numbers } = case;
        let ff1 = Ff1::<Aes128>::with_tweak(&key, radix, length, &tweak).unwrap();
        let oracle = FF1::<Aes128>::new(&key, u32::from(radix)).unwrap();
        for number in numbers {
            let expected = oracle.encrypt(&tweak, &digits_of(number, radix, length)).unwrap();
            let expected = number_of(expected, radix);
            prop_assert_eq!(ff1.encrypt(number), expected);
            prop_assert_eq!(ff1.decrypt(expected), number);
        }
    }

    #[test]
    fn many_numbers_go_where_each_alone_goes(case in case(1..=200)) {
        let Case { key, radix, length, tweak, numbers } = case;
        let ff1 = Ff1::<Aes128>::with_tweak(&key, radix, length, &tweak).unwrap();
        let mut images = numbers.clone();
        ff1.encrypt_many(&mut images);
        for (&number, &image) in numbers.iter().zip(&images) {
            prop_assert_eq!(image, ff1.encrypt(number));
        }
        ff1.decrypt_many(&mut images);
        prop_assert_eq!(images, numbers);
    }
}

#[derive(Clone, Debug)]
struct Case {
    key: [u8; 16],
    radix: u8,
    length: u8,
    tweak: Vec<u8>,
    numbers: Vec<u128>,
}

/// Any radix and length the standard allows, with the smallest and the largest number among the
/// numbers more often than chance would have them.
fn case(count: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Case> {
    let count = if cfg!(miri) { 1..=(*count.end()).min(9) } else { count };
    let domain = (2u8..=64, 2u8..=20)
        .prop_filter("at least a million strings", |&(radix, length)| {
            u128::from(radix).pow(u32::from(length)) >= 1_000_000
        });
    (domain, any::<[u8; 16]>()).prop_flat_map(move |((radix, length), key)| {
        let last = u128::from(radix).pow(u32::from(length)) - 1;
        let number = prop_oneof![8 => 0..=last, 1 => Just(0), 1 => Just(last)];
        let tweak = prop_oneof![Just(vec![]), prop::collection::vec(any::<u8>(), 0..=16)];
        (tweak, prop::collection::vec(number, count.clone()))
            .prop_map(move |(tweak, numbers)| Case { key, radix, length, tweak, numbers })
    })
}

fn digits_of(mut number: u128, radix: u8, length: u8) -> FlexibleNumeralString {
    let mut digits = vec![0; usize::from(length)];
    for digit in digits.iter_mut().rev() {
        *digit = u16::try_from(number % u128::from(radix)).unwrap();
        number /= u128::from(radix);
    }
    digits.into()
}

fn number_of(digits: FlexibleNumeralString, radix: u8) -> u128 {
    let digits: Vec<u16> = digits.into();
    digits.into_iter().fold(0, |number, digit| number * u128::from(radix) + u128::from(digit))
}

/// Encrypts the digits 0, 1, 2, … as NIST's samples do, and decrypts what came of it.
#[track_caller]
fn check(key: &str, tweak: &str, radix: u8, expected: &str) {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..][..2], 16).unwrap()).collect()
    };
    let (key, tweak) = (bytes(key), bytes(tweak));
    let number = |text: &str| u128::from_str_radix(text, u32::from(radix)).unwrap();
    let length = u8::try_from(expected.len()).unwrap();
    let plain = number(&"0123456789abcdefghi"[..expected.len()]);
    let (encrypted, decrypted) = match key.len() {
        16 => both_ways(&Ff1::<Aes128>::with_tweak(&key, radix, length, &tweak).unwrap(), plain),
        24 => both_ways(&Ff1::<Aes192>::with_tweak(&key, radix, length, &tweak).unwrap(), plain),
        _ => both_ways(&Ff1::<Aes256>::with_tweak(&key, radix, length, &tweak).unwrap(), plain),
    };
    assert_eq!(encrypted, number(expected));
    assert_eq!(decrypted, plain);
}

fn both_ways<C>(ff1: &Ff1<C>, plain: u128) -> (u128, u128)
where
    C: aes::cipher::KeyInit + aes::cipher::BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
{
    let encrypted = ff1.encrypt(plain);
    (encrypted, ff1.decrypt(encrypted))
}
