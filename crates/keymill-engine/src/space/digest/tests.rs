//! What the keys of inputs are, by example; and what is pinned for ever.

use keymill_core::ShapeSpec;

use super::*;

#[test]
fn the_same_input_has_the_same_candidate() {
    assert_eq!(candidate("a", "x", 0), candidate("a", "x", 0));
}

#[test]
fn scopes_inputs_and_attempts_have_candidates_of_their_own() {
    let candidates = [
        candidate("", "x", 0),
        candidate("a", "x", 0),
        candidate("a", "y", 0),
        candidate("a", "x", 1),
        candidate("a", "x", 2),
        candidate("a", "x", 255),
        // The same bytes, parted elsewhere.
        candidate("ab", "c", 0),
        candidate("a", "bc", 0),
        candidate("", "abc", 0),
    ];
    for (i, left) in candidates.iter().enumerate() {
        for right in &candidates[i + 1..] {
            assert_ne!(left, right);
        }
    }
}

#[test]
fn hashes_tell_scope_from_input() {
    let digester = digester(&ShapeSpec::default(), Normalize::None);
    let hash = |scope, input| digester.prepare(scope, input).unwrap().input_hash();
    assert_eq!(hash("ab", "c"), hash("ab", "c"));
    assert_ne!(hash("ab", "c"), hash("a", "bc"));
    assert_ne!(hash("", "c"), hash("c", "c"));
}

#[test]
fn inputs_with_one_normal_form_have_one_hash_and_one_candidate() {
    let alike = |normalize| {
        let digester = digester(&ShapeSpec::default(), normalize);
        let left = digester.prepare("", "HTTP://a.com/?id=1").unwrap();
        let right = digester.prepare("", "http://A.com/%3Fid%3D1").unwrap();
        let same = left.input() == right.input();
        assert_eq!(left.input_hash() == right.input_hash(), same);
        assert_eq!(left.candidate(0) == right.candidate(0), same);
        same
    };
    assert_eq!(
        [Normalize::None, Normalize::Url, Normalize::UrlDecoded].map(alike),
        [false, false, true]
    );
}

#[test]
fn candidates_are_keys_of_the_shape() {
    let base = ShapeSpec::default;
    let specs = [
        base(),
        ShapeSpec { length: 1, ..base() },
        ShapeSpec { length: 20, alphabet: "base64url".to_owned(), ..base() },
        ShapeSpec { length: 0, alphabet: "decimal".to_owned(), ..base() },
        ShapeSpec { length: 11, prefix: "ord_".to_owned(), group: 4, check: true, ..base() },
    ];
    for spec in specs {
        let digester = digester(&spec, Normalize::None);
        let prepared = digester.prepare("scope", "input").unwrap();
        for attempt in 0..=u8::MAX {
            let key = prepared.candidate(attempt);
            assert_eq!(digester.shape().canonical(&key), Ok(key), "{spec:?}");
        }
    }
}

#[test]
fn every_key_of_a_small_shape_comes_up() {
    let spec = ShapeSpec { alphabet: "decimal".to_owned(), length: 1, ..ShapeSpec::default() };
    let digester = digester(&spec, Normalize::None);
    let mut seen = [0; 10];
    for input in 0..100 {
        let key = digester.prepare("", &input.to_string()).unwrap().candidate(0);
        seen[usize::from(key.as_bytes()[0] - b'0')] += 1;
    }
    assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
}

/// The numbers are Python's.
#[test]
fn a_mac_is_reduced_like_one_large_number() {
    let counting: [u8; 32] = std::array::from_fn(|i| u8::try_from(i + 1).unwrap());
    let cases: [(&[u8; 32], u128, u128); 7] = [
        (&counting, 10, 6),
        (&counting, 1 << 64, 651_345_242_494_996_240),
        (&counting, (1 << 64) + 1, 1_157_442_765_409_226_768),
        (&counting, 62_u128.pow(20), 266_496_035_324_980_106_956_306_792_667_029_280),
        (&[255; 32], 1 << 64, (1 << 64) - 1),
        (&[255; 32], 62_u128.pow(20), 242_490_976_557_874_671_227_100_573_816_848_383),
        (&[255; 32], 1 << 120, (1 << 120) - 1),
    ];
    for (mac, capacity, expected) in cases {
        assert_eq!(reduce(mac, capacity), expected, "{mac:?} below {capacity}");
    }
}

