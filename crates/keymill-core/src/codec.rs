//! A codec: the ordinals of one space as keys, and keys as ordinals.
//!
//! The engine holds one per generation of a space and calls it for every key it hands out or is
//! asked about. It keeps no state: which ordinals are handed out is the lease's business.
//!
//! # Invariants
//!
//! - Distinct ordinals have distinct keys, also across codecs with the same shape, step and
//!   secret but different offsets: the permutation covers all of alphabet^length.
//! - `ordinal(key(n))` is `n`.

use std::fmt;
use std::ops::Range;

use aes::Aes128Enc;
use thiserror::Error;

use crate::ff1::{DOMAIN_MIN, Ff1};
use crate::rounds::{BATCH_MAX, Halves};
use crate::shape::{DecodeError, Shape};
use crate::text::KeyText;

/// Turns ordinals into keys and back.
pub struct Codec {
    shape: Shape,
    order: Order,
    step: u64,
    offset: u64,
    capacity: u64,
}

/// Where a key belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// It is the key of this ordinal.
    Ordinal(u64),
    /// It is of this keyspace, but of another offset: another region gives it out.
    Elsewhere {
        /// The number it stands for.
        number: u128,
    },
    /// It is well-formed, but no ordinal reaches its number: nobody ever gave it out.
    Beyond,
}

/// Why there is no codec for some parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CodecError {
    /// Numbers cannot advance by nothing.
    #[error("the step must be at least 1")]
    StepZero,
    /// The offset is not a residue of the step.
    #[error("the offset {offset} must be below the step {step}")]
    OffsetNotBelowStep {
        /// What was given.
        step: u64,
        /// What was given.
        offset: u64,
    },
    /// Not even the first number can be written.
    #[error("the offset {offset} leaves no keys: the shape allows only {capacity}")]
    OffsetBeyondCapacity {
        /// What was given.
        offset: u64,
        /// How many numbers the shape can write.
        capacity: u128,
    },
    /// So short a key cannot be shuffled securely.
    #[error(
        "this alphabet and length allow only {capacity} keys; shuffling needs at least \
         {DOMAIN_MIN}: use length {length_needed} or more, or a larger alphabet"
    )]
    TooSmallToShuffle {
        /// How many keys the shape can write.
        capacity: u128,
        /// The shortest length that would do for this alphabet.
        length_needed: u8,
    },
    /// Plain integers have no fixed length to shuffle within.
    #[error(
        "plain integers (length 0) cannot be shuffled: use length {length_needed} or more, or kind \
         `sequential`"
    )]
    PlainIntegersCannotBeShuffled {
        /// The shortest length that would do for this alphabet.
        length_needed: u8,
    },
}

impl Codec {
    /// A codec whose keys are the numbers as they are.
    pub fn sequential(shape: Shape, step: u64, offset: u64) -> Result<Codec, CodecError> {
        Codec::new(shape, step, offset, Order::Sequential)
    }

    /// A codec whose keys are the numbers permuted under a secret key.
    ///
    /// AES-128 is enough: what an attacker can do against FF1 is bounded by the number of keys of
    /// the space, which is far below 2^128.
    pub fn shuffled(
        shape: Shape,
        step: u64,
        offset: u64,
        key: &[u8; 16],
    ) -> Result<Codec, CodecError> {
        let length_needed = shortest_to_shuffle(shape.alphabet().size());
        if shape.length() == 0 {
            return Err(CodecError::PlainIntegersCannotBeShuffled { length_needed });
        }
        if shape.length() < length_needed {
            let capacity = shape.capacity();
            return Err(CodecError::TooSmallToShuffle { capacity, length_needed });
        }
        let ff1 = Ff1::new(key, shape.alphabet().size(), shape.length())
            .expect("the alphabet and the length were just checked");
        Codec::new(shape, step, offset, Order::Shuffled(Box::new(ff1)))
    }

    /// How many ordinals there are: those whose number the shape can write, at most 2^63.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How keys are written.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// `ordinal * step + offset`.
    pub fn number(&self, ordinal: u64) -> u128 {
        u128::from(ordinal) * u128::from(self.step) + u128::from(self.offset)
    }

