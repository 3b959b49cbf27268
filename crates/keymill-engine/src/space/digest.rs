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
const SHAPE_CAPACITY_MAX: u128 = 1 << 120;

/// The number below `capacity` that a MAC stands for.
///
/// The remainder of b random bits favours the low numbers by at most capacity / 2^b. The first
/// 16 bytes keep that within 2^-64 as long as the capacity is at most 2^64; for 64^20 keys they
/// would make it 2^-8, which can be measured, so that larger shapes take all 32 bytes: 2^-136.
fn reduce(mac: &[u8; 32], capacity: u128) -> u128 {
    assert!(capacity <= SHAPE_CAPACITY_MAX, "a shape has no {capacity} keys");
    let bytes = if capacity <= HALF_MAC_CAPACITY_MAX { &mac[..16] } else { &mac[..] };
    // Long division, a byte at a time: a remainder below 2^120 has room for one more.
    bytes.iter().fold(0, |remainder, &byte| ((remainder << 8) | u128::from(byte)) % capacity)
}

#[cfg(test)]
mod tests;