/// A derivation that changes would give known inputs other keys: it is pinned for ever. The
/// values were made with Python's `hmac`.
#[test]
fn the_derivation_is_pinned() {
    let short = digester(&ShapeSpec::default(), Normalize::Url);
    let long = digester(&ShapeSpec { length: 20, ..ShapeSpec::default() }, Normalize::Url);
    let short = short.prepare("tenant", "HTTP://Example.com").unwrap();
    let long = long.prepare("tenant", "HTTP://Example.com").unwrap();
    assert_eq!(short.input(), "http://example.com/");
    let hash = "11ee07a07ad30dc249f7bb227ff41b39da29f58b032e9424017ddd47969deb3d";
    assert_eq!(short.input_hash().to_string(), hash);
    // The shape has no part in it.
    assert_eq!(long.input_hash().to_string(), hash);
    assert_eq!(
        [0, 1, 255].map(|n| short.candidate(n).to_string()),
        ["8JvKdoU", "RoCwm1N", "rntFnqM"]
    );
    assert_eq!(
        [0, 1, 255].map(|n| long.candidate(n).to_string()),
        ["MGmHyLOiCDcQ6hUowzkT", "HT8f9gJGDNV4feXLdJKH", "Q3trIoyTW77cTQ7ixmZt",]
    );
}

#[test]
fn inputs_and_scopes_have_limits() {
    let (input_max, scope_max) = ("i".repeat(INPUT_LEN_MAX), "s".repeat(SCOPE_LEN_MAX));
    check(&scope_max, &input_max, None);
    check("", "", Some(DigestError::InputEmpty));
    check("", &format!("{input_max}i"), Some(DigestError::InputTooLong { found: 8_193 }));
    check(&format!("{scope_max}s"), "i", Some(DigestError::ScopeTooLong { found: 257 }));
}

#[test]
fn what_is_not_a_url_is_refused_with_the_reason_where_urls_are_asked_for() {
    for normalize in [Normalize::Url, Normalize::UrlDecoded] {
        let digester = digester(&ShapeSpec::default(), normalize);
        let error = digester.prepare("", "example.com/a").unwrap_err();
        assert_eq!(error, DigestError::NotUrl(UrlError::NoScheme));
        assert!(error.to_string().contains("no scheme"), "{error}");
    }
    check("", "example.com/a", None);
}

#[test]
fn normalizations_are_shown_as_they_are_written() {
    for normalize in [Normalize::None, Normalize::Url, Normalize::UrlDecoded] {
        let written = serde_json::to_string(&normalize).unwrap();
        assert_eq!(written, format!("\"{normalize}\""));
    }
}

#[test]
fn debug_shows_nothing_of_the_key() {
    let digester = digester(&ShapeSpec::default(), Normalize::None);
    let prepared = digester.prepare("a", "x").unwrap();
    assert!(!format!("{prepared:?}").contains("7, 7"), "{prepared:?}");
}

/// Whether a digester that normalizes nothing accepts an input.
#[track_caller]
fn check(scope: &str, input: &str, expected: Option<DigestError>) {
    let digester = digester(&ShapeSpec::default(), Normalize::None);
    assert_eq!(digester.prepare(scope, input).err(), expected);
}

fn candidate(scope: &str, input: &str, attempt: u8) -> KeyText {
    let digester = digester(&ShapeSpec::default(), Normalize::None);
    let prepared = digester.prepare(scope, input).unwrap();
    prepared.candidate(attempt)
}

fn digester(spec: &ShapeSpec, normalize: Normalize) -> Digester {
    Digester::new([7; 32], Shape::new(spec).unwrap(), normalize)
}
