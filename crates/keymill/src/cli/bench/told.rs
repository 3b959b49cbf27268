//! What came of a round of requests: counted as soon as it is known, so that each answer has its own time.
//!
//! `user` makes one for each round, and a link tells it of every answer.

use std::time::Instant;

use super::collector::Lines;
use super::fault::Fault;
use super::worker::Worker;

/// Requests that are sent together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) requests: u32,
    /// How many keys each of them asks for.
    pub(super) count: u32,
}

/// What came of them so far.
pub(super) struct Told<'a> {
    worker: &'a Worker,
    /// When they were sent, or should have been.
    since: Instant,
    /// How many were answered, in whatever way.
    answered: u32,
    /// How many keys came.
    pub(super) received: u64,
    /// Whether all that were answered were answered with keys.
    pub(super) is_well: bool,
}

impl Asked {
    pub(super) fn keys(self) -> u64 {
        u64::from(self.requests) * u64::from(self.count)
    }
}

impl<'a> Told<'a> {
    pub(super) fn new(worker: &'a Worker, since: Instant) -> Told<'a> {
        Told { worker, since, answered: 0, received: 0, is_well: true }
    }

    /// A request was answered with keys, one per line.
    pub(super) fn keys(&mut self, body: &[u8], asked: u32) -> Result<(), Fault> {
        let took = self.since.elapsed();
        let lines = Lines::read(body, asked).map_err(Fault::bad_answer)?;
        self.worker.collect(lines);
        self.answered += 1;
        self.received += lines.count;
        self.worker.tally().acknowledge(lines.count, u64::from(asked), took);
        self.worker.shared.note_acknowledged();
        Ok(())
    }

    /// A request was refused.
    pub(super) fn refused(&mut self, fault: Fault) {
        self.answered += 1;
        self.fail(1, fault);
    }

    /// The rest of the requests will not be answered.
    pub(super) fn broken(&mut self, asked: Asked, fault: Fault) {
        let left = asked.requests.saturating_sub(self.answered);
        self.answered = asked.requests;
        self.fail(u64::from(left), fault);
    }

    fn fail(&mut self, count: u64, fault: Fault) {
        self.is_well = false;
        self.worker.tally().fail(count, &fault.code, &fault.detail);
        if let Some(error) = fault.lasting {
            self.worker.shared.note_refused(error);
        }
    }
}
