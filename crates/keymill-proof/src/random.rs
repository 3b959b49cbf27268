//! Dice: chance that repeats itself for a given seed. It is that of `fastrand`.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

/// A stream of random numbers, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Dice(Rng);

impl Dice {
    /// Dice that fall as the seed says.
    pub fn new(seed: u64) -> Dice {
        Dice(Rng::with_seed(seed))
    }

    /// A number in the range, which must not be empty.
    pub fn number(&mut self, range: Range<u64>) -> u64 {
        self.0.u64(range)
    }

    /// A time in the range.
    pub fn time(&mut self, range: &Range<Duration>) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (start, end) = (micros(range.start), micros(range.end));
        Duration::from_micros(self.number(start..end.max(start + 1)))
    }

    /// True once in so many throws.
    pub fn one_in(&mut self, throws: u64) -> bool {
        self.number(0..throws) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_range_and_those_of_a_seed_repeat_themselves() {
        let (mut one, mut two) = (Dice::new(7), Dice::new(7));
        let millis = Duration::from_millis(3)..Duration::from_millis(9);
        for _ in 0..100 {
            let number = one.number(3..9);
            assert!((3..9).contains(&number) && number == two.number(3..9));
            let time = one.time(&millis);
            assert!(millis.contains(&time) && time == two.time(&millis));
        }
    }
}
