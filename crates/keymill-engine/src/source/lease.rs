//! The leases of one mill: the runs of ordinals this process alone may turn into keys.
//!
//! The mill draws from here on every request; `supply` offers a new lease every few
//! minutes. Nothing here does I/O, blocks, locks or allocates.
//!
//! A mill holds two leases at most: the current one and, ready before it is needed, the
//! next. They sit in two slots. One atomic word, the *head*, says which lease is current
//! (its *turn*) and how many of its ordinals are drawn; every draw is one compare-and-swap
//! on it.
//!
//! # Invariants
//!
//! - An ordinal is drawn at most once: within a turn the drawn count only grows, and the
//!   turn itself only grows.
//! - The slot of turn `t` is rewritten (for turn `t + 2`) only while the head stands at
//!   turn `t + 1`. So a draw whose compare-and-swap succeeds has read a slot that was
//!   stable: a success proves that the head never left its turn.
//! - A draw never claims more than there is, so what a seal finds undrawn is exact.
//! - Ordinals left in dropped leases are lost, never reissued. We pay in gaps so that a
//!   crash can never cost a duplicate.

use std::ops::Range;

use super::atomics::{AtomicU64, Ordering};

/// The longest lease the head can count.
pub const LEASE_SIZE_MAX: u64 = (1 << COUNT_BITS) - 1;

const COUNT_BITS: u32 = 40;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// Turns count modulo 2^23: a draw would have to sleep through eight million leases
/// between its load and its swap to mistake one for another.
pub(crate) const TURN_MASK: u64 = (1 << 23) - 1;
const SEALED: u64 = 1 << 63;

/// The current lease and the next one.
///
/// Deliberately not `Clone`: two copies would draw the same ordinals.
#[derive(Debug)]
pub struct LeasePair {
    head: Padded,
    /// The newest turn whose slot is filled: the head's own turn, or the one after it.
    filled: AtomicU64,
    /// How many ordinals of the current lease may be drawn before `supply` wants to know.
    low_mark: AtomicU64,
    slots: [Slot; 2],
}

/// What a draw came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Draw {
    /// These ordinals now belong to the caller. `low` says that this draw took the lease
    /// past its low mark, or opened a new one: `supply` wants to look.
    Drawn {
        /// The ordinals, never empty, at most as many as wanted.
        ordinals: Range<u64>,
        /// Whether `supply` should be woken.
        low: bool,
    },
    /// Both leases are spent; nothing was claimed.
    Dry,
    /// The leases were sealed for give-back; nothing will ever be drawn again.
    Sealed,
}

/// The head has a cache line of its own: it is the one word that every draw writes.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU64);

#[derive(Debug)]
struct Slot {
    start: AtomicU64,
    len: AtomicU64,
}

impl LeasePair {
    /// No leases yet: the first draw finds it dry.
    pub fn new() -> LeasePair {
        LeasePair::starting_at(0)
    }

    /// No leases yet, with turns that count from `turn`.
    pub(crate) fn starting_at(turn: u64) -> LeasePair {
        let slot = || Slot { start: AtomicU64::new(0), len: AtomicU64::new(0) };
        LeasePair {
            head: Padded(AtomicU64::new(pack(turn & TURN_MASK, 0))),
            filled: AtomicU64::new(turn & TURN_MASK),
            low_mark: AtomicU64::new(0),
            slots: [slot(), slot()],
        }
    }

