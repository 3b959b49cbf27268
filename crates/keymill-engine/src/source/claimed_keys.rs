//! Claimed keys: those of a pool that this process alone may hand out.
//!
//! `supply` adds what it has claimed; the mill of the space then hands out their numbers, which this
//! file turns into keys. Nothing here does I/O.
//!
//! # Invariants
//!
//! - A number stands for one key, for as long as the process lives: numbers only rise. Since the mill
//!   draws a number once, a key is handed out once.
//! - Keys that nobody looked up before they were forgotten are lost, not handed out again.
//! - Where keys expire, their time runs from the claim. A key that has used up half of it is not handed out any more
//!   ([`ClaimedKeys::may_go`]): once its number is spent, it waits here to be given back, which happens once.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;

use crate::clock::Clock;
use crate::space::Claimed;

/// How many spent claims are kept for those who drew a number and were paused before they looked.
const SPENT_KEPT: usize = 4;

/// The claimed keys of one space, claim by claim.
#[derive(Debug, Default)]
pub(crate) struct ClaimedKeys {
    /// By number.
    batches: ArcSwap<Vec<Arc<Batch>>>,
    next: AtomicU64,
    /// Keys that became too old to be handed out. Their numbers are spent.
    too_old: Mutex<Vec<Claimed>>,
    clock: Clock,
}

/// How the keys of a claim are on record, whatever the settings say by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimedAs {
    /// Reserved: they have to be noted before they are handed out.
    Reserved,
    /// Used; with how long they live, where they do not live for ever.
    Used(Option<Lifetime>),
}

/// How long a key lives that was claimed at some moment. The one that ends first is the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lifetime {
    /// Until when it may be handed out.
    fresh_until: Timestamp,
    /// When it expires.
    pub(crate) expires_at: Timestamp,
}

impl Lifetime {
    /// That of a key that is claimed now, and lives for so long.
    pub(crate) fn new(now_ms: i64, ttl: Duration) -> Lifetime {
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let after = |ms: i64| {
            let at = Timestamp::from_millisecond(now_ms.saturating_add(ms));
            at.unwrap_or(Timestamp::MAX)
        };
        Lifetime { fresh_until: after(ttl / 2), expires_at: after(ttl) }
    }
}

/// What one claim brought.
#[derive(Debug)]
struct Batch {
    start: u64,
    keys: Vec<Claimed>,
    claimed_as: ClaimedAs,
    /// The store has given them to others: nothing of it may be handed out any more.
    lost: AtomicBool,
}

impl ClaimedKeys {
    /// None yet, by a clock that tells when they expire.
    pub(crate) fn new(clock: Clock) -> ClaimedKeys {
        ClaimedKeys { clock, ..ClaimedKeys::default() }
    }

    /// Takes claimed keys in and numbers them.
    pub(crate) fn add(&self, keys: Vec<Claimed>, claimed_as: ClaimedAs) -> Range<u64> {
        let count = keys.len() as u64;
        let start = self.next.fetch_add(count, Ordering::Relaxed);
        let batch = Arc::new(Batch { start, keys, claimed_as, lost: AtomicBool::new(false) });
        self.batches.rcu(|known| {
            let mut all = Vec::clone(known);
            all.push(batch.clone());
            all
        });
        start..start + count
    }

    /// Gives the keys of numbers that were drawn to `each`: with their number, and how they are on record.
    pub(crate) fn keys(&self, numbers: Range<u64>, mut each: impl FnMut(u64, &Claimed, ClaimedAs)) {
        for batch in self.batches.load().iter() {
            if !batch.lost.load(Ordering::Relaxed) {
                let first = numbers.start.max(batch.start);
                let part = (first..).zip(batch.part(&numbers));
                part.for_each(|(number, claimed)| each(number, claimed, batch.claimed_as));
            }
        }
    }

    /// Whether keys of this lifetime may still be handed out.
    pub(crate) fn may_go(&self, lifetime: Option<Lifetime>) -> bool {
        let is_fresh = |it: Lifetime| self.clock.now_ms() < it.fresh_until.as_millisecond();
        lifetime.is_none_or(is_fresh)
    }

