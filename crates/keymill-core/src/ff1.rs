//! FF1, format-preserving encryption (NIST SP 800-38G): a keyed permutation of all digit strings
//! of one radix and length, given and taken as numbers.
//!
//! `codec` puts every ordinal of a shuffled space through it. It never allocates, and shows no
//! key material in `Debug`.
//!
//! Three things make it fast, none of which changes a result. The first block of every round's
//! CBC-MAC is the same, so it is encrypted once, and a round costs one AES block. The halves of a
//! number fit `u64` and are reduced with precomputed reciprocals. And many numbers go through
//! each round together, as many as the AES backend of the machine takes at once.
//!
//! # Invariants
//!
//! - `encrypt` and `decrypt` are inverse bijections of 0..radix^length.
//! - radix^length is at least 1,000,000 (NIST's bound) and at most 2^120, so that a half is at
//!   most 2^60 and takes at most 8 bytes.
//! - Round keys and the encrypted first block are wiped when an `Ff1` is dropped.

use std::fmt;

use aes::cipher::{BlockCipherEncrypt, KeyInit, consts::U16};
use thiserror::Error;

use crate::rounds::{BATCH_MAX, Halves, Pass, Rounds, TWEAK_MAX};

/// The smallest number of strings that FF1 may permute.
pub const DOMAIN_MIN: u128 = 1_000_000;

/// FF1 over the strings of one radix and length, with the AES of one key size.
pub struct Ff1<C> {
    radix: u8,
    length: u8,
    cipher: C,
    rounds: Rounds,
}

/// Why there is no FF1 for some parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Ff1Error {
    /// The radix is not that of an alphabet.
    #[error("FF1 needs a radix of 2 to 64, not {radix}")]
    Radix {
        /// What was given.
        radix: u8,
    },
    /// The strings are too short or too long.
    #[error("FF1 needs 2 to 20 digits, not {length}")]
    Length {
        /// What was given.
        length: u8,
    },
    /// There are so few strings that the permutation could be found out.
    #[error("FF1 needs at least {DOMAIN_MIN} strings; {radix}^{length} is less")]
    Domain {
        /// What was given.
        radix: u8,
        /// What was given.
        length: u8,
    },
    /// The key is not one of this cipher.
    #[error("the cipher does not accept a key of {bytes} bytes")]
    Key {
        /// The length of the key.
        bytes: usize,
    },
    /// The tweak is longer than it may be.
    #[error("a tweak has at most {TWEAK_MAX} bytes, not {bytes}")]
    Tweak {
        /// The length of the tweak.
        bytes: usize,
    },
}

impl<C: KeyInit + BlockCipherEncrypt<BlockSize = U16>> Ff1<C> {
    /// FF1 with an empty tweak, which is what keymill uses: each space has a key of its own.
    pub fn new(key: &[u8], radix: u8, length: u8) -> Result<Ff1<C>, Ff1Error> {
        Ff1::with_tweak(key, radix, length, &[])
    }

    /// FF1 with a tweak of up to 16 bytes.
    pub fn with_tweak(key: &[u8], radix: u8, length: u8, tweak: &[u8]) -> Result<Ff1<C>, Ff1Error> {
        if !(2..=64).contains(&radix) {
            return Err(Ff1Error::Radix { radix });
        }
        if !(2..=20).contains(&length) {
            return Err(Ff1Error::Length { length });
        }
        if u128::from(radix).pow(u32::from(length)) < DOMAIN_MIN {
            return Err(Ff1Error::Domain { radix, length });
        }
        if tweak.len() > TWEAK_MAX {
            return Err(Ff1Error::Tweak { bytes: tweak.len() });
        }
        let cipher = C::new_from_slice(key).map_err(|_| Ff1Error::Key { bytes: key.len() })?;
        let rounds = Rounds::new(&cipher, radix, length, tweak);
        Ok(Ff1 { radix, length, cipher, rounds })
    }

    /// The image of a number below radix^length.
    pub fn encrypt(&self, number: u128) -> u128 {
        let mut halves = [self.split(number)];
        self.encrypt_halves(&mut halves);
        self.join(halves[0])
    }

    /// The number whose image is given.
    pub fn decrypt(&self, number: u128) -> u128 {
        let mut halves = [self.split(number)];
        self.decrypt_halves(&mut halves);
        self.join(halves[0])
    }

    /// Replaces every number by its image; faster by far than one at a time.
    pub fn encrypt_many(&self, numbers: &mut [u128]) {
        self.map_many(numbers, |halves| self.encrypt_halves(halves));
    }

    /// Replaces every image by its number.
    pub fn decrypt_many(&self, numbers: &mut [u128]) {
        self.map_many(numbers, |halves| self.decrypt_halves(halves));
    }

    /// Parts a number below radix^length.
    pub(crate) fn split(&self, number: u128) -> Halves {
        let low = u128::from(self.rounds.low.value());
        let word = |half: u128| u64::try_from(half).unwrap_or(u64::MAX);
        let halves = Halves { high: word(number / low), low: word(number % low) };
        assert!(halves.high < self.rounds.high.value(), "{number} is not below radix^length");
        halves
    }

    /// Puts numbers through the rounds together.
    pub(crate) fn encrypt_halves(&self, halves: &mut [Halves]) {
        match self.rounds.is_wide() {
            false => self.run::<true, false>(halves),
            true => self.run::<true, true>(halves),
        }
    }

    fn decrypt_halves(&self, halves: &mut [Halves]) {
        match self.rounds.is_wide() {
            false => self.run::<false, false>(halves),
            true => self.run::<false, true>(halves),
        }
    }

    fn run<const FORWARD: bool, const WIDE: bool>(&self, halves: &mut [Halves]) {
        let rounds = &self.rounds;
        self.cipher.encrypt_with_backend(Pass::<FORWARD, WIDE> { rounds, halves });
    }

    fn join(&self, halves: Halves) -> u128 {
        u128::from(halves.high) * u128::from(self.rounds.low.value()) + u128::from(halves.low)
    }

    fn map_many(&self, numbers: &mut [u128], map: impl Fn(&mut [Halves])) {
        let mut buffer = [Halves::default(); BATCH_MAX];
        for numbers in numbers.chunks_mut(self.rounds.batch) {
            let halves = &mut buffer[..numbers.len()];
            for (halves, &mut number) in halves.iter_mut().zip(&mut *numbers) {
                *halves = self.split(number);
            }
            map(halves);
            for (number, &halves) in numbers.iter_mut().zip(&*halves) {
                *number = self.join(halves);
            }
        }
    }
}

impl<C> Ff1<C> {
    /// How many halves it is best to give `encrypt_halves` at once, at most [`BATCH_MAX`].
    pub(crate) fn batch(&self) -> usize {
        self.rounds.batch
    }

    /// Adds `step` to a number; a sum beyond radix^length is not a number to be encrypted.
    #[inline]
    pub(crate) fn add(&self, number: Halves, step: Halves) -> Halves {
        let modulus = self.rounds.low.value();
        let low = number.low + step.low;
        let carry = low >= modulus;
        Halves {
            high: number.high + step.high + u64::from(carry),
            low: low - if carry { modulus } else { 0 },
        }
    }
}

impl<C> fmt::Debug for Ff1<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ff1")
            .field("radix", &self.radix)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
