//! Dice: chance that repeats itself for a given seed.

use std::ops::Range;
use std::time::Duration;

/// A stream of random numbers, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Dice that fall as the seed says.
    pub fn new(seed: u64) -> Dice {
        Dice { state: seed }
    }

    /// A number in the range, which must not be empty.
    pub fn number(&mut self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "no number is in {range:?}");
        range.start + self.roll() % (range.end - range.start)
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

    fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        splitmix64(self.state)
    }
}

/// The mix of Steele, Lea and Flood's SplitMix64: a bijection of 64 bits.
pub fn splitmix64(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut dice = Dice::new(1_234_567);
        let rolled = [dice.roll(), dice.roll(), dice.roll()];
        assert_eq!(
            rolled,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn a_seed_repeats_itself() {
        let (mut one, mut two) = (Dice::new(7), Dice::new(7));
        assert!((0..100).all(|_| one.number(3..9) == two.number(3..9)));
    }
}
