//! Progress: what a supply task tells others about its work.
//!
//! The task changes it; the heartbeat, metrics and reports read it.

use std::sync::{Arc, Mutex, MutexGuard};

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

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().expect("nothing panics while it is held")
    }
}
