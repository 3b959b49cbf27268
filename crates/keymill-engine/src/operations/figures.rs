//! A space in figures, as far as this process knows them: for metrics, which never ask the store.

use std::time::Duration;

use jiff::Timestamp;

use super::source::Source;
use super::{Service, Space};
use crate::source::numbers::Numbers;
use crate::space::{Kind, Timeline};
pub use crate::store::CallFigures;
use crate::store::SpaceRecord;

/// What this process knows of a space, in figures.
#[derive(Debug, Clone)]
pub struct Figures {
    /// The name of the space.
    pub name: String,
    /// What its keys are.
    pub kind: Kind,
    /// How many spaces this instance had opened before it.
    pub number: usize,
    /// Keys taken: ordinals drawn, also for keys that the blocklist matched; or, where there are none, keys handed out.
    pub taken: u64,
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
    /// Whether it hands out no more keys, for good.
    pub sealed: bool,
    /// In how many seconds it is used up, if it goes on as it did on average since it was created. None of a sealed one.
    pub used_up_in: Option<f64>,
    /// Keys available in its pool, as this instance last saw it.
    pub pool: Option<u64>,
    /// Below how many of them the pool is filled; 0 where it never is.
    pub low_water: u64,
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
            kind: record.definition.kind,
            number: self.number,
            taken: match self.source.numbers() {
                Some(numbers) => Numbers::drawn(numbers),
                None => self.usage.get().keys,
            },
            at_hand: self.at_hand(),
            leases: progress.leases,
            burned: progress.burned,
            rate: progress.rate,
            capacity: record.capacity,
            leased: record.leased(),
            sealed: record.sealed,
            used_up_in: self.used_up_in(&record),
            pool: progress.pool.map(|pool| pool.available),
            low_water: record.tuning.low_water,
            clock_jumps: progress.clock_jumps,
            runs_out_at: self.timeline().map(Timeline::runs_out_at),
            worker: match &self.source {
                Source::Ticks(ticks) => ticks.worker().number(),
                _ => None,
            },
        }
    }

    /// In how many seconds it is used up; for IDs, when their timestamps end.
    fn used_up_in(&self, record: &SpaceRecord) -> Option<f64> {
        if record.sealed {
            return None;
        }
        if let Some(timeline) = self.timeline() {
            let left = timeline.runs_out_at().duration_since(Timestamp::now());
            return Some(left.as_secs_f64().max(0.0));
        }
        record.seconds_left(Timestamp::now())
    }
}

/// The heartbeats of this instance.
#[derive(Debug, Clone, Copy)]
pub struct Heartbeats {
    /// Those that the store has answered.
    pub succeeded: u64,
    /// Those that it has not.
    pub failed: u64,
    /// The time since the last that it has answered; since the start where there was none.
    pub since_last: Duration,
}

impl Service {
    /// How long this instance has been running.
    pub fn uptime(&self) -> Duration {
        self.inner.started.elapsed()
    }

    /// Its heartbeats so far.
    pub fn heartbeats(&self) -> Heartbeats {
        let (succeeded, failed, last) = self.inner.health.beats();
        let since_last = last.unwrap_or(self.inner.started).elapsed();
        Heartbeats { succeeded, failed, since_last }
    }

    /// The calls of the store so far, by operation.
    pub fn store_calls(&self) -> Vec<CallFigures> {
        self.inner.fence.figures()
    }
}
