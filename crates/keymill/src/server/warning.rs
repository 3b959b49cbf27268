//! Warnings about what clients do: said now and then, however often it happens, so that nobody can fill the log.

use std::time::Duration;

use tokio::time::Instant;

/// How often the same is said.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Something to be said now and then.
#[derive(Debug, Default)]
pub(super) struct Warning {
    count: u64,
    said_at: Option<Instant>,
}

impl Warning {
    /// Notes that it has happened. Where it is time to say so, how often it did since the last time.
    pub(super) fn note(&mut self) -> Option<u64> {
        self.count += 1;
        if self.said_at.is_some_and(|at| at.elapsed() < WARN_EVERY) {
            return None;
        }
        self.said_at = Some(Instant::now());
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_warning_comes_at_most_every_ten_seconds_with_how_often() {
        let mut warning = Warning::default();
        assert_eq!(warning.note(), Some(1));
        assert_eq!((warning.note(), warning.note()), (None, None));
        tokio::time::advance(WARN_EVERY).await;
        assert_eq!(warning.note(), Some(3));
    }
}
