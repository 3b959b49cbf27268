//! The account of one answer: what it holds of the budget, and how to cut it off.
//!
//! `pieces` has one for every large answer. What is held is counted by `room`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::room::{Room, Whole};
use super::{ANSWER_PIECES_MAX, Budget, PIECE_BYTES, STALL_MAX, millis};

/// What one answer holds of the budget.
#[derive(Debug)]
pub(in crate::front) struct Account {
    budget: Arc<Budget>,
    line: Option<Arc<Line>>,
    pieces: Arc<Semaphore>,
    /// In bytes.
    pub(super) held: AtomicUsize,
    /// When it last made a piece, or one was sent, in milliseconds since the budget began.
    moved_at: AtomicU64,
}

/// How many bodies of requests a connection may have in memory. HTTP/2 allows many requests at once.
const BODIES_MAX: usize = 8;

/// A connection, as far as its requests have to know: how many bodies it may send, and how to cut it off.
#[derive(Debug)]
pub(crate) struct Line {
    task: OnceLock<AbortHandle>,
    bodies: Arc<Semaphore>,
}

impl Account {
    pub(super) fn new(budget: Arc<Budget>, line: Option<Arc<Line>>) -> Account {
        Account {
            line,
            pieces: Arc::new(Semaphore::new(ANSWER_PIECES_MAX)),
            held: AtomicUsize::new(0),
            moved_at: AtomicU64::new(budget.now()),
            budget,
        }
    }

    /// Waits for room for one piece. Those of a whole text share the room that it has.
    pub(in crate::front) async fn reserve(self: &Arc<Account>, of: Option<&Whole>) -> Room {
        let pieces = self.pieces.clone();
        // First: what this answer has already made must be sent before it gets more of the budget.
        let piece = pieces.acquire_owned().await.expect("the semaphore is never closed");
        let bytes = match of {
            // Waiting for more would be waiting for itself, if it holds all the room.
            Some(_) => None,
            None => Some(self.budget.reserve(&self.budget.room, PIECE_BYTES).await),
        };
        Room::new(self.clone(), bytes, piece)
    }

    /// Records that something of it was sent.
    pub(in crate::front) fn moved(&self) {
        self.moved_at.store(self.budget.now(), Ordering::Relaxed);
    }

    /// When it last made a piece, or one was sent.
    pub(super) fn moved_at(&self) -> u64 {
        self.moved_at.load(Ordering::Relaxed)
    }

    pub(super) fn is_stalled(&self, now: u64) -> bool {
        self.held.load(Ordering::Relaxed) > 0 && now >= self.moved_at() + millis(STALL_MAX)
    }

    /// Cuts its connection off. Returns how many bytes that frees, or `None` if there is nothing to cut off.
    pub(super) fn cut_off(&self) -> Option<usize> {
        let task = self.line.as_ref()?.task.get().filter(|task| !task.is_finished())?;
        task.abort();
        Some(self.held.load(Ordering::Relaxed))
    }

    pub(super) fn hold(&self, bytes: usize) {
        self.moved();
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn let_go(&self, bytes: usize) {
        self.moved();
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Line {
    /// How to cut it off: its task ends, and with it everything that was made for it.
    pub(crate) fn cut_with(&self, task: AbortHandle) {
        // Set once, when the connection begins.
        let _ = self.task.set(task);
    }

    /// Waits until one more body may be read.
    pub(in crate::front) async fn place_for_body(&self) -> OwnedSemaphorePermit {
        self.bodies.clone().acquire_owned().await.expect("the semaphore is never closed")
    }
}

impl Default for Line {
    fn default() -> Line {
        Line { task: OnceLock::new(), bodies: Arc::new(Semaphore::new(BODIES_MAX)) }
    }
}
