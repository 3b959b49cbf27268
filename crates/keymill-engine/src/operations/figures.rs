//! A space in figures, as far as this process knows them: for metrics, which never ask the store.

use jiff::Timestamp;

use super::Space;
use super::source::Source;
use crate::source::numbers::Numbers;
use crate::space::Timeline;

/// What this process knows of a space, in figures.
#[derive(Debug, Clone)]
pub struct Figures {
    /// The name of the space.
    pub name: String,
    /// Ordinals used to make keys.
    pub drawn: u64,
    /// Keys in memory, ready to be taken.
    pub at_hand: u64,
    /// Leases granted so far.
    pub leases: u64,
    /// Leases burned because their commit was in doubt.
    pub burned: u64,
    /// Keys a second at present.
    pub rate: f64,
    /// Keys in total.
    pub capacity: u64,
    /// Keys leased to instances, as of the last heartbeat.
    pub leased: u64,
    /// How often the clock of this host was set, as far as a snowflake space has noticed.
    pub clock_jumps: u64,
    /// When no ID can be made any more, in a snowflake space.
    pub runs_out_at: Option<Timestamp>,
    /// The worker number that this instance holds, in a snowflake space.
    pub worker: Option<u32>,
}

impl Space {
    /// The space in figures, without asking the store.
    pub fn figures(&self) -> Figures {
        let (record, progress) = (self.record(), self.progress());
        Figures {
            name: self.name.clone(),
            drawn: self.source.numbers().map_or(0, Numbers::drawn),
            at_hand: self.at_hand(),
            leases: progress.leases,
            burned: progress.burned,
            rate: progress.rate,
            capacity: record.capacity,
            leased: record.leased(),
            clock_jumps: progress.clock_jumps,
            runs_out_at: self.timeline().map(Timeline::runs_out_at),
            worker: match &self.source {
                Source::Ticks(ticks) => ticks.worker().number(),
                _ => None,
            },
        }
    }
}
