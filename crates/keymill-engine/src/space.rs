//! A space: what its keys look like (for ever) and how it is served (changeable).
//!
//! `operations` builds spaces from records of the store; programs, settings and requests describe new
//! ones. Nothing here does I/O.

mod claimed;
pub mod codec;
mod definition;
pub mod digest;
mod rolled_back;
pub(crate) mod rules;
pub mod secret;
pub mod skips;
mod spec;
mod timeline;
mod tuning;
mod url_normal_form;

use std::fmt;

use keymill_core::{CodecError, GenerationError, LayoutError, ShapeError};
use serde::{Deserialize, Serialize};

pub use claimed::{Claimed, KeyId};
pub use definition::{Definition, Difference};
pub use rolled_back::RolledBack;
pub use spec::SpaceSpec;
pub use timeline::Timeline;
pub use tuning::{Audit, Tuning};

/// No space has more ordinals than this, so that every store can count them in 64 signed bits.
pub const CAPACITY_MAX: u64 = i64::MAX as u64;

/// The longest keys that a space can have, their prefix and check character aside.
pub const LENGTH_MAX: u8 = 20;

/// Where a space's keys come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Leased ordinals through FF1: unguessable, nothing stored per unused key.
    #[default]
    Shuffled,
    /// Leased ordinals written as they are.
    Sequential,
    /// Shuffled keys that are written out in advance, and keys that the user imports: rows that
    /// move from one table to another.
    Pooled,
    /// Keys made from inputs: the same input always gives the same key.
    Digest,
    /// Numbers made of the time, the instance and a sequence, ordered by time.
    Snowflake,
    /// UUIDs, which are not recorded.
    Uuid,
}

impl Kind {
    /// Whether its keys are counted by ordinals, which can be granted and skipped.
    pub fn counts(self) -> bool {
        !matches!(self, Kind::Snowflake | Kind::Uuid)
    }
}

/// Why a definition cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The name of the space cannot be one.
    #[error(
        "`{}` cannot name a keyspace: use 1 to 64 of a-z, 0-9, `-` and `_`, beginning with a letter or digit",
        .0.escape_debug()
    )]
    Name(String),
    /// The shape contradicts itself.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The shape does not fit the kind, the step or the offset.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The bits of a snowflake contradict each other.
    #[error("layout: {0}")]
    Layout(#[from] LayoutError),
    /// The space cannot grow like that.
    #[error(transparent)]
    Generation(#[from] GenerationError),
    /// A setting is outside its range.
    #[error("{setting} {problem}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// What is wrong with it, as the end of a sentence.
        problem: String,
    },
    /// Interleaved stores must shuffle with one secret, so it cannot be a made-up one.
    #[error(
        "a shuffled keyspace with step {step} shares its keys with other stores, so all of them \
         need one secret: set KEYMILL_SECRET (or `secret_file`) to the same value everywhere"
    )]
    SecretNotShared {
        /// The step asked for.
        step: u64,
    },
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Shuffled => "shuffled",
            Kind::Sequential => "sequential",
            Kind::Pooled => "pooled",
            Kind::Digest => "digest",
            Kind::Snowflake => "snowflake",
            Kind::Uuid => "uuid",
        })
    }
}

/// Refuses names that would not be safe in a URL, a file or a metric.
pub fn check_name(name: &str) -> Result<(), DefinitionError> {
    let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let good = (1..=64).contains(&name.len())
        && name.bytes().all(fits)
        && name.as_bytes()[0].is_ascii_alphanumeric();
    if good { Ok(()) } else { Err(DefinitionError::Name(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_a_url() {
        for good in ["links", "a", "0", "order-numbers_2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "_", "Links", "a/b", "a b", "ä", &"a".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
