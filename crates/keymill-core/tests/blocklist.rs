//! The blocklist: no key contains a listed word, whatever its case and wherever its hyphens.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.

use keymill_core::{Blocklist, BlocklistError, Codec, Shape, ShapeSpec};
use proptest::prelude::*;

#[test]
fn a_word_is_found_anywhere_in_any_case_across_hyphens() {
    check(&["darn"], "darn", true);
    check(&["darn"], "xxDaRnxx", true);
    check(&["darn"], "12DA-RN34", true);
    check(&["darn"], "d-a-r-n", true);
    check(&["darn"], "ddarn", true);
    check(&["darn"], "dar", false);
    check(&["darn"], "dar.n", false);
    check(&["darn"], "da0rn", false);
    check(&["darn"], "", false);
    check(&["Da-Rn"], "darn", true);
}

#[test]
fn words_that_share_letters_are_all_found() {
    let words = ["abcd", "bce", "cdf", "abxy"];
    check(&words, "abce", true);
    check(&words, "abcdf", true);
    check(&words, "abcf", false);
    check(&words, "ababxy", true);
    check(&words, "cbcdf", true);
    check(&["abcde", "bc"], "abc", true);
    check(&["bc", "abcde"], "xabcx", true);
    check(&["abc", "ab"], "ab", true);
    check(&["ab", "abc"], "xab", true);
    check(&["666", "w_w"], "a666b", true);
    check(&["666", "w_w"], "aW_Wb", true);
}

#[test]
fn an_empty_list_blocks_nothing() {
    assert!(Blocklist::none().is_empty());
    assert!(Blocklist::new(Vec::<String>::new()).unwrap().is_empty());
    check(&[], "fuck", false);
}

#[test]
fn the_builtin_words_are_blocked_and_others_can_be_added() {
    let builtin = Blocklist::builtin();
    assert!(!builtin.is_empty());
    assert!(builtin.blocks(b"xFuCk12"));
    assert!(!builtin.blocks(b"darn123"));
    let more = Blocklist::with_builtin(["darn"]).unwrap();
    assert!(more.blocks(b"xFuCk12") && more.blocks(b"darn123") && !more.blocks(b"hello12"));
}

#[test]
fn words_that_cannot_be_blocked_are_refused() {
    let error = |word: &str| Blocklist::new([word]).unwrap_err();
    assert_eq!(error("a"), BlocklistError::TooShort { word: "a".into() });
    assert_eq!(error("-a-"), BlocklistError::TooShort { word: "-a-".into() });
    let found = |word: &str, found| BlocklistError::Character { word: word.into(), found };
    assert_eq!(error("two words"), found("two words", ' '));
    assert_eq!(error("scheiß"), found("scheiß", 'ß'));
    assert_eq!(error(&"a".repeat(100_001)), BlocklistError::TooLong);
}

#[test]
fn the_builtin_words_cost_few_keys() {
    let shape = Shape::new(&ShapeSpec::default()).unwrap();
    let codec = Codec::shuffled(shape, 1, 0, &[5; 16]).unwrap();
    let blocklist = Blocklist::builtin();
    let keys = if cfg!(miri) { 5 } else { 1_000_000 };
    // About 1.4 in a thousand.
    let mut blocked = 0;
    codec.keys(0..keys, |_, key| {
        blocked += u32::from(blocklist.blocks(key));
    });
    assert!(cfg!(miri) || (1000..2000).contains(&blocked), "{blocked} of {keys}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 5000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn exactly_the_keys_that_contain_a_word_are_blocked(
        words in prop::collection::vec(text_of("abC", 2..=5), 1..8),
        key in text_of("abcABC-", 0..=12),
    ) {
        let typed = key.replace('-', "").to_lowercase();
        let expected = words.iter().any(|word| typed.contains(&word.to_lowercase()));
        let blocklist = Blocklist::new(&words).unwrap();
        prop_assert_eq!(blocklist.blocks(key.as_bytes()), expected);
    }
}

/// Some of the given characters. (A pattern would do, but Miri takes minutes to parse one.)
fn text_of(
    characters: &str,
    length: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = String> + use<> {
    let character = prop::sample::select(characters.chars().collect::<Vec<_>>());
    prop::collection::vec(character, length).prop_map(String::from_iter)
}

#[track_caller]
fn check(words: &[&str], key: &str, expected: bool) {
    assert_eq!(Blocklist::new(words).unwrap().blocks(key.as_bytes()), expected, "{key}");
}
