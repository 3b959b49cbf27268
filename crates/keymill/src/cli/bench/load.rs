//! The load: workers that take keys by the plan, watched until it is over.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::live::Live;
use super::shared::{End, Shared};
use super::signals::Signals;
use super::tally::{Moment, Tally};
use super::uniqueness::{Chunk, Progress};
use super::worker;

/// How often the number of users follows the plan.
const STEP: Duration = Duration::from_millis(10);
/// How long a moment of the timeline is.
const MOMENT: Duration = Duration::from_secs(1);
/// How precisely a rate is kept: requests that are due within this time are begun together.
const PACE_STEP: Duration = Duration::from_micros(100);
/// After how long without a key a bench without a time limit ends.
const STALL_MAX: Duration = Duration::from_secs(30);

/// What came of the load.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) total: Tally,
    pub(super) timeline: Vec<Moment>,
    pub(super) took: Duration,
    pub(super) end: End,
    /// Requests that were due, and that no connection was free for. They count as failed.
    pub(super) unsent: u64,
}

/// What was counted so far.
#[derive(Debug)]
struct Record {
    total: Tally,
    timeline: Vec<Moment>,
    /// When the last moment ended.
    seen: Duration,
    /// When a key came last.
    fed: Duration,
}

/// Takes keys until the plan is done, or somebody stops it.
pub(super) async fn run(
    shared: &Arc<Shared>,
    chunks: mpsc::Sender<Chunk>,
    progress: &Progress,
    live: &mut Live,
    signals: &mut Signals,
) -> anyhow::Result<Outcome> {
    let workers = (0..shared.tallies.len()).map(|number| {
        let (shared, chunks) = (shared.clone(), chunks.clone());
        let thread = std::thread::Builder::new().name(format!("bench-{number}"));
        thread.spawn(move || {
            let ended = EndsWhenDropped(shared.clone());
            let worked = worker::run(number, shared, chunks);
            drop(ended);
            worked
        })
    });
    let workers = workers.collect::<Result<Vec<_>, _>>()?;
    drop(chunks);
    let pacer = shared.pace.is_some().then(|| {
        let shared = shared.clone();
        std::thread::spawn(move || release(&shared))
    });
    let mut record = Record::new();
    let mut steps = interval(STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !shared.is_over() {
        tokio::select! {
            _ = steps.tick() => {}
            () = signals.next() => shared.finish(End::Signal),
        }
        record.step(shared);
        if record.is_moment_over(shared) {
            record.close_moment(shared);
            live.show(&record.timeline, &record.total, progress);
        }
    }
    let ended = shared.begun.elapsed();
    if let Some(pacer) = pacer {
        let _ = tokio::task::spawn_blocking(|| pacer.join()).await?;
    }
    tokio::task::spawn_blocking(|| join(workers)).await??;
    // Until the last answer.
    let took = shared.begun.elapsed();
    record.close_moment(shared);
    let Record { mut total, timeline, .. } = record;
    let unsent = shared.pace.as_ref().map_or(0, |pace| pace.late(ended));
    if unsent > 0 {
        // Whoever left these out would call a server fast that had stopped to answer.
        total.fail(unsent, "not_sent", "no connection was free when it was due");
    }
    Ok(Outcome { total, timeline, took, end: shared.end(), unsent })
}

/// Ends the bench with a worker that ends, be it by a panic: the others would wait for it.
struct EndsWhenDropped(Arc<Shared>);

impl Drop for EndsWhenDropped {
    fn drop(&mut self) {
        if !self.0.is_over() {
            self.0.finish(End::Broken);
        }
    }
}

fn join(workers: Vec<JoinHandle<std::io::Result<()>>>) -> anyhow::Result<()> {
    for worker in workers {
        match worker.join() {
            Ok(worked) => worked?,
            Err(_) => anyhow::bail!("a thread of the bench has panicked; its counts are lost"),
        }
    }
    Ok(())
}

/// Releases requests when they are due.
fn release(shared: &Shared) {
    let Some(pace) = &shared.pace else { return };
    let mut released = 0;
    while !shared.is_over() {
        let elapsed = shared.begun.elapsed();
        let due = pace.rate.due(elapsed);
        pace.release(due.saturating_sub(released));
        released = released.max(due);
        let wait = pace.rate.due_at(released).saturating_sub(shared.begun.elapsed());
        // Not too long, because nobody wakes this thread at the end.
        std::thread::sleep(wait.clamp(PACE_STEP, 5 * STEP));
    }
}

impl Record {
    fn new() -> Record {
        let (total, timeline) = (Tally::default(), Vec::new());
        Record { total, timeline, seen: Duration::ZERO, fed: Duration::ZERO }
    }

    /// Follows the plan.
    fn step(&self, shared: &Shared) {
        let elapsed = shared.begun.elapsed();
        match shared.plan.users_at(elapsed) {
            Some(users) => shared.wanted.store(users, Ordering::Relaxed),
            None => shared.finish(End::Time),
        }
        let is_endless = shared.plan.time.is_none() && shared.plan.keys.is_some();
        if is_endless && elapsed.saturating_sub(self.fed) > STALL_MAX {
            shared.finish(End::Stalled);
        }
    }

    fn is_moment_over(&self, shared: &Shared) -> bool {
        shared.begun.elapsed().saturating_sub(self.seen) >= MOMENT
    }

    fn close_moment(&mut self, shared: &Shared) {
        let now = Instant::now().duration_since(shared.begun);
        let tally = shared.take_tally();
        if tally.keys > 0 {
            self.fed = now;
        }
        let (length, users) =
            (now.saturating_sub(self.seen), shared.wanted.load(Ordering::Relaxed));
        // Of the last answers, which come in a fraction of a second, rates would say nothing.
        if length >= MOMENT / 4 || self.timeline.is_empty() {
            self.timeline.push(tally.moment(now, length, users));
        }
        self.total.add(&tally);
        self.seen = now;
    }
}