    /// Draws up to `wanted` ordinals.
    ///
    /// A short draw is not an error: the caller finishes from the next lease.
    #[inline]
    pub fn draw(&self, wanted: u64) -> Draw {
        debug_assert!(wanted > 0, "a draw of nothing");
        let mut head = self.head.0.load(Ordering::Acquire);
        loop {
            if head & SEALED != 0 {
                return Draw::Sealed;
            }
            let (turn, drawn) = unpack(head);
            let (start, len) = self.slot(turn).read();
            let (claim, ordinals, low) = if drawn < len {
                let count = wanted.min(len - drawn);
                let low_mark = self.low_mark.load(Ordering::Relaxed);
                let low = drawn < low_mark && drawn + count >= low_mark || drawn + count == len;
                (head + count, start + drawn..start + drawn + count, low)
            } else {
                let next = after(turn);
                if self.filled.load(Ordering::Acquire) != next {
                    // The head may have moved on since it was read: then it is not dry.
                    let now = self.head.0.load(Ordering::Acquire);
                    if now == head {
                        return Draw::Dry;
                    }
                    head = now;
                    continue;
                }
                let (start, len) = self.slot(next).read();
                let count = wanted.min(len);
                (pack(next, count), start..start + count, true)
            };
            match self.head.0.compare_exchange_weak(
                head,
                claim,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Draw::Drawn { ordinals, low },
                Err(now) => head = now,
            }
        }
    }

    /// Puts a lease that the store has just granted behind the current one.
    ///
    /// Only `supply` calls this, one call at a time, and only when [`LeasePair::has_next`] is
    /// false. Returns `false` when the leases are sealed: the lease is still the caller's.
    pub fn offer(&self, granted: Range<u64>) -> bool {
        assert!(granted.start < granted.end, "store granted an empty lease: {granted:?}");
        let len = granted.end - granted.start;
        assert!(len <= LEASE_SIZE_MAX, "store granted a lease too long to count: {granted:?}");
        assert!(!self.has_next(), "a lease offered while the next one is still waiting");
        let head = self.head.0.load(Ordering::Acquire);
        if head & SEALED != 0 {
            return false;
        }
        let next = after(unpack(head).0);
        let slot = self.slot(next);
        slot.start.store(granted.start, Ordering::Relaxed);
        slot.len.store(len, Ordering::Relaxed);
        self.filled.store(next, Ordering::Release);
        true
    }

    /// Whether a lease waits behind the current one.
    pub fn has_next(&self) -> bool {
        let (turn, _) = unpack(self.head.0.load(Ordering::Acquire));
        self.filled.load(Ordering::Acquire) == after(turn)
    }

    /// How many ordinals are left to draw, in the current lease and the next.
    pub fn left(&self) -> u64 {
        let head = self.head.0.load(Ordering::Acquire);
        self.rests(head).into_iter().map(|rest| rest.end - rest.start).sum()
    }

    /// Wakes `supply` once the current lease has no more than `rest` ordinals left.
    pub fn set_low_mark(&self, rest: u64) {
        let (turn, _) = unpack(self.head.0.load(Ordering::Acquire));
        let (_, len) = self.slot(turn).read();
        self.low_mark.store(len.saturating_sub(rest), Ordering::Relaxed);
    }

    /// Ends drawing for good, and says what was left undrawn: of the current lease and of
    /// the next one. A range is empty where nothing was left.
    ///
    /// Only `supply` calls this, so no `offer` runs beside it.
    pub fn seal(&self) -> [Range<u64>; 2] {
        let head = self.head.0.swap(SEALED, Ordering::AcqRel);
        self.rests(head)
    }

    fn rests(&self, head: u64) -> [Range<u64>; 2] {
        if head & SEALED != 0 {
            return [0..0, 0..0];
        }
        let (turn, drawn) = unpack(head);
        let (start, len) = self.slot(turn).read();
        let current = start + drawn.min(len)..start + len;
        let next = after(turn);
        if self.filled.load(Ordering::Acquire) != next {
            return [current, 0..0];
        }
        let (start, len) = self.slot(next).read();
        [current, start..start + len]
    }

    fn slot(&self, turn: u64) -> &Slot {
        &self.slots[usize::from(turn & 1 == 1)]
    }
}

impl Default for LeasePair {
    fn default() -> LeasePair {
        LeasePair::new()
    }
}

impl Slot {
    fn read(&self) -> (u64, u64) {
        (self.start.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed))
    }
}

fn after(turn: u64) -> u64 {
    (turn + 1) & TURN_MASK
}

fn pack(turn: u64, drawn: u64) -> u64 {
    turn << COUNT_BITS | drawn
}

fn unpack(head: u64) -> (u64, u64) {
    (head >> COUNT_BITS & TURN_MASK, head & COUNT_MASK)
}
