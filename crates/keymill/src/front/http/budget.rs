//! The budget: how many bytes of large answers may be in memory at once, made and not yet sent.
//!
//! `pieces` reserves room here before it makes a piece of an answer; the room comes free when the
//! connection has written the piece, or is gone. Small answers never ask.
//!
//! # Invariants
//!
//! - The pieces of all answers together never exceed the budget, and those of one answer never exceed
//!   [`ANSWER_PIECES_MAX`]. A connection has one answer under way, with HTTP/2 at most 64.
//! - Pieces never wait for whole texts, nor those for pieces: each kind has half of the budget. A text of
//!   megabytes, first in the line, would otherwise hold up every piece behind it.
//! - Whoever waits gets room in the end: an answer of which nothing was sent for [`STALL_MAX`] while
//!   others wait is cut off together with its connection.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

/// The budget where none is set.
pub const UNSENT_MAX: usize = 64 << 20;
/// The smallest that can be set: with less, a few clients would be all that can be served at once.
pub const UNSENT_MIN: usize = 1 << 20;
/// How many bytes a piece may have.
pub(super) const PIECE_BYTES: usize = 8 << 10;
/// How many pieces of one answer may be unsent: one on its way to the socket, and one behind it.
const ANSWER_PIECES_MAX: usize = 2;
/// An answer of which nothing was sent for so long is cut off, if others wait for the room it holds.
const STALL_MAX: Duration = Duration::from_secs(10);
/// How often those who wait look for such answers.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The budget of a process.
#[derive(Debug)]
pub(super) struct Budget {
    /// For pieces.
    room: Arc<Semaphore>,
    /// For texts that are in memory as a whole.
    room_of_wholes: Arc<Semaphore>,
    /// What each of them has.
    half: usize,
    /// How many bytes are waited for.
    wanted: AtomicUsize,
    /// Answers under way; those that have ended are dropped now and then.
    accounts: Mutex<Vec<Weak<Account>>>,
    began: Instant,
    /// When somebody last looked for stalled answers, in milliseconds since `began`.
    looked_at: AtomicU64,
}

/// What one answer holds of the budget.
#[derive(Debug)]
pub(super) struct Account {
    budget: Arc<Budget>,
    line: Option<Arc<Line>>,
    pieces: Arc<Semaphore>,
    held: AtomicUsize,
    /// When it last made a piece, or one was sent, in milliseconds since the budget began.
    moved_at: AtomicU64,
}

/// A connection, as far as its answers have to know: how to cut it off.
#[derive(Debug, Default)]
pub(crate) struct Line {
    task: OnceLock<AbortHandle>,
}

/// Room for one piece.
#[derive(Debug)]
pub(super) struct Room {
    account: Arc<Account>,
    _bytes: Option<OwnedSemaphorePermit>,
    _piece: OwnedSemaphorePermit,
}

/// Room for a text that is in memory as a whole, until it is dropped.
#[derive(Debug)]
pub(super) struct Whole {
    bytes: OwnedSemaphorePermit,
    /// Whose it is, once its answer has begun.
    account: Option<Arc<Account>>,
}

impl Budget {
    pub(super) fn new(max: usize) -> Arc<Budget> {
        let max = max.clamp(UNSENT_MIN, u32::MAX as usize);
        let half = max / 2;
        Arc::new(Budget {
            room: Arc::new(Semaphore::new(half)),
            room_of_wholes: Arc::new(Semaphore::new(half)),
            half,
            wanted: AtomicUsize::new(0),
            accounts: Mutex::default(),
            began: Instant::now(),
            looked_at: AtomicU64::new(0),
        })
    }

    /// An account for an answer that begins.
    pub(super) fn open(self: &Arc<Budget>, line: Option<Arc<Line>>) -> Arc<Account> {
        let account = Arc::new(Account {
            budget: self.clone(),
            line,
            pieces: Arc::new(Semaphore::new(ANSWER_PIECES_MAX)),
            held: AtomicUsize::new(0),
            moved_at: AtomicU64::new(self.now()),
        });
        let mut accounts = self.accounts.lock().expect("nothing panics while it is held");
        if accounts.len() == accounts.capacity() {
            accounts.retain(|account| account.strong_count() > 0);
        }
        accounts.push(Arc::downgrade(&account));
        account
    }

    /// Room for a whole text, for as long as `time_max` allows; `None` where there was none in time.
    /// One that is larger than the room for them has to have all of it.
    pub(super) async fn reserve_whole(&self, bytes: usize, time_max: Duration) -> Option<Whole> {
        let bytes = timeout(time_max, self.reserve(&self.room_of_wholes, bytes)).await.ok()?;
        Some(Whole { bytes, account: None })
    }

