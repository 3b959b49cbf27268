//! The budget: how many bytes of large answers may be in memory at once, made and not yet sent, and how
//! many of large requests.
//!
//! `pieces` reserves room here before it makes a piece of an answer; the room comes free when the
//! connection has written the piece, or is gone. Small answers never ask.
//!
//! # Invariants
//!
//! - The pieces of all answers together never exceed the budget, and those of one answer never exceed
//!   [`ANSWER_PIECES_MAX`]. A connection has one answer under way, with HTTP/2 at most 64.
//! - Pieces never wait for whole texts, nor those for pieces: each kind has half of the budget. A text of
//!   megabytes, first in the line, would otherwise hold up every piece behind it. Bodies of requests have
//!   as much as one of them.
//! - Whoever waits gets room in the end: an answer of which nothing was sent for [`STALL_MAX`] while
//!   others wait is cut off together with its connection.

mod account;
mod room;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

pub(in crate::front) use account::Account;
pub(crate) use account::Line;
pub(in crate::front) use room::Whole;

/// The budget where none is set.
pub const UNSENT_MAX: usize = 64 << 20;
/// The smallest that can be set: with less, a few clients would be all that can be served at once.
pub const UNSENT_MIN: usize = 1 << 20;
/// How many bytes a piece may have.
pub(in crate::front) const PIECE_BYTES: usize = 8 << 10;
/// How many pieces of one answer may be unsent: one on its way to the socket, and one behind it.
const ANSWER_PIECES_MAX: usize = 2;
/// An answer of which nothing was sent for this long is cut off, if others wait for the room it holds.
const STALL_MAX: Duration = Duration::from_secs(10);
/// How long a request waits for room for its body.
const BODY_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often requests that wait look for such answers.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The budget of a process.
#[derive(Debug)]
pub(in crate::front) struct Budget {
    /// For pieces.
    room: Arc<Semaphore>,
    /// For texts that are in memory as a whole.
    room_of_wholes: Arc<Semaphore>,
    /// For large bodies of requests. They come free by themselves: a body has a time limit.
    room_of_bodies: Arc<Semaphore>,
    /// What each of them has.
    half: usize,
    /// How many bytes others are waiting for.
    wanted: AtomicUsize,
    /// Answers under way; those that have ended are dropped now and then.
    accounts: Mutex<Vec<Weak<Account>>>,
    began: Instant,
    /// When stalled answers were last looked for, in milliseconds since `began`.
    looked_at: AtomicU64,
}

impl Budget {
    pub(in crate::front) fn new(max: usize) -> Arc<Budget> {
        let max = max.clamp(UNSENT_MIN, u32::MAX as usize);
        let half = max / 2;
        Arc::new(Budget {
            room: Arc::new(Semaphore::new(half)),
            room_of_wholes: Arc::new(Semaphore::new(half)),
            room_of_bodies: Arc::new(Semaphore::new(half)),
            half,
            wanted: AtomicUsize::new(0),
            accounts: Mutex::default(),
            began: Instant::now(),
            looked_at: AtomicU64::new(0),
        })
    }

    /// An account for an answer that begins.
    pub(in crate::front) fn open(self: &Arc<Budget>, line: Option<Arc<Line>>) -> Arc<Account> {
        let account = Arc::new(Account::new(self.clone(), line));
        let mut accounts = self.accounts.lock().expect("nothing panics while it is held");
        if accounts.len() == accounts.capacity() {
            accounts.retain(|account| account.strong_count() > 0);
        }
        accounts.push(Arc::downgrade(&account));
        account
    }

    /// Reserves room for a whole text; `None` if there was none within `time_max`. A text that is larger
    /// than all the room gets all of it.
    pub(in crate::front) async fn reserve_whole(
        &self,
        bytes: usize,
        time_max: Duration,
    ) -> Option<Whole> {
        let bytes = timeout(time_max, self.reserve(&self.room_of_wholes, bytes)).await.ok()?;
        Some(Whole::new(bytes))
    }

    /// Room for the body of a request; `None` where there was none in time.
    pub(in crate::front) async fn reserve_body(
        &self,
        bytes: usize,
    ) -> Option<OwnedSemaphorePermit> {
        let room = self.room_of_bodies.clone().acquire_many_owned(self.permits(bytes));
        Some(timeout(BODY_WAIT_MAX, room).await.ok()?.expect("the semaphore is never closed"))
    }

    /// Like [`Budget::reserve_whole`], but without waiting.
    pub(super) fn try_reserve_whole(&self, bytes: usize) -> Option<Whole> {
        let room = self.room_of_wholes.clone();
        let Ok(bytes) = room.try_acquire_many_owned(self.permits(bytes)) else {
            let _wish = Wish::new(&self.wanted, bytes);
            self.cut_off_stalled();
            return None;
        };
        Some(Whole::new(bytes))
    }

    async fn reserve(&self, room: &Arc<Semaphore>, bytes: usize) -> OwnedSemaphorePermit {
        let permits = self.permits(bytes);
        if let Ok(room) = room.clone().try_acquire_many_owned(permits) {
            return room;
        }
        let _wish = Wish::new(&self.wanted, bytes);
        let mut room = std::pin::pin!(room.clone().acquire_many_owned(permits));
        loop {
            match timeout(LOOK_EVERY, room.as_mut()).await {
                Ok(room) => return room.expect("the semaphore is never closed"),
                Err(_) => self.cut_off_stalled(),
            }
        }
    }

    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.half)).unwrap_or(u32::MAX)
    }

    /// Cuts off answers that hold room and of which nothing was sent for long: the longest stalled first,
    /// and no more than it takes to make room for those who wait.
    fn cut_off_stalled(&self) {
        let (now, looked_at) = (self.now(), self.looked_at.load(Ordering::Relaxed));
        let order = Ordering::Relaxed;
        if now < looked_at + millis(LOOK_EVERY)
            || self.looked_at.compare_exchange(looked_at, now, order, order).is_err()
        {
            return;
        }
        let mut stalled: Vec<Arc<Account>> = {
            let mut accounts = self.accounts.lock().expect("nothing panics while it is held");
            accounts.retain(|account| account.strong_count() > 0);
            accounts.iter().filter_map(Weak::upgrade).filter(|it| it.is_stalled(now)).collect()
        };
        stalled.sort_by_key(|account| account.moved_at());
        let (mut wanted, mut count) = (self.wanted.load(Ordering::Relaxed), 0);
        for account in stalled {
            if wanted == 0 {
                break;
            }
            if let Some(freed) = account.cut_off() {
                wanted = wanted.saturating_sub(freed);
                count += 1;
            }
        }
        if count > 0 {
            tracing::warn!(
                count,
                "disconnected clients that did not read their large answers for {} s while others \
                 were waiting for memory; raise limits.unsent_max_bytes if these clients are only \
                 slow",
                STALL_MAX.as_secs()
            );
        }
    }

    /// Milliseconds since it began.
    fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }
}

/// The bytes that a request is waiting for, counted until it stops waiting.
struct Wish<'a> {
    wanted: &'a AtomicUsize,
    bytes: usize,
}

impl<'a> Wish<'a> {
    fn new(wanted: &'a AtomicUsize, bytes: usize) -> Wish<'a> {
        wanted.fetch_add(bytes, Ordering::Relaxed);
        Wish { wanted, bytes }
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.wanted.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
