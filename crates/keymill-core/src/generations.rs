//! Generations: a space that was given longer keys, for when its first ones come to an end.
//!
//! Ordinals run on: where one generation ends, the next begins. The engine asks here what it
//! would ask a [`Codec`]; a space that never grew has one codec, which is asked directly.
//!
//! # Invariants
//!
//! - Every generation is longer than the one before, so that no key is of two of them.
//! - Distinct ordinals have distinct keys, and `ordinal(key(n))` is `n`, over all generations.

use std::ops::Range;

use thiserror::Error;

use crate::codec::{Codec, Located};
use crate::shape::{DecodeError, Shape};
use crate::text::KeyText;

/// Turns the ordinals of a space into keys and back, over all its generations.
#[derive(Debug)]
pub struct Generations {
    first: Codec,
    later: Vec<Later>,
    capacity: u64,
}

/// A generation after the first.
#[derive(Debug)]
struct Later {
    /// Its first ordinal.
    base: u64,
    codec: Codec,
}

/// Why a space cannot have a generation more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GenerationError {
    /// Plain integers become longer by themselves.
    #[error("plain integers (length 0) have no length to grow")]
    PlainIntegers,
    /// Keys of one length in two generations would be the same keys.
    #[error("keys can only become longer: the new length must be above {last}, not {length}")]
    NotLonger {
        /// What was given.
        length: u8,
        /// The length of the last generation.
        last: u8,
    },
    /// There are no ordinals for it.
    #[error(
        "the keyspace already has the maximum number of keys, so longer ones would never be used"
    )]
    Full,
}

impl Generations {
    /// A space that has not grown.
    pub fn new(first: Codec) -> Generations {
        Generations { capacity: first.capacity(), first, later: Vec::new() }
    }

    /// The same with one more generation behind the last.
    pub fn then(mut self, codec: Codec) -> Result<Generations, GenerationError> {
        self.check_next(codec.shape().length())?;
        let base = self.capacity;
        self.capacity = base.saturating_add(codec.capacity()).min(CAPACITY_MAX);
        self.later.push(Later { base, codec });
        Ok(self)
    }

    /// Refuses a length that the next generation cannot have.
    pub fn check_next(&self, length: u8) -> Result<(), GenerationError> {
        let last = self.last().shape().length();
        if last == 0 {
            return Err(GenerationError::PlainIntegers);
        }
        if length <= last {
            return Err(GenerationError::NotLonger { length, last });
        }
        if self.capacity >= CAPACITY_MAX {
            return Err(GenerationError::Full);
        }
        Ok(())
    }

    /// How many generations there are: at least one.
    pub fn count(&self) -> usize {
        1 + self.later.len()
    }

    /// The lengths of the generations after the first.
    pub fn later_lengths(&self) -> Vec<u8> {
        self.later.iter().map(|later| later.codec.shape().length()).collect()
    }

    /// How many ordinals there are in all.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Where the first generation ends.
    pub fn first_end(&self) -> u64 {
        self.later.first().map_or(self.capacity, |later| later.base)
    }

    /// How keys of the first generation are written; those of the others differ in length alone.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.first.shape()
    }

    /// The length of the longest key in bytes.
    pub fn text_len_max(&self) -> usize {
        self.last().shape().text_len_max()
    }

    /// The number of an ordinal, counted within its generation.
    pub fn number(&self, ordinal: u64) -> u128 {
        let (base, codec) = self.generation_of(ordinal);
        codec.number(ordinal - base)
    }

    /// The key of an ordinal below the capacity.
    #[inline]
    pub fn key(&self, ordinal: u64) -> KeyText {
        if self.later.is_empty() {
            return self.first.key(ordinal);
        }
        assert!(ordinal < self.capacity, "ordinal {ordinal} of {}", self.capacity);
        let (base, codec) = self.generation_of(ordinal);
        codec.key(ordinal - base)
    }

    /// Gives `each` the key of every ordinal, in order; many at once are made much faster than
    /// one by one.
    #[inline]
    pub fn keys(&self, ordinals: Range<u64>, mut each: impl FnMut(u64, &[u8])) {
        if self.later.is_empty() {
            return self.first.keys(ordinals, each);
        }
        assert!(ordinals.end <= self.capacity, "ordinals {ordinals:?} of {}", self.capacity);
        let mut start = ordinals.start;
        while start < ordinals.end {
            let (base, codec) = self.generation_of(start);
            let end = ordinals.end.min(base + codec.capacity());
            codec.keys(start - base..end - base, |ordinal, key| each(base + ordinal, key));
            start = end;
        }
    }

    /// Finds the ordinal of a key, in whatever spelling. Its length tells its generation; where
    /// no generation has that length, the error is the first one's.
    pub fn ordinal(&self, key: &[u8]) -> Result<Located, DecodeError> {
        let first = self.first.ordinal(key);
        if !is_of_another_length(&first) {
            return first;
        }
        for later in &self.later {
            let found = later.codec.ordinal(key);
            if !is_of_another_length(&found) {
                return found.map(|located| self.located_in(later, located));
            }
        }
        first
    }

    fn last(&self) -> &Codec {
        self.later.last().map_or(&self.first, |later| &later.codec)
    }

    /// The generation that an ordinal is of, and the first ordinal of that.
    fn generation_of(&self, ordinal: u64) -> (u64, &Codec) {
        let later = self.later.iter().rev().find(|later| later.base <= ordinal);
        later.map_or((0, &self.first), |later| (later.base, &later.codec))
    }

    fn located_in(&self, generation: &Later, located: Located) -> Located {
        let Located::Ordinal(ordinal) = located else { return located };
        let ordinal = generation.base + ordinal;
        // The last generation may be cut short by what can be counted.
        if ordinal < self.capacity { Located::Ordinal(ordinal) } else { Located::Beyond }
    }
}

/// Where ordinals end. One less than a codec allows, because the capacity itself has to fit a signed 64-bit
/// column, too.
const CAPACITY_MAX: u64 = (1 << 63) - 1;

fn is_of_another_length(found: &Result<Located, DecodeError>) -> bool {
    matches!(found, Err(DecodeError::Length { .. }))
}
