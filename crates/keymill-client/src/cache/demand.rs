//! Demand: how fast keys are taken, and how many to fetch.
//!
//! `refill` asks before every fetch. Pure arithmetic on the numbers and times it is given.

use std::time::Duration;

use tokio::time::Instant;

use super::builder::Settings;

/// The present rate: a moving average.
#[derive(Debug)]
pub(super) struct Demand {
    /// Keys a second, as long as `weight` is 1.
    rate: f64,
    /// How much of the average is measured. Less than 1 at first, when the rest is a zero that was never seen.
    weight: f64,
    sampled_at: Instant,
    taken: u64,
    /// How much to hold at least, because less was gone too soon.
    at_least: u64,
}

impl Demand {
    /// How long a change of the rate takes to show by half.
    const HALF_LIFE: f64 = 5.0;
    /// What a second of measuring weighs. What was measured for less counts as if it took a second, because a burst at the
    /// start says little of what comes.
    const WEIGHT_MIN: f64 = 0.129;
    /// The shortest time that a rate is measured over.
    const SAMPLE_MIN: Duration = Duration::from_millis(20);

    pub(super) fn new(now: Instant) -> Demand {
        Demand { rate: 0.0, weight: 0.0, sampled_at: now, taken: 0, at_least: 0 }
    }

    /// Learns how many keys were taken in all.
    pub(super) fn sample(&mut self, taken: u64, now: Instant) {
        let elapsed = now - self.sampled_at;
        if elapsed < Self::SAMPLE_MIN {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let current = taken.saturating_sub(self.taken) as f64 / elapsed.as_secs_f64();
        let keep = 0.5_f64.powf(elapsed.as_secs_f64() / Self::HALF_LIFE);
        self.rate = self.rate * keep + current * (1.0 - keep);
        self.weight = self.weight * keep + (1.0 - keep);
        (self.sampled_at, self.taken) = (now, taken);
    }

    /// Learns that all keys were gone before the next ones came. The rate cannot show how many would have been taken, so
    /// twice as many are held from now on.
    pub(super) fn ran_dry(&mut self, last_fetch: u64) {
        self.at_least = self.at_least.max(last_fetch).saturating_mul(2);
    }

    /// Learns that keys lasted until the next ones came.
    pub(super) fn sufficed(&mut self) {
        self.at_least /= 2;
    }

    /// How many keys to hold.
    pub(super) fn target(&self, settings: &Settings) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "never negative, and a float too large saturates"
        )]
        let wanted =
            (self.rate / self.weight.max(Self::WEIGHT_MIN) * settings.horizon.as_secs_f64()) as u64;
        let wanted = wanted.max(self.at_least);
        wanted.clamp(settings.keys_min.into(), settings.keys_max.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_target_is_half_a_minute_of_demand_within_its_bounds() {
        let (settings, start) = (Settings::default(), Instant::now());
        let mut demand = Demand::new(start);
        assert_eq!(demand.target(&settings), 32, "at rest");
        for second in 1..=60 {
            demand.sample(second * 1_000, start + seconds(second));
        }
        let target = demand.target(&settings);
        assert!((29_900..=30_000).contains(&target), "{target}");
        for second in 61..=120 {
            demand.sample(60_000 + (second - 60) * 50_000, start + seconds(second));
        }
        assert_eq!(demand.target(&settings), 100_000, "no more, however fast");
        demand.sample(3_060_000, start + seconds(720));
        assert_eq!(demand.target(&settings), 32, "at rest again");
    }

    #[test]
    fn the_first_second_of_a_flood_fetches_ahead_of_it() {
        let (settings, start) = (Settings::default(), Instant::now());
        let mut demand = Demand::new(start);
        demand.sample(2_000, start + seconds(1));
        let target = demand.target(&settings);
        assert!((59_000..=61_000).contains(&target), "half a minute of them, and not {target}");
        let mut demand = Demand::new(start);
        demand.sample(100, start + Duration::from_millis(20));
        let target = demand.target(&settings);
        assert!((2_900..=3_300).contains(&target), "as if it took a second, and not {target}");
    }

    #[test]
    fn a_burst_too_short_to_measure_doubles_the_fetch_until_it_suffices() {
        let (settings, start) = (Settings::default(), Instant::now());
        let mut demand = Demand::new(start);
        demand.sample(32, start + Duration::from_millis(1));
        let mut fetch = 32;
        for expected in [64, 128, 256] {
            demand.ran_dry(fetch);
            fetch = demand.target(&settings);
            assert_eq!(fetch, expected);
        }
        for expected in [128, 64, 32, 32] {
            demand.sufficed();
            assert_eq!(demand.target(&settings), expected);
        }
    }
}
