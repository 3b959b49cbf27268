//! The modulus of a half: reducing what AES gives to a number that the half's digits can write.
//!
//! `rounds` does this ten times for every key. What is reduced has 64 or 96 bits; what remains is
//! below the modulus, always.

use crate::reciprocal::Reciprocal;

/// The number of values of a half, prepared for reducing by it.
#[derive(Clone, Copy)]
pub(crate) struct Modulus {
    reciprocal: Reciprocal,
    /// Up to 2^32 two divisions of 64 bits reduce 96; beyond, Barrett's method does.
    barrett: Option<Barrett>,
}

#[derive(Clone, Copy)]
struct Barrett {
    /// floor(2^96 / m), below 2^64.
    factor: u64,
    /// The bits of m, less one: 32 to 60.
    bits: u32,
}

impl Modulus {
    pub(crate) fn new(value: u64) -> Modulus {
        let barrett = (value > 1 << 32).then(|| Barrett {
            factor: u64::try_from((1 << 96) / u128::from(value)).expect("2^96 / m is below 2^64"),
            bits: value.ilog2(),
        });
        Modulus { reciprocal: Reciprocal::new(value), barrett }
    }

    #[inline(always)]
    pub(crate) fn value(self) -> u64 {
        self.reciprocal.divisor()
    }

    /// Reduces what AES made of a block: its first 8 bytes, or 12 if `WIDE`.
    #[inline(always)]
    pub(crate) fn reduce<const WIDE: bool>(self, block: u128) -> u64 {
        if !WIDE {
            return self.reciprocal.remainder(low_word(block >> 64));
        }
        let sum = block >> 32;
        let Some(Barrett { factor, bits }) = self.barrett else {
            let high = self.reciprocal.remainder(low_word(sum >> 32));
            let low = low_word(sum) & u64::from(u32::MAX);
            return self.reciprocal.remainder(high << 32 | low);
        };
        // The quotient is at most 2 too low (Menezes et al., 14.42 with b = 2), so the rest is
        // below 3m < 2^62, and it is enough to compute it modulo 2^64.
        let estimate = u128::from(low_word(sum >> bits)) * u128::from(factor);
        let quotient = low_word(estimate >> (96 - bits));
        let mut rest = low_word(sum).wrapping_sub(quotient.wrapping_mul(self.value()));
        for _ in 0..2 {
            rest = rest.min(rest.wrapping_sub(self.value()));
        }
        rest
    }
}

/// The lower 64 bits.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "dropping the upper bits is the purpose")]
fn low_word(value: u128) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_exact_for_every_half_of_every_key() {
        let radixes = if cfg!(miri) { vec![3, 62] } else { (2..=64_u64).collect() };
        for radix in radixes {
            for digits in 1..=10 {
                check(radix.pow(digits));
            }
        }
    }

    #[track_caller]
    fn check(value: u64) {
        let modulus = Modulus::new(value);
        let m = u128::from(value);
        let most = (1 << 96) / m * m;
        let ones = (1 << 96) - 1;
        for sum in [0, 1, m - 1, m, m + 1, most - 1, most.min(ones), ones, ones / 3, ones / 7 * 5] {
            assert_eq!(u128::from(modulus.reduce::<true>(sum << 32)), sum % m, "{sum} % {m}");
            // The lower 8 bytes of a block are of no account.
            let (sum, block) = (sum >> 32, (sum >> 32 << 64) | (ones >> 32));
            assert_eq!(u128::from(modulus.reduce::<false>(block)), sum % m, "{sum} % {m}");
        }
    }
}
