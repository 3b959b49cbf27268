//! Retry: how soon to ask again after a failure.
//!
//! The supply tasks wait by it, and `serve` while its store is not there yet. Nothing here sleeps, or
//! knows what time it is.

use std::time::Duration;

use tokio::time::Instant;

const RETRY_MIN: Duration = Duration::from_millis(50);

const RETRY_MAX: Duration = Duration::from_secs(2);

/// When to ask again after a failure.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// Not before then; `None` where nothing has failed.
    pub(crate) at: Option<Instant>,
    /// Whether a request since the last success was left in doubt.
    pub(crate) doubted: bool,
    pause: Duration,
}

impl Retry {
    pub(crate) fn again(&mut self, now: Instant, doubted: bool) {
        self.doubted |= doubted;
        self.pause = (self.pause * 2).clamp(RETRY_MIN, RETRY_MAX);
        // Jitter, so that instances that lost one store do not return to it in step.
        let mut random = [0_u8; 1];
        let _ = getrandom::fill(&mut random);
        self.at = Some(now + self.pause.mul_f64(0.5 + f64::from(random[0]) / 512.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_doubt_the_smallest_size_is_asked_for_until_one_succeeds() {
        let mut retry = Retry::default();
        retry.again(Instant::now(), true);
        retry.again(Instant::now(), false);
        assert!(retry.doubted && retry.pause <= RETRY_MAX);
    }
}
