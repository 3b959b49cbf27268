//! Writing a number in an alphabet, two symbols at a time.
//!
//! `shape` calls this for each half of a key. It always writes exactly as many symbols as it is
//! given room for; whether the number fits is the caller's business.

use crate::alphabet::Alphabet;
use crate::reciprocal::Reciprocal;

/// The symbols of an alphabet, singly and in pairs.
#[derive(Clone, Debug)]
pub(crate) struct Digits {
    /// Entry `x` is `x` written with two symbols.
    pairs: Box<[[u8; 2]]>,
    by_one: Reciprocal,
    by_two: Reciprocal,
}

impl Digits {
    pub(crate) fn new(alphabet: &Alphabet) -> Digits {
        let symbols = alphabet.symbols().as_bytes();
        let size = u64::from(alphabet.size());
        let pairs = symbols.iter().flat_map(|&high| symbols.iter().map(move |&low| [high, low]));
        Digits {
            pairs: pairs.collect(),
            by_one: Reciprocal::new(size),
            by_two: Reciprocal::new(size * size),
        }
    }

    /// The symbol of one digit.
    #[inline]
    pub(crate) fn symbol(&self, digit: u8) -> u8 {
        self.pairs[usize::from(digit)][1]
    }

    /// Writes the last `out.len()` digits of `value`, with leading zeros.
    #[inline(always)]
    pub(crate) fn write(&self, mut value: u64, out: &mut [u8]) {
        let mut pairs = out.rchunks_exact_mut(2);
        for pair in &mut pairs {
            let (quotient, last_two) = self.by_two.divide(value);
            pair.copy_from_slice(&self.pair(last_two));
            value = quotient;
        }
        if let [first] = pairs.into_remainder() {
            *first = self.pair(self.by_two.remainder(value))[1];
        }
    }

    /// How many digits `value` has; 0 has one.
    pub(crate) fn count(&self, mut value: u64) -> usize {
        let mut count = 1;
        loop {
            value = self.by_one.divide(value).0;
            if value == 0 {
                return count;
            }
            count += 1;
        }
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a remainder by 64 * 64 is small")]
    fn pair(&self, value: u64) -> [u8; 2] {
        self.pairs[value as usize]
    }
}
