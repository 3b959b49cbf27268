//! The pure part of kind `digest`: an input becomes a key without an ordinal.
//!
//! `operations` prepares an input once, looks its hash up in the store, and, when it is new there,
//! offers one candidate after another until a key is free. Nothing here does I/O, and nothing
//! here knows which keys are taken.
//!
//! # Invariants
//!
//! - Hash and candidates depend on the key, the shape, the scope and the normal form of the input,
//!   and on nothing else: every instance makes the same ones, for ever.
//! - Scope and input go into the MAC behind their lengths, so that no two pairs read alike.
//! - A candidate is not unique: distinct inputs may share one. The store decides who has it.

use std::borrow::Cow;
use std::fmt;

use hkdf::hmac::{Hmac, KeyInit, Mac};
use keymill_core::{KeyText, Shape};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

pub use super::url_normal_form::UrlError;

/// The most bytes an input may have, as it was given: its normal form may have three times as many.
pub const INPUT_LEN_MAX: usize = 8_192;

/// The most bytes a scope may have.
pub const SCOPE_LEN_MAX: usize = 256;

/// Which inputs count as the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalize {
    /// Those that are equal byte by byte.
    #[default]
    None,
    /// URLs with one normal form by RFC 3986.
    Url,
    /// URLs with one normal form once everything printable in them is decoded.
    UrlDecoded,
}

/// Turns the inputs of one space into keys.
pub struct Digester {
    key: Zeroizing<[u8; 32]>,
    shape: Shape,
    normalize: Normalize,
}

/// An input that was accepted and normalized, within its scope.
#[derive(Debug, Clone)]
pub struct Prepared<'a> {
    digester: &'a Digester,
    scope: &'a str,
    input: Cow<'a, str>,
}

/// What an input is known by in the store, which never sees the input itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InputHash([u8; 32]);

/// Why an input has no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// There is nothing to digest.
    #[error("the input is empty")]
    InputEmpty,
    /// The input is above its maximum.
    #[error("an input has at most {INPUT_LEN_MAX} bytes, this one has {found}")]
    InputTooLong {
        /// How many bytes were given.
        found: usize,
    },
    /// The scope is above its maximum.
    #[error("a scope has at most {SCOPE_LEN_MAX} bytes, this one has {found}")]
    ScopeTooLong {
        /// How many bytes were given.
        found: usize,
    },
    /// The space takes URLs only.
    #[error("the input is not a URL: {0}")]
    NotUrl(UrlError),
}

impl Digester {
    /// A digester under a key that no other space and no other use has.
    pub fn new(key: [u8; 32], shape: Shape, normalize: Normalize) -> Digester {
        Digester { key: Zeroizing::new(key), shape, normalize }
    }

    /// How candidates are written.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Checks and normalizes an input; an empty scope is a scope like any other.
    pub fn prepare<'a>(
        &'a self,
        scope: &'a str,
        input: &'a str,
    ) -> Result<Prepared<'a>, DigestError> {
        if scope.len() > SCOPE_LEN_MAX {
            return Err(DigestError::ScopeTooLong { found: scope.len() });
        }
        if input.is_empty() {
            return Err(DigestError::InputEmpty);
        }
        if input.len() > INPUT_LEN_MAX {
            return Err(DigestError::InputTooLong { found: input.len() });
        }
        let input = match self.normalize {
            Normalize::None => Cow::Borrowed(input),
            Normalize::Url => {
                Cow::Owned(super::url_normal_form::url(input).map_err(DigestError::NotUrl)?)
            }
            Normalize::UrlDecoded => {
                Cow::Owned(super::url_normal_form::url_decoded(input).map_err(DigestError::NotUrl)?)
            }
        };
        Ok(Prepared { digester: self, scope, input })
    }
}

impl Prepared<'_> {
    /// The input in its normal form.
    pub fn input(&self) -> &str {
        &self.input
    }

    /// The identity of scope and input, the same whatever key they end up with.
    pub fn input_hash(&self) -> InputHash {
        InputHash(self.mac(INPUT_TAG, &[]))
    }

    /// The key to offer at this attempt, counted from 0.
    pub fn candidate(&self, attempt: u8) -> KeyText {
        let shape = &self.digester.shape;
        let number = reduce(&self.mac(&[], &[attempt]), shape.capacity());
        let mut text = KeyText::new();
        shape.write(number, &mut text);
        text
    }

    /// HMAC-SHA-256 over the tag, scope and input behind their lengths, and the ending.
    ///
    /// Without a tag a message begins with the length of the scope, and so with a zero byte: it
    /// cannot be a message with [`INPUT_TAG`].
    fn mac(&self, tag: &[u8], ending: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.digester.key.as_slice())
            .expect("HMAC takes keys of any length");
        mac.update(tag);
        for part in [self.scope, self.input()] {
            let len = u64::try_from(part.len()).expect("a length fits 64 bits");
            mac.update(&len.to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.update(ending);
        mac.finalize().into_bytes().into()
    }
}

impl InputHash {
    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Normalize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Normalize::None => "none",
            Normalize::Url => "url",
            Normalize::UrlDecoded => "url-decoded",
        })
    }
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digester")
            .field("shape", &self.shape.spec())
            .field("normalize", &self.normalize)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for InputHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for InputHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputHash({self})")
    }
}

/// What keeps the hash of an input apart from its candidates, under the same key.
const INPUT_TAG: &[u8] = b"input";

/// The capacity up to which half of a MAC is enough.
const HALF_MAC_CAPACITY_MAX: u128 = 1 << 64;

/// The largest capacity of a shape, 64^20.
const CAPACITY_MAX: u128 = 1 << 120;

/// The number below `capacity` that a MAC stands for.
///
/// The remainder of b random bits favours the low numbers by at most capacity / 2^b. The first
/// 16 bytes keep that within 2^-64 as long as the capacity is at most 2^64; for 64^20 keys they
/// would make it 2^-8, which can be measured, so that larger shapes take all 32 bytes: 2^-136.
fn reduce(mac: &[u8; 32], capacity: u128) -> u128 {
    assert!(capacity <= CAPACITY_MAX, "a shape has no {capacity} keys");
    let bytes = if capacity <= HALF_MAC_CAPACITY_MAX { &mac[..16] } else { &mac[..] };
    // Long division, a byte at a time: a remainder below 2^120 has room for one more.
    bytes.iter().fold(0, |remainder, &byte| ((remainder << 8) | u128::from(byte)) % capacity)
}

#[cfg(test)]
mod tests {
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
}
