//! Times by chance. Chance itself is that of `fastrand`, which repeats itself for a given seed.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

/// A time in the range, to the microsecond; its beginning where it is empty.
pub fn time(dice: &mut Rng, range: &Range<Duration>) -> Duration {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let (start, end) = (micros(range.start), micros(range.end));
    Duration::from_micros(dice.u64(start..end.max(start + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_their_range_and_those_of_a_seed_repeat_themselves() {
        let (mut one, mut two) = (Rng::with_seed(7), Rng::with_seed(7));
        let millis = Duration::from_millis(3)..Duration::from_millis(9);
        let never = Duration::from_secs(1)..Duration::from_secs(1);
        for _ in 0..100 {
            let drawn = time(&mut one, &millis);
            assert!(millis.contains(&drawn), "{drawn:?}");
            assert_eq!(drawn, time(&mut two, &millis));
        }
        assert_eq!(time(&mut one, &never), never.start);
    }
}
