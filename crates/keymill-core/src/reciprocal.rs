//! Division by a number known in advance: a multiplication instead of a divide instruction.
//!
//! `modulus` reduces by powers of the radix with it, `digits` takes symbols off a number. The divisor
//! is at most 2^60, the largest half of a key; sums of a few remainders therefore fit a `u64`.

/// A divisor, and 2^64 divided by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reciprocal {
    divisor: u64,
    reciprocal: u64,
}

impl Reciprocal {
    pub(crate) fn new(divisor: u64) -> Reciprocal {
        assert!((2..=1 << 60).contains(&divisor), "no reciprocal of {divisor}");
        // floor((2^64 - 1) / d) is floor(2^64 / d), except for powers of two, where it is one less.
        let reciprocal = u64::MAX / divisor + u64::from(divisor.is_power_of_two());
        Reciprocal { divisor, reciprocal }
    }

    pub(crate) fn divisor(self) -> u64 {
        self.divisor
    }

    /// The quotient and the remainder of `value`.
    #[inline(always)]
    pub(crate) fn divide(self, value: u64) -> (u64, u64) {
        // The estimate is at most 1 too low: floor(2^64/d) lacks less than 1 of 2^64/d, which
        // costs the product less than value/2^64 < 1 before it is rounded down.
        let quotient = high(value, self.reciprocal);
        let remainder = value - quotient * self.divisor;
        let short = remainder >= self.divisor;
        (quotient + u64::from(short), if short { remainder - self.divisor } else { remainder })
    }

    /// The remainder of `value`.
    #[inline(always)]
    pub(crate) fn remainder(self, value: u64) -> u64 {
        self.divide(value).1
    }
}

/// The upper half of the product.
#[inline(always)]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_exact_at_the_edges() {
        for divisor in [2, 3, 10, 62, 63, 64, 62 * 62, 62_u64.pow(4), (1 << 32) - 1, 1 << 32] {
            check(divisor);
        }
        for divisor in [(1 << 32) + 1, 63_u64.pow(10), (1 << 60) - 1, 1 << 60] {
            check(divisor);
        }
    }

    #[track_caller]
    fn check(divisor: u64) {
        let reciprocal = Reciprocal::new(divisor);
        let most = u64::MAX / divisor * divisor;
        for value in [0, 1, divisor - 1, divisor, divisor + 1, most - 1, most, u64::MAX] {
            let expected = (value / divisor, value % divisor);
            assert_eq!(reciprocal.divide(value), expected, "{value} / {divisor}");
        }
    }
}
