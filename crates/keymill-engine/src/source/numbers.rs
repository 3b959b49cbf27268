//! Numbers: what a take draws in runs, wherever they come from.
//!
//! `operations` turns them into keys: ordinals and IDs by the codec of the space, numbers of claimed
//! keys by looking them up. Nothing here does I/O.

use std::ops::Range;

use super::leased::Mill;
use super::outlook::NotReady;
use super::queue::{Deadline, Queue};
use super::ticks::Ticks;

/// A source that is drawn from in runs of numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Numbers<'a> {
    /// Ordinals of leases, or numbers of claimed keys.
    Leased(&'a Mill),
    /// IDs that are made of the time.
    Ticks(&'a Ticks),
}

impl<'a> Numbers<'a> {
    /// Draws up to `wanted`, at least one, waiting until `deadline` where there are too few.
    #[inline]
    pub(crate) async fn draw(
        self,
        wanted: u64,
        deadline: Deadline,
    ) -> Result<Range<u64>, NotReady> {
        match self {
            Numbers::Leased(mill) => mill.draw(wanted, deadline).await,
            Numbers::Ticks(ticks) => ticks.draw(wanted, deadline).await,
        }
    }

    /// Whether a demand for `wanted` can be met, or may be while it waits.
    pub(crate) fn can_meet(self, wanted: u64) -> Result<(), NotReady> {
        match self {
            Numbers::Leased(mill) => mill.can_meet(wanted),
            Numbers::Ticks(ticks) => ticks.can_meet(wanted),
        }
    }

    /// Takes in again what was drawn and not handed out. IDs do not come back: there is always more
    /// time.
    pub(crate) fn put_back(self, run: Range<u64>) {
        match self {
            Numbers::Leased(mill) => mill.put_back(run),
            Numbers::Ticks(_) => {}
        }
    }

    /// How many can be drawn right now.
    pub(crate) fn left(self) -> u64 {
        match self {
            Numbers::Leased(mill) => mill.left(),
            Numbers::Ticks(ticks) => ticks.left(),
        }
    }

    /// How many were drawn since the start.
    pub(crate) fn drawn(self) -> u64 {
        match self {
            Numbers::Leased(mill) => mill.drawn(),
            Numbers::Ticks(ticks) => ticks.worker().drawn(),
        }
    }

    /// Where callers wait for more.
    pub(crate) fn queue(self) -> &'a Queue {
        match self {
            Numbers::Leased(mill) => &mill.queue,
            Numbers::Ticks(ticks) => &ticks.queue,
        }
    }
}
