//! How much a token may take, and how often callers without one may ask. Each instance counts for itself.
//!
//! `table` gives every token its [`TokenLimits`]; `http` asks [`AddressLimits`] about everybody else.
//!
//! # Invariants
//!
//! - What is refused is not counted. Of a take that fails, the quota gets its keys back, and the rate does not.
//! - Addresses take bounded memory: they share a fixed number of counters, so that one address may now and
//!   then be held back by another, and a million addresses take no more than a few.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, InsufficientCapacity, Quota, RateLimiter};
use jiff::Timestamp;

/// How many counters all addresses share.
const ADDRESS_SLOTS: usize = 1 << 16;
const DAY_SECONDS: i64 = 86_400;

/// Why something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// A take of more keys than a token may ever take at once.
    Burst {
        /// How many it may.
        max: u32,
    },
    /// The rate of a token, or of an address.
    Rate {
        /// How many a second.
        rate: u32,
        /// After how long the same would be allowed.
        wait: Duration,
    },
    /// The keys of a day.
    Quota {
        /// How many a day.
        quota: u64,
        /// How many of them are left.
        left: u64,
        /// When the next day begins.
        wait: Duration,
    },
}

/// The limits of a token.
#[derive(Debug)]
pub struct TokenLimits {
    rate: Option<(u32, DefaultDirectRateLimiter)>,
    quota: Option<(u64, Mutex<Day>)>,
}

/// What was taken on a day.
#[derive(Debug, Default)]
struct Day {
    /// Counted from 1970, in UTC.
    number: i64,
    taken: u64,
}

impl TokenLimits {
    /// Keys a second, with as many at once; and keys a day.
    pub fn new(rate: Option<u32>, quota: Option<u64>) -> TokenLimits {
        let rate = rate.and_then(NonZeroU32::new);
        TokenLimits {
            rate: rate.map(|rate| (rate.get(), RateLimiter::direct(Quota::per_second(rate)))),
            quota: quota.map(|quota| (quota, Mutex::default())),
        }
    }

    /// Whether they are these limits.
    pub fn are(&self, rate: Option<u32>, quota: Option<u64>) -> bool {
        let own = (self.rate.as_ref().map(|it| it.0), self.quota.as_ref().map(|it| it.0));
        own == (rate.filter(|rate| *rate > 0), quota)
    }

    /// Counts keys that are about to be taken, or refuses them.
    #[inline]
    pub fn spend(&self, keys: u32) -> Result<(), Exceeded> {
        let Some(keys) = NonZeroU32::new(keys) else { return Ok(()) };
        match &self.quota {
            Some((quota, day)) => {
                let now = Timestamp::now().as_second();
                spend_of_day(*quota, day, keys.get(), now, || self.spend_rate(keys))
            }
            None => self.spend_rate(keys),
        }
    }

    /// Whether keys are counted by the day.
    pub fn has_quota(&self) -> bool {
        self.quota.is_some()
    }

    /// Takes keys out of the count of the day, because they were not taken after all. Of a rate, nothing comes
    /// back: it counts attempts.
    pub fn give_back(&self, keys: u32) {
        let Some((_, day)) = &self.quota else { return };
        let mut day = day.lock().expect("nothing panics while it is held");
        // Where a day has ended since, a few keys more are left of the new one.
        day.taken = day.taken.saturating_sub(keys.into());
    }

    fn spend_rate(&self, keys: NonZeroU32) -> Result<(), Exceeded> {
        let Some((rate, limiter)) = &self.rate else { return Ok(()) };
        match limiter.check_n(keys) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(until)) => {
                let wait = until.wait_time_from(DefaultClock::default().now());
                Err(Exceeded::Rate { rate: *rate, wait })
            }
            Err(InsufficientCapacity(max)) => Err(Exceeded::Burst { max }),
        }
    }
}

