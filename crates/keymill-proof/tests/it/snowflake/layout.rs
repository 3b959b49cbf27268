//! What is in a snowflake ID: its time, its worker, and its number among those.

use std::fmt;

use keymill_proof::Received;

/// The bits of the sequence, in all layouts here.
const SEQUENCE_BITS: u32 = 12;
/// Where time begins: 2025-01-01T00:00:00Z, in milliseconds since 1970.
const EPOCH_MS: u64 = 1_735_689_600_000;

/// A layout with milliseconds in 41 bits, and so many bits for the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) worker_bits: u32,
}

impl Layout {
    pub(super) fn workers(self) -> u64 {
        1 << self.worker_bits
    }

    pub(super) fn worker(self, id: u64) -> u64 {
        id >> SEQUENCE_BITS & (self.workers() - 1)
    }

    /// The time in an ID, in milliseconds since 1970.
    pub(super) fn ms(self, id: u64) -> u64 {
        (id >> (SEQUENCE_BITS + self.worker_bits)) + EPOCH_MS
    }

    /// A time in milliseconds since the epoch, in those since 1970.
    pub(super) fn ms_of_tick(tick: u64) -> u64 {
        tick + EPOCH_MS
    }

    /// For IDs of this layout: those of one worker come in their order. One that was slow to use its window has the
    /// earlier one, though the worker is another's already, so those of another instance may come between.
    pub(super) fn received(self) -> Received {
        Received::ordered(move |key| {
            let id = id(key);
            (self.worker(id), id)
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "41/{}/{SEQUENCE_BITS}", self.worker_bits)
    }
}

/// The number that a key is.
pub(super) fn id(key: &str) -> u64 {
    key.parse().unwrap_or_else(|_| panic!("{key:?} is not an ID"))
}

/// All IDs.
pub(super) fn ids(received: &Received) -> impl Iterator<Item = u64> {
    received.keys().map(|key| id(&key))
}