    /// Keeps keys that may not, to be given back. Their numbers must be spent.
    pub(crate) fn add_too_old(&self, mut keys: Vec<Claimed>) {
        if !keys.is_empty() {
            self.too_old.lock().expect("nothing panics while it is held").append(&mut keys);
        }
    }

    /// These keys, for the one who gives them back.
    pub(crate) fn take_too_old(&self) -> Vec<Claimed> {
        std::mem::take(&mut self.too_old.lock().expect("nothing panics while it is held"))
    }

    /// Drops the rest of the claims that these numbers are of: others have them now.
    pub(crate) fn lose(&self, numbers: &Range<u64>) {
        for batch in self.batches.load().iter() {
            if !batch.part(numbers).is_empty() {
                batch.lost.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Forgets claims that were drawn to their end long ago; `lowest` is the first that was not.
    pub(crate) fn forget_below(&self, lowest: u64) {
        let spent = |batch: &Arc<Batch>| batch.start + batch.keys.len() as u64 <= lowest;
        let all = self.batches.load();
        let spent = all.iter().take_while(|batch| spent(batch)).count();
        let forgotten = spent.saturating_sub(SPENT_KEPT);
        if forgotten > 0 {
            self.batches.rcu(|known| known[forgotten..].to_vec());
        }
    }
}

impl Batch {
    /// The keys among these numbers.
    fn part(&self, numbers: &Range<u64>) -> &[Claimed] {
        let index = |number: u64| {
            let index = usize::try_from(number.saturating_sub(self.start)).unwrap_or(usize::MAX);
            index.min(self.keys.len())
        };
        &self.keys[index(numbers.start)..index(numbers.end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockHand;

    const USED: ClaimedAs = ClaimedAs::Used(None);

    #[test]
    fn a_key_is_handed_out_for_half_of_its_life_and_can_be_given_back_after_that() {
        let hand = Arc::<ClockHand>::default();
        let clock = Clock::moved_by(&hand);
        let claims = ClaimedKeys::new(clock.clone());
        let now_ms = clock.now_ms();
        let lifetime = Lifetime::new(now_ms, Duration::from_secs(60));
        assert_eq!(lifetime.expires_at.as_millisecond(), now_ms + 60_000);
        claims.add(claimed(["a"]), ClaimedAs::Used(Some(lifetime)));
        assert!(claims.may_go(Some(lifetime)) && claims.may_go(None));
        hand.advance(Duration::from_secs(30));
        assert!(!claims.may_go(Some(lifetime)) && claims.may_go(None));
        check(&claims, 0..1, &["a"]);
        claims.add_too_old(claimed(["a"]));
        assert_eq!(claims.take_too_old().len(), 1);
        assert!(claims.take_too_old().is_empty(), "it is given back once");
        let endless = Lifetime::new(i64::MAX, Duration::from_secs(1));
        assert_eq!(endless.expires_at, Timestamp::MAX);
    }

    #[test]
    fn numbers_are_turned_into_their_keys_across_claims() {
        let claims = ClaimedKeys::default();
        assert_eq!(claims.add(claimed(["a", "b"]), USED), 0..2);
        assert_eq!(claims.add(claimed(["c", "d", "e"]), ClaimedAs::Reserved), 2..5);
        check(&claims, 0..5, &["a", "b", "c", "d", "e"]);
        check(&claims, 1..4, &["b", "c", "d"]);
        check(&claims, 4..5, &["e"]);
        check(&claims, 5..9, &[]);
    }

    #[test]
    fn what_was_lost_or_forgotten_is_not_handed_out() {
        let claims = ClaimedKeys::default();
        for key in ["a", "b", "c", "d", "e", "f"] {
            claims.add(claimed([key]), USED);
        }
        claims.lose(&(2..3));
        check(&claims, 0..6, &["a", "b", "d", "e", "f"]);
        claims.forget_below(6);
        check(&claims, 0..6, &["d", "e", "f"]);
    }

    fn claimed<const N: usize>(keys: [&str; N]) -> Vec<Claimed> {
        keys.map(|key| Claimed { id: 0, key: key.to_owned() }).into()
    }

    #[track_caller]
    fn check(claims: &ClaimedKeys, numbers: Range<u64>, expected: &[&str]) {
        let mut found = Vec::new();
        claims.keys(numbers, |_, claimed, _| found.push(claimed.key.clone()));
        assert_eq!(found, expected);
    }
}
