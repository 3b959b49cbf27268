//! Why settings do not make a shape, and why a text is not a key of one.

use thiserror::Error;

use super::{LENGTH_MAX, PREFIX_MAX};
use crate::alphabet::AlphabetError;

/// Why settings do not make a shape.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// The alphabet is not one.
    #[error(transparent)]
    Alphabet(#[from] AlphabetError),
    /// The length is above the maximum.
    #[error("a key has at most {LENGTH_MAX} symbols besides its check character, not {length}")]
    Length {
        /// What was given.
        length: u8,
    },
    /// The prefix is above its maximum.
    #[error("a prefix has at most {PREFIX_MAX} characters, `{prefix}` has {}", prefix.chars().count())]
    PrefixLength {
        /// What was given.
        prefix: String,
    },
    /// The prefix would need escaping in a URL.
    #[error(
        "`{found}` cannot be in a prefix: only A-Z, a-z, 0-9, `-`, `_`, `.` and `~` are safe in a URL"
    )]
    PrefixCharacter {
        /// The offending character.
        found: char,
    },
    /// A hyphen would be both a symbol and a separator.
    #[error("keys cannot be grouped by hyphens when the hyphen is a symbol of the alphabet")]
    GroupWithHyphenSymbol,
    /// Plain integers are not written in groups.
    #[error("plain integers (length 0) cannot be grouped; give the keys a length")]
    GroupWithoutLength,
    /// No check character exists for two symbols.
    #[error("a check character needs an alphabet of at least 3 symbols")]
    CheckWithTwoSymbols,
}

/// Why a text is not a key of this shape.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// It does not begin with the prefix.
    #[error("the key does not begin with `{expected}`")]
    Prefix {
        /// The prefix of this shape.
        expected: String,
    },
    /// It is too short or too long.
    #[error(
        "the key has {found} characters after its prefix (hyphens not counted), not {expected}"
    )]
    Length {
        /// How many symbols a key of this shape has, its check character included.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// There is nothing after the prefix.
    #[error("the key is empty")]
    Empty,
    /// A character is not of the alphabet.
    #[error("`{}` at position {} is not in the alphabet of the keyspace", found.escape_ascii(), at + 1)]
    Character {
        /// Its index in the text, in bytes.
        at: usize,
        /// The byte that stands there.
        found: u8,
    },
    /// The check character does not match the others.
    #[error("the check character does not match: the key is mistyped")]
    Check,
    /// A plain integer begins with zeros, which would give it a second spelling.
    #[error("the number begins with a zero")]
    LeadingZero,
    /// A plain integer is 2^63 or more.
    #[error("the number is too large")]
    TooLarge,
}
