//! Patience: repeats what failed for a reason that passes, such as the restart of a server, for a bounded time.
//!
//! Only what is safe to repeat may be called this way: the answer of an attempt that did its work may be lost.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The pause before the next attempt: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Tries again for up to `time_max` while the failure is a temporary one.
pub(crate) async fn retry<T, E: Display, F: Future<Output = Result<T, E>>>(
    time_max: Duration,
    is_temporary: impl Fn(&E) -> bool,
    attempt: impl Fn() -> F,
) -> Result<T, E> {
    let deadline = Instant::now() + time_max;
    let mut pause = PAUSE_MIN;
    loop {
        let error = match attempt().await {
            Err(error) if is_temporary(&error) && Instant::now() + pause < deadline => error,
            done => return done,
        };
        if pause == PAUSE_MIN {
            tracing::warn!("trying again for up to {time_max:?}: {error}");
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