/// Counts keys of a day, if they are within its quota and nothing else refuses them.
fn spend_of_day(
    quota: u64,
    day: &Mutex<Day>,
    keys: u32,
    now: i64,
    others: impl FnOnce() -> Result<(), Exceeded>,
) -> Result<(), Exceeded> {
    let today = now.div_euclid(DAY_SECONDS);
    let mut day = day.lock().expect("nothing panics while it is held");
    if day.number != today {
        *day = Day { number: today, taken: 0 };
    }
    let taken = day.taken + u64::from(keys);
    if taken > quota {
        let rest = DAY_SECONDS - now.rem_euclid(DAY_SECONDS);
        let wait = Duration::from_secs(rest.unsigned_abs());
        let left = quota.saturating_sub(day.taken);
        return Err(Exceeded::Quota { quota, left, wait });
    }
    others()?;
    day.taken = taken;
    Ok(())
}

/// Requests a second of each address that has no token.
#[derive(Debug)]
pub struct AddressLimits {
    rate: u32,
    slots: Vec<DefaultDirectRateLimiter>,
    /// Random, so that nobody can choose whom to share a counter with.
    hasher: RandomState,
}

impl AddressLimits {
    /// So many requests a second, and at once.
    pub fn new(rate: NonZeroU32) -> AddressLimits {
        let slots = (0..ADDRESS_SLOTS).map(|_| RateLimiter::direct(Quota::per_second(rate)));
        AddressLimits { rate: rate.get(), slots: slots.collect(), hasher: RandomState::new() }
    }

    /// How many a second.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Counts a request of an address, or refuses it.
    pub fn spend(&self, address: IpAddr) -> Result<(), Exceeded> {
        let slot = self.hasher.hash_one(address) % ADDRESS_SLOTS as u64;
        let slot = usize::try_from(slot).expect("it is below the number of slots");
        self.slots[slot].check().map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            Exceeded::Rate { rate: self.rate, wait }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_takes_as_much_as_it_may_and_no_more() {
        let limits = TokenLimits::new(Some(100), None);
        assert_eq!(limits.spend(101), Err(Exceeded::Burst { max: 100 }));
        assert_eq!(limits.spend(100), Ok(()));
        let Err(Exceeded::Rate { rate: 100, wait }) = limits.spend(50) else {
            panic!("more than its rate")
        };
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(500), "{wait:?}");
    }

    #[test]
    fn the_quota_of_a_day_begins_anew_with_the_next_one() {
        let day = Mutex::default();
        let noon = 20_000 * DAY_SECONDS + DAY_SECONDS / 2;
        assert_eq!(spend_of_day(10, &day, 10, noon, || Ok(())), Ok(()));
        let wait = Duration::from_secs(43_200);
        assert_eq!(
            spend_of_day(10, &day, 1, noon, || Ok(())),
            Err(Exceeded::Quota { quota: 10, left: 0, wait })
        );
        assert_eq!(spend_of_day(10, &day, 10, noon + DAY_SECONDS, || Ok(())), Ok(()));
    }

    #[test]
    fn what_comes_back_is_left_of_the_quota_but_not_of_the_rate() {
        let limits = TokenLimits::new(Some(10), Some(10));
        assert_eq!(limits.spend(10), Ok(()));
        limits.give_back(4);
        assert!(matches!(limits.spend(5), Err(Exceeded::Quota { left: 4, .. })));
        assert!(matches!(limits.spend(4), Err(Exceeded::Rate { .. })));
        limits.give_back(99);
        assert!(matches!(limits.spend(11), Err(Exceeded::Quota { left: 10, .. })));
    }

    #[test]
    fn nothing_is_refused_where_nothing_is_set() {
        let limits = TokenLimits::new(None, None);
        assert_eq!(limits.spend(u32::MAX), Ok(()));
        assert!(limits.are(None, None) && !limits.are(Some(1), None));
        assert!(TokenLimits::new(Some(5), Some(6)).are(Some(5), Some(6)));
    }

    #[test]
    fn addresses_are_counted_apart_in_bounded_memory() {
        let limits = AddressLimits::new(NonZeroU32::new(5).unwrap());
        let first: IpAddr = "192.0.2.1".parse().unwrap();
        assert!((0..5).all(|_| limits.spend(first).is_ok()));
        assert!(limits.spend(first).is_err());
        let others = (0..1_000_u32).map(|number| IpAddr::V4(number.into()));
        assert!(others.filter(|address| limits.spend(*address).is_ok()).count() > 900);
    }
}
