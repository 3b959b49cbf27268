//! Writing a number in an alphabet, two symbols at a time.
//!
//! `shape` calls this for each half of a key. It always writes exactly as many symbols as it is
//! given room for; whether the number fits is the caller's business.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use crate::alphabet::Alphabet;
use crate::reciprocal::Reciprocal;

/// Entry `x` is `x` written with two symbols.
type Pairs = [[u8; 2]];

/// The tables that are in use, by their symbols. One of 62 symbols takes 8 KB, and ten thousand
/// keyspaces of one alphabet share it.
static TABLES: LazyLock<Mutex<Tables>> = LazyLock::new(Mutex::default);

type Tables = HashMap<String, Weak<Digits>>;

/// The symbols of an alphabet, singly and in pairs.
#[derive(Debug)]
pub(crate) struct Digits {
    pub(crate) alphabet: Alphabet,
    pairs: Box<Pairs>,
    by_one: Reciprocal,
    by_two: Reciprocal,
}

impl Digits {
    /// The digits of an alphabet, shared with everybody who has it.
    pub(crate) fn of(alphabet: Alphabet) -> Arc<Digits> {
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tables.get(alphabet.symbols()).and_then(Weak::upgrade) {
            return known;
        }
        tables.retain(|_, table| table.strong_count() > 0);
        let digits = Arc::new(Digits::new(alphabet));
        tables.insert(digits.alphabet.symbols().to_owned(), Arc::downgrade(&digits));
        digits
    }

    fn new(alphabet: Alphabet) -> Digits {
        let size = u64::from(alphabet.size());
        let symbols = alphabet.symbols().as_bytes();
        let pairs = symbols.iter().flat_map(|&high| symbols.iter().map(move |&low| [high, low]));
        Digits {
            pairs: pairs.collect(),
            by_one: Reciprocal::new(size),
            by_two: Reciprocal::new(size * size),
            alphabet,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alphabet_has_one_table_for_as_long_as_it_is_used() {
        let digits = |symbols: &str| Digits::of(Alphabet::parse(symbols).unwrap());
        let (one, two, other) = (digits("0123abcd"), digits("0123abcd"), digits("abcd0123"));
        assert!(Arc::ptr_eq(&one, &two));
        assert!(!Arc::ptr_eq(&one, &other));
        assert_eq!((one.symbol(4), other.symbol(4)), (b'a', b'0'));
        drop((one, two));
        assert_eq!(digits("0123abcd").symbol(7), b'd');
    }
}