    /// The key of an ordinal below the capacity.
    pub fn key(&self, ordinal: u64) -> KeyText {
        assert!(ordinal < self.capacity, "ordinal {ordinal} of {}", self.capacity);
        let mut text = KeyText::new();
        let number = self.number(ordinal);
        match &self.order {
            Order::Sequential => self.shape.write(number, &mut text),
            Order::Shuffled(ff1) => self.shape.write(ff1.encrypt(number), &mut text),
        }
        text
    }

    /// Gives `each` the key of every ordinal, in order; many at once are made much faster than
    /// one by one.
    pub fn keys(&self, ordinals: Range<u64>, mut each: impl FnMut(u64, &[u8])) {
        assert!(ordinals.end <= self.capacity, "ordinals {ordinals:?} of {}", self.capacity);
        if ordinals.is_empty() {
            return;
        }
        let mut text = self.shape.prefixed();
        match &self.order {
            Order::Sequential => {
                for ordinal in ordinals {
                    self.shape.write(self.number(ordinal), &mut text);
                    each(ordinal, text.as_bytes());
                }
            }
            Order::Shuffled(ff1) => {
                self.shuffle(ff1, ordinals, |ordinal, halves| {
                    self.shape.write_halves(halves.high, halves.low, &mut text);
                    each(ordinal, text.as_bytes());
                });
            }
        }
    }

    /// Finds the ordinal of a key, in whatever spelling.
    pub fn ordinal(&self, key: &[u8]) -> Result<Located, DecodeError> {
        let written = self.shape.read(key)?;
        let number = match &self.order {
            Order::Sequential => written,
            Order::Shuffled(ff1) => ff1.decrypt(written),
        };
        let step = u128::from(self.step);
        Ok(match u64::try_from(number / step) {
            Ok(ordinal) if ordinal < ORDINALS_MAX => {
                if number % step == u128::from(self.offset) {
                    Located::Ordinal(ordinal)
                } else {
                    Located::Elsewhere { number }
                }
            }
            _ => Located::Beyond,
        })
    }

    fn new(shape: Shape, step: u64, offset: u64, order: Order) -> Result<Codec, CodecError> {
        if step == 0 {
            return Err(CodecError::StepZero);
        }
        if offset >= step {
            return Err(CodecError::OffsetNotBelowStep { step, offset });
        }
        let capacity = shape.capacity();
        let Some(reach) = capacity.checked_sub(u128::from(offset)).filter(|&reach| reach > 0)
        else {
            return Err(CodecError::OffsetBeyondCapacity { offset, capacity });
        };
        let ordinals = reach.div_ceil(u128::from(step)).min(u128::from(ORDINALS_MAX));
        let capacity = u64::try_from(ordinals).expect("at most 2^63");
        Ok(Codec { shape, order, step, offset, capacity })
    }

    /// Gives `each` the permuted number of every ordinal.
    fn shuffle(
        &self,
        ff1: &Ff1<Aes128Enc>,
        ordinals: Range<u64>,
        mut each: impl FnMut(u64, Halves),
    ) {
        let mut number = ff1.split(self.number(ordinals.start));
        // Only a step that is not taken can exceed the space.
        let step = ff1.split(u128::from(self.step).min(self.shape.capacity() - 1));
        let mut buffer = [Halves::default(); BATCH_MAX];
        let mut ordinals = ordinals;
        while !ordinals.is_empty() {
            let left = usize::try_from(ordinals.end - ordinals.start).unwrap_or(usize::MAX);
            let batch = &mut buffer[..left.min(ff1.batch())];
            for halves in &mut *batch {
                *halves = number;
                number = ff1.add(number, step);
            }
            ff1.encrypt_halves(batch);
            for (&halves, ordinal) in batch.iter().zip(&mut ordinals) {
                each(ordinal, halves);
            }
        }
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("shape", &self.shape.spec())
            .field("shuffled", &matches!(self.order, Order::Shuffled(_)))
            .field("step", &self.step)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

/// From a number to the number that is written.
enum Order {
    Sequential,
    Shuffled(Box<Ff1<Aes128Enc>>),
}

/// Ordinals fit a signed 64-bit column in every store.
const ORDINALS_MAX: u64 = 1 << 63;

/// The shortest length of which there are enough strings for FF1.
fn shortest_to_shuffle(alphabet_size: u8) -> u8 {
    let enough = |length: &u8| u128::from(alphabet_size).pow(u32::from(*length)) >= DOMAIN_MIN;
    (2..=20).find(enough).expect("2^20 is over a million")
}
