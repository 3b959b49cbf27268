//! Retries of a change that others were faster than: it begins again, but not for ever.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::StoreError;
use crate::store::values::random_number;

/// How long a change may take, with all its new beginnings.
const CHANGE_MAX: Duration = Duration::from_secs(5);

/// The retries of one change.
#[derive(Debug)]
pub(super) struct Retries {
    lost: u32,
    deadline: Instant,
}

impl Retries {
    pub(super) fn new() -> Retries {
        Retries { lost: 0, deadline: Instant::now() + CHANGE_MAX }
    }

    /// Waits before another try, after one that others were faster than.
    pub(super) async fn another(&mut self) -> Result<(), StoreError> {
        if Instant::now() > self.deadline {
            return Err(StoreError::Unavailable(format!(
                "gave up after {CHANGE_MAX:?} of conflicting writes"
            )));
        }
        // So that both are not again at the same moment.
        let millis_max = u64::from(self.lost.min(6)) * 4 + 2;
        let micros = 200 + random_number() % (millis_max * 1_000);
        tokio::time::sleep(Duration::from_micros(micros)).await;
        self.lost += 1;
        Ok(())
    }
}
