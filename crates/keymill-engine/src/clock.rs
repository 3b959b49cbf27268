//! The clocks of this host: the time of day, which can be set, and the monotonic one, which only runs.
//!
//! Whoever makes or keeps windows is given a [`Clock`] and asks nothing else for the time. A test has one
//! whose [`ClockHand`] it moves, so it waits for no window to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// How much two readings may be off, and some room, in microseconds.
const JUMP_US: i64 = 300;
/// How fast a clock may be steered without being set: half a thousandth.
const STEER: f64 = 0.000_5;
/// The longest time that reading both clocks may take.
const READING_MAX: Duration = Duration::from_micros(50);

/// Both clocks, of the host or of a test.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// What they differ from those of the host by; `None` where they are the host's.
    hand: Option<Arc<ClockHand>>,
}

/// Moves the clocks of a test. They run like those of the host, and ahead of them by what was added.
#[derive(Debug, Default)]
pub struct ClockHand {
    /// By how many microseconds the time of day was set.
    set_us: AtomicI64,
    /// How many microseconds have passed on both without anybody waiting for them.
    passed_us: AtomicU64,
    /// Wakes those who sleep until a moment that may have come.
    moved: Notify,
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
    /// Clocks that a test moves.
    pub fn moved_by(hand: &Arc<ClockHand>) -> Clock {
        Clock { hand: Some(hand.clone()) }
    }

    /// The time of day in microseconds since 1970.
    pub fn now_us(&self) -> i64 {
        let now = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |it| -it),
        };
        now.saturating_add(self.hand.as_ref().map_or(0, |hand| hand.day_off_us()))
    }

    /// The same in milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.now_us().div_euclid(1_000)
    }

    /// The clock that only runs. Every draw of a snowflake ID reads it, so the host's is read directly;
    /// tokio's, which its tests can pause, is not asked.
    #[inline]
    pub fn monotonic(&self) -> Instant {
        let now = Instant::from_std(std::time::Instant::now());
        match &self.hand {
            None => now,
            Some(hand) => now + hand.passed(),
        }
    }

    /// Resolves once the clock that only runs has come to a moment.
    pub(crate) async fn sleep_until(&self, at: Instant) {
        let Some(hand) = &self.hand else { return sleep_until(at).await };
        loop {
            // Listening starts before the look at the clock, so that no move slips between.
            let moved = hand.moved.notified();
            let left = at.saturating_duration_since(self.monotonic());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left) => {}
                () = moved => {}
            }
        }
    }
}

impl ClockHand {
    /// Sets the time of day, ahead or back, as somebody may set the host's.
    pub fn set_by(&self, us: i64) {
        self.set_us.fetch_add(us, Ordering::SeqCst);
    }

    /// Lets time pass, on both clocks, and wakes whoever sleeps until a moment in it.
    pub fn advance(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).expect("a test does not last for ages");
        self.passed_us.fetch_add(us, Ordering::SeqCst);
        self.moved.notify_waiters();
    }

    #[cold]
    fn passed(&self) -> Duration {
        Duration::from_micros(self.passed_us.load(Ordering::SeqCst))
    }

    fn day_off_us(&self) -> i64 {
        let passed = self.passed_us.load(Ordering::SeqCst).cast_signed();
        self.set_us.load(Ordering::SeqCst).saturating_add(passed)
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
            let at = self.clock.monotonic();
            let day_us = self.clock.now_us();
            (self.clock.monotonic() - at <= READING_MAX).then_some(Reading { at, day_us })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_noticed_and_one_that_runs_is_not() {
        let hand = Arc::<ClockHand>::default();
        let mut watch = ClockWatch::new(Clock::moved_by(&hand));
        assert_eq!(watch.jumped_us(), None);
        assert_eq!(watch.jumped_us(), None);
        for by in [-1_000, 1_000_000, -3_600_000_000, 3_600_000_000] {
            hand.set_by(by);
            let jump = watch.jumped_us().expect("it was set");
            assert!((jump - by).abs() < 500, "{jump} instead of {by}");
            assert_eq!(watch.jumped_us(), None);
            hand.advance(Duration::from_secs(3_600));
            assert_eq!(watch.jumped_us(), None);
        }
    }

    #[tokio::test]
    async fn whoever_sleeps_until_a_moment_is_woken_when_the_clock_is_moved_there() {
        let hand = Arc::<ClockHand>::default();
        let clock = Clock::moved_by(&hand);
        let hour = Duration::from_secs(3_600);
        let (began, day) = (clock.monotonic(), clock.now_us());
        let mut sleeper = std::pin::pin!(clock.sleep_until(began + hour));
        for _ in 0..2 {
            let early = tokio::time::timeout(Duration::from_millis(1), &mut sleeper).await;
            assert!(early.is_err(), "the hour is not over");
            hand.advance(hour / 2);
        }
        tokio::time::timeout(Duration::from_secs(60), sleeper).await.expect("the hour is over");
        // A clock that was not moved by hand still runs, and sleeps no longer than it has to.
        clock.sleep_until(clock.monotonic() + Duration::from_millis(1)).await;
        assert!(clock.monotonic() - began >= hour + Duration::from_millis(1));
        assert!(clock.now_us() - day >= 3_600_001_000);
    }
}