    /// The same at once.
    pub(super) fn try_reserve_whole(&self, bytes: usize) -> Option<Whole> {
        let room = self.room_of_wholes.clone();
        let Ok(bytes) = room.try_acquire_many_owned(self.permits(bytes)) else {
            let _wish = Wish::new(&self.wanted, bytes);
            self.cut_off_stalled();
            return None;
        };
        Some(Whole { bytes, account: None })
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

    /// Cuts off answers that hold room and of which nothing was sent for long: those that have stood
    /// still the longest first, and no more than it takes to give those who wait what they want.
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
        stalled.sort_by_key(|account| account.moved_at.load(Ordering::Relaxed));
        let (mut wanted, mut count) = (self.wanted.load(Ordering::Relaxed), 0);
        for account in stalled {
            if wanted == 0 {
                break;
            }
            let Some(task) = account.line.as_ref().and_then(|line| line.task.get()) else {
                continue;
            };
            if !task.is_finished() {
                task.abort();
                wanted = wanted.saturating_sub(account.held.load(Ordering::Relaxed));
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

impl Account {
    /// Waits for room for one piece. Those of a whole text share the room that it has.
    pub(super) async fn reserve(self: &Arc<Account>, of: Option<&Whole>) -> Room {
        let pieces = self.pieces.clone();
        // First: what this answer has already made must be sent before it gets more of the budget.
        let _piece = pieces.acquire_owned().await.expect("the semaphore is never closed");
        let _bytes = match of {
            // To wait for more would be to wait for oneself, where it has all there is.
            Some(_) => None,
            None => Some(self.budget.reserve(&self.budget.room, PIECE_BYTES).await),
        };
        Room { account: self.clone(), _bytes, _piece }
    }

    /// Notes that something of it was sent.
    pub(super) fn moved(&self) {
        self.moved_at.store(self.budget.now(), Ordering::Relaxed);
    }

    fn is_stalled(&self, now: u64) -> bool {
        let moved_at = self.moved_at.load(Ordering::Relaxed);
        self.held.load(Ordering::Relaxed) > 0 && now >= moved_at + millis(STALL_MAX)
    }

    fn hold(&self, bytes: usize) {
        self.moved();
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    fn let_go(&self, bytes: usize) {
        self.moved();
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Room {
    /// The bytes of a piece, which give this room back when the last of them is dropped.
    pub(super) fn hold(self, text: Vec<u8>) -> Bytes {
        self.account.hold(PIECE_BYTES);
        Bytes::from_owner(Piece { text, room: self })
    }
}

/// A piece that was made and is not sent yet.
struct Piece {
    text: Vec<u8>,
    room: Room,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.room.account.let_go(PIECE_BYTES);
    }
}

impl Whole {
    /// Gives back what the text and its pieces do not need, now that it is there, and puts the rest on
    /// an account.
    pub(super) fn settle(mut self, bytes: usize, account: &Arc<Account>) -> Whole {
        let needed = bytes + ANSWER_PIECES_MAX * PIECE_BYTES;
        let rest = self.bytes.num_permits().saturating_sub(needed);
        drop(self.bytes.split(rest));
        account.hold(self.bytes.num_permits());
        self.account = Some(account.clone());
        self
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.let_go(self.bytes.num_permits());
        }
    }
}

impl Line {
    /// How to cut it off: its task ends, and with it everything that was made for it.
    pub(crate) fn cut_with(&self, task: AbortHandle) {
        // Set once, when the connection begins.
        let _ = self.task.set(task);
    }
}

/// What somebody who waits wants, until it stops waiting.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the smallest budget has for each kind, and how many pieces that is.
    const HALF: usize = UNSENT_MIN / 2;
    const PIECES: usize = HALF / PIECE_BYTES;

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_two_pieces_unsent_and_no_more() {
        let budget = Budget::new(UNSENT_MIN);
        let account = budget.open(None);
        let first = account.reserve(None).await.hold(vec![1; 10]);
        let _second = account.reserve(None).await.hold(vec![2; 10]);
        assert_eq!(first[..], [1_u8; 10]);
        assert!(waits(account.reserve(None)).await, "both are unsent");
        // A part that is still in use holds the piece.
        let part = first.slice(3..5);
        drop(first);
        assert!(waits(account.reserve(None)).await);
        drop(part);
        assert!(!waits(account.reserve(None)).await);
        assert_eq!(budget.room.available_permits(), HALF - PIECE_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn all_answers_together_keep_within_the_budget() {
        let budget = Budget::new(UNSENT_MIN);
        let mut pieces = full(&budget, &None).await;
        let late = budget.open(None);
        assert!(waits(late.reserve(None)).await);
        // A whole text does not wait for them, but for others of its kind.
        let whole = budget.try_reserve_whole(HALF).unwrap();
        assert!(budget.try_reserve_whole(1).is_none());
        assert!(budget.reserve_whole(1, Duration::from_secs(3)).await.is_none());
        drop(whole);
        pieces.pop();
        assert!(!waits(late.reserve(None)).await);
        drop(pieces);
        assert_eq!(budget.room.available_permits(), HALF);
        assert_eq!(budget.wanted.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_holds_the_budget_without_reading_is_cut_off_when_others_wait() {
        let budget = Budget::new(UNSENT_MIN);
        let line = Arc::new(Line::default());
        let held = full(&budget, &Some(line.clone())).await;
        let deaf = tokio::spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        line.cut_with(deaf.abort_handle());
        tokio::time::sleep(STALL_MAX * 3).await;
        assert!(!deaf.is_finished(), "nobody waits");
        let late = budget.open(None);
        let room = timeout(STALL_MAX, late.reserve(None)).await;
        assert!(room.is_ok(), "what was held came free");
        assert!(deaf.await.unwrap_err().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_is_not_cut_off() {
        let budget = Budget::new(UNSENT_MIN);
        let line = Arc::new(Line::default());
        let mut held = full(&budget, &Some(line.clone())).await;
        let slow = tokio::spawn(std::future::pending::<()>());
        line.cut_with(slow.abort_handle());
        let late = budget.open(None);
        // Every account holds two pieces, side by side: each of them has one sent in time.
        let waited = timeout(STALL_MAX / 2, budget.reserve(&budget.room, HALF)).await;
        assert!(waited.is_err());
        for place in (0..PIECES / 2).rev() {
            held.remove(place * 2);
        }
        let waited = timeout(STALL_MAX / 2 + LOOK_EVERY, budget.reserve(&budget.room, HALF)).await;
        assert!(waited.is_err() && !slow.is_finished());
        assert!(!waits(late.reserve(None)).await);
        slow.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_text_gives_back_what_it_does_not_need() {
        let budget = Budget::new(UNSENT_MIN);
        let account = budget.open(None);
        let whole = budget.reserve_whole(UNSENT_MIN * 9, STALL_MAX).await.unwrap();
        assert_eq!(budget.room_of_wholes.available_permits(), 0, "all of it, and no more");
        let whole = whole.settle(1_000, &account);
        let held = 1_000 + ANSWER_PIECES_MAX * PIECE_BYTES;
        assert_eq!(budget.room_of_wholes.available_permits(), HALF - held);
        assert_eq!(account.held.load(Ordering::Relaxed), held);
        drop(whole);
        assert_eq!(budget.room_of_wholes.available_permits(), HALF);
        assert_eq!(account.held.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_text_that_takes_all_there_is_does_not_wait_for_itself() {
        let budget = Budget::new(UNSENT_MIN);
        let account = budget.open(None);
        let whole = budget.reserve_whole(UNSENT_MIN, STALL_MAX).await.unwrap();
        let whole = whole.settle(UNSENT_MIN, &account);
        assert_eq!(budget.room_of_wholes.available_permits(), 0);
        let first = account.reserve(Some(&whole)).await.hold(vec![1; 10]);
        let _second = account.reserve(Some(&whole)).await.hold(vec![2; 10]);
        assert!(waits(account.reserve(Some(&whole))).await, "two pieces and no more");
        drop(first);
        assert!(!waits(account.reserve(Some(&whole))).await);
    }

    #[tokio::test]
    async fn answers_that_have_ended_are_forgotten() {
        let budget = Budget::new(UNSENT_MIN);
        let kept = budget.open(None);
        for _ in 0..10_000 {
            budget.open(None);
        }
        assert!(budget.accounts.lock().unwrap().len() < 100);
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    /// Answers that hold all of the budget, two pieces each.
    async fn full(budget: &Arc<Budget>, line: &Option<Arc<Line>>) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        while pieces.len() < PIECES {
            let account = budget.open(line.clone());
            for _ in 0..ANSWER_PIECES_MAX {
                pieces.push(account.reserve(None).await.hold(vec![0; PIECE_BYTES]));
            }
        }
        pieces
    }

    /// Whether there is no room yet. What was reserved is given back.
    async fn waits(reserve: impl Future<Output = Room>) -> bool {
        timeout(Duration::from_millis(1), reserve).await.is_err()
    }
}
