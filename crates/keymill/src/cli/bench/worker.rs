//! A worker: a thread with its users, their answers counted and their keys collected.
//!
//! `load` starts some. Each has a runtime of its own and shares nothing with the others while it takes keys.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::sleep;

use super::collector::{Collector, Lines};
use super::shared::{End, Shared, lock};
use super::tally::Tally;
use super::uniqueness::Chunk;
use super::user;

/// How often to look whether users are missing.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What the users of one thread share.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    number: usize,
    collector: RefCell<Collector>,
    chunks: mpsc::Sender<Chunk>,
}

/// Runs on a thread of its own until the bench is over and every answer has come.
pub(super) fn run(
    number: usize,
    shared: Arc<Shared>,
    chunks: mpsc::Sender<Chunk>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worker = Rc::new(Worker { shared, number, collector: RefCell::default(), chunks });
    LocalSet::new().block_on(&runtime, worker.work());
    Ok(())
}

impl Worker {
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        lock(&self.shared.tallies[self.number])
    }

    pub(super) fn collect(&self, lines: Lines<'_>) {
        self.collector.borrow_mut().add(lines);
    }

    /// Sends what was collected, if it is enough.
    pub(super) async fn deliver(&self) {
        loop {
            let chunk = self.collector.borrow_mut().pop();
            let Some(chunk) = chunk else { return };
            self.send(chunk).await;
        }
    }

    async fn send(&self, chunk: Chunk) {
        if self.chunks.send(chunk).await.is_err() {
            self.shared.finish(End::Broken);
        }
    }

    /// Keeps as many users at work as are wanted.
    async fn work(self: Rc<Self>) {
        let mut users: Vec<Option<JoinHandle<()>>> = Vec::new();
        // Users are dealt out to workers in turn.
        let number_of = |at: usize| self.number + at * self.shared.tallies.len();
        while !self.shared.is_over() {
            while self.shared.wants(number_of(users.len())) {
                users.push(None);
            }
            for (at, task) in users.iter_mut().enumerate() {
                let is_at_work = task.as_ref().is_some_and(|task| !task.is_finished());
                if !is_at_work && self.shared.wants(number_of(at)) {
                    *task = Some(spawn_local(user::run(self.clone(), number_of(at))));
                }
            }
            sleep(LOOK_EVERY).await;
        }
        for task in users.into_iter().flatten() {
            // A user that has panicked has said so.
            let _ = task.await;
        }
        let left = self.collector.borrow_mut().drain();
        for chunk in left {
            self.send(chunk).await;
        }
    }
}
