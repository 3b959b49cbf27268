//! Demand: how fast keys are wanted, and what that asks of the store.
//!
//! `leases` and `windows` size what they ask for by it, and the example `lease_traffic` shows what comes of it. Pure
//! arithmetic on the times it is given.

use std::time::Duration;

use tokio::time::Instant;

use crate::space::Tuning;

/// A mill never leases more than this part of what is left, so that the last keys of a space
/// spread over all instances.
pub const SHARE: u64 = 64;

/// The present rate of demand: a moving average. Slow enough that a burst of a few keys does
/// not lease millions, and still fast enough for a flood: leases are sized for a horizon
/// many times the half-life, so the first second of a flood already leases several of them.
#[derive(Debug)]
pub struct Pace {
    /// Keys a second.
    pub(crate) rate: f64,
    sampled_at: Instant,
    drawn: u64,
}

impl Pace {
    /// How long a change of demand takes to show by half.
    const HALF_LIFE: f64 = 60.0;
    /// The shortest time that a rate is measured over.
    const SAMPLE_MIN: Duration = Duration::from_millis(20);

    /// No demand yet.
    pub fn new(now: Instant) -> Pace {
        Pace { rate: 0.0, sampled_at: now, drawn: 0 }
    }

    /// Takes in how many keys were drawn so far.
    pub fn sample(&mut self, drawn: u64, now: Instant) {
        let elapsed = now - self.sampled_at;
        if elapsed < Self::SAMPLE_MIN {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let current = drawn.saturating_sub(self.drawn) as f64 / elapsed.as_secs_f64();
        let keep = 0.5_f64.powf(elapsed.as_secs_f64() / Self::HALF_LIFE);
        self.rate = self.rate * keep + current * (1.0 - keep);
        if self.rate < 1e-3 {
            self.rate = 0.0;
        }
        (self.sampled_at, self.drawn) = (now, drawn.max(self.drawn));
    }

    /// How many keys will be wanted in this time.
    pub(crate) fn demand(&self, time: Duration) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "never negative, and a float too large saturates"
        )]
        let demand = (self.rate * time.as_secs_f64()) as u64;
        demand
    }

    /// How many keys to hold: with fewer than these, the next lease is asked for.
    pub fn hold_min(&self, tuning: &Tuning) -> u64 {
        self.demand(tuning.horizon()).max(tuning.lease_size_min / 4).max(1)
    }

    /// How many keys to lease: what the horizon needs, within the bounds of the settings.
    pub fn lease_size(&self, tuning: &Tuning) -> u64 {
        self.demand(tuning.horizon()).clamp(tuning.lease_size_min, tuning.lease_size_max)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.rate > 0.0
    }

    pub(crate) fn has_started(&self) -> bool {
        self.drawn > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_demand_by_half_in_a_minute() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.sample(60_000, start + Duration::from_secs(60));
        assert_eq!(pace.demand(Duration::from_secs(900)), 450_000);
        pace.sample(60_000, start + Duration::from_secs(120));
        assert_eq!(pace.demand(Duration::from_secs(900)), 225_000);
    }

    #[test]
    fn a_flood_leases_ahead_of_itself_within_its_first_second_and_a_burst_does_not() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.sample(50_000, start + Duration::from_secs(1));
        assert!(pace.demand(Duration::from_secs(900)) > 5 * 50_000);
        let mut pace = Pace::new(start);
        pace.sample(30, start + Duration::from_millis(30));
        assert!(pace.demand(Duration::from_secs(900)) < 500);
    }

    #[test]
    fn a_lease_is_what_the_horizon_needs_within_the_bounds_of_the_settings() {
        let start = Instant::now();
        let tuning = Tuning { lease_size_max: 400_000, ..Tuning::default() };
        let mut pace = Pace::new(start);
        assert_eq!((pace.hold_min(&tuning), pace.lease_size(&tuning)), (250, 1_000));
        pace.sample(60_000, start + Duration::from_secs(60));
        assert_eq!((pace.hold_min(&tuning), pace.lease_size(&tuning)), (450_000, 400_000));
    }

    #[test]
    fn a_burst_too_short_to_measure_is_measured_with_the_next_sample() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.sample(500, start + Duration::from_millis(5));
        assert!(!pace.is_busy());
        pace.sample(1_000, start + Duration::from_millis(100));
        assert!(pace.is_busy() && pace.demand(Duration::from_secs(900)) > 1_000);
    }
}
