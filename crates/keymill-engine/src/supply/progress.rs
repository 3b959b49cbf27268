//! Progress: what a supply task tells others about its work.
//!
//! The task changes it; the heartbeat, metrics and reports read it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use crate::store::LeaseId;

/// What a supply task tells others.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// The last lease granted.
    pub last_lease: Option<LeaseId>,
    /// Keys a second at present.
    pub rate: f64,
    /// Leases granted so far.
    pub leases: u64,
    /// Leases burned because their commit was in doubt.
    pub burned: u64,
    /// How often the clock of this host was set, as far as a snowflake space has noticed.
    pub clock_jumps: u64,
    /// The pool of a space that has one.
    pub pool: Option<PoolLevel>,
}

/// How full a pool is, as far as this instance knows.
#[derive(Debug, Clone, Copy)]
pub struct PoolLevel {
    /// How many keys are available in it.
    pub available: u64,
    /// When that was so.
    pub at: Instant,
}

/// The same, shared between the task and those who read it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedProgress(Arc<Mutex<Progress>>);

impl SharedProgress {
    /// As of now.
    pub(crate) fn get(&self) -> Progress {
        *self.lock()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
    }

    /// Notes how many keys are available in the pool.
    pub(crate) fn note_pool(&self, available: u64) {
        let pool = PoolLevel { available, at: Instant::now() };
        self.change(|progress| progress.pool = Some(pool));
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().expect("nothing panics while it is held")
    }
}
