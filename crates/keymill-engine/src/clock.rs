//! The clocks of this host: the time of day, which can be set, and the one that only runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How much two readings may be off, and some room, in microseconds.
const JUMP_US: i64 = 300;
/// How fast a clock may be steered without being set: half a thousandth.
const STEER: f64 = 0.000_5;
/// The longest time that reading both clocks may take.
const READING_MAX: Duration = Duration::from_micros(50);

/// The time of day.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// By how many microseconds it is off.
    shift_us: Option<Arc<AtomicI64>>,
}

/// Notices when the time of day is set.
#[derive(Debug)]
pub(crate) struct ClockWatch {
    clock: Clock,
    last: Option<Reading>,
}

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    day_us: i64,
}

impl Clock {
    /// A clock that is off by so many microseconds, which may change at any time: as if somebody
    /// set the host's.
    pub fn shifted(shift_us: Arc<AtomicI64>) -> Clock {
        Clock { shift_us: Some(shift_us) }
    }

    /// The time of day in microseconds since 1970.
    pub fn now_us(&self) -> i64 {
        let now = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |it| -it),
        };
        let shift = self.shift_us.as_ref().map_or(0, |shift| shift.load(Ordering::Relaxed));
        now.saturating_add(shift)
    }

    /// The same in milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.now_us().div_euclid(1_000)
    }
}

impl ClockWatch {
    pub(crate) fn new(clock: Clock) -> ClockWatch {
        ClockWatch { clock, last: None }
    }

    /// By how many microseconds the clock was set since this was last asked.
    pub(crate) fn jumped_us(&mut self) -> Option<i64> {
        let now = self.read()?;
        let before = self.last.replace(now)?;
        let passed = now.at - before.at;
        let passed_us = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        let jump = (now.day_us - before.day_us).saturating_sub(passed_us);
        let steered = passed.mul_f64(STEER);
        let allowed = JUMP_US + i64::try_from(steered.as_micros()).unwrap_or(i64::MAX);
        (jump.saturating_abs() >= allowed).then_some(jump)
    }

    /// Both clocks at once; `None` where the process was kept from it.
    fn read(&self) -> Option<Reading> {
        (0..10).find_map(|_| {
            let at = Instant::now();
            let day_us = self.clock.now_us();
            (at.elapsed() <= READING_MAX).then_some(Reading { at, day_us })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_noticed_and_one_that_runs_is_not() {
        let shift = Arc::new(AtomicI64::new(0));
        let mut watch = ClockWatch::new(Clock::shifted(shift.clone()));
        assert_eq!(watch.jumped_us(), None);
        assert_eq!(watch.jumped_us(), None);
        for by in [-1_000, 1_000_000, -3_600_000_000, 3_600_000_000] {
            shift.fetch_add(by, Ordering::Relaxed);
            let jump = watch.jumped_us().expect("it was set");
            assert!((jump - by).abs() < 500, "{jump} instead of {by}");
            assert_eq!(watch.jumped_us(), None);
        }
    }
}
