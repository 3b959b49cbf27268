//! The body of a request that is read as it comes, and may have any length: an import.
//!
//! `imports` and `moving` read theirs here. All other bodies are read as a whole (`request_body`).
//!
//! # Invariants
//!
//! - Of a body, no more is in memory than one frame. Bodies that come too slowly, or for too long, are given up, so
//!   that a client that sends a byte now and then cannot keep one of the few places for imports.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::request_body::BODY_TIME_MAX;
use super::{Problem, State};

/// How long an import may take.
const IMPORT_TIME_MAX: Duration = Duration::from_secs(3_600);
/// How many bytes a second a client must send, on average over [`RATE_WINDOW`] of waiting for it.
const RATE_MIN: u64 = 1_024;
const RATE_WINDOW: Duration = Duration::from_secs(30);

/// How many bytes are read of a body that nobody wants any more.
const DISCARDED_MAX: usize = 64 << 20;

/// A body that is being read, with its place among the imports.
#[derive(Debug)]
pub(super) struct StreamedBody {
    body: Incoming,
    deadline: Instant,
    rate: Rate,
    _place: OwnedSemaphorePermit,
}

impl StreamedBody {
    /// Begins to read a body, if there is a place for one more import.
    pub(super) fn new(state: &State, body: Incoming) -> Result<StreamedBody, Problem> {
        let place = state.imports.clone().try_acquire_owned();
        let place = place.map_err(|_| Problem::too_many_imports())?;
        let deadline = Instant::now() + IMPORT_TIME_MAX;
        Ok(StreamedBody { body, deadline, rate: Rate::default(), _place: place })
    }

    /// The next bytes; `None` behind the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let asked_at = Instant::now();
        let frame = timeout_at(self.deadline.min(asked_at + BODY_TIME_MAX), self.body.frame());
        match frame.await.map_err(|_| Problem::body_too_slow())? {
            None => Ok(None),
            Some(Err(error)) => Err(Problem::bad_request("bad_body", error.to_string())),
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                if !self.rate.suffices(asked_at.elapsed(), data.len() as u64) {
                    return Err(Problem::body_too_slow());
                }
                Ok(Some(data))
            }
        }
    }

    /// Reads on without looking. A client that is still sending would otherwise find its connection closed, and might
    /// not get to read why.
    pub(super) async fn discard(mut self) {
        let mut left = DISCARDED_MAX;
        while let Ok(Some(data)) = self.next().await {
            left = left.saturating_sub(data.len());
            if left == 0 {
                return;
            }
        }
    }
}

/// How fast a body arrives. Only the time spent waiting for the client counts, not the time that the
/// store needs for the lines.
#[derive(Debug, Default)]
struct Rate {
    waited: Duration,
    bytes: u64,
}

impl Rate {
    /// Records bytes that arrived after a wait. Returns whether the client is fast enough so far.
    fn suffices(&mut self, waited: Duration, bytes: u64) -> bool {
        self.waited += waited;
        self.bytes += bytes;
        if self.waited < RATE_WINDOW {
            return true;
        }
        let wanted = RATE_MIN.saturating_mul(self.waited.as_secs());
        let Rate { bytes, .. } = std::mem::take(self);
        bytes >= wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_trickles_is_told_from_one_that_pauses() {
        let second = Duration::from_secs(1);
        let mut trickle = Rate::default();
        assert!((0..29).all(|_| trickle.suffices(second, 1)), "the first window is not over");
        assert!(!trickle.suffices(second, 1));
        let mut steady = Rate::default();
        assert!((0..600).all(|_| steady.suffices(second, RATE_MIN)));
        let mut bursts = Rate::default();
        for _ in 0..100 {
            assert!(bursts.suffices(Duration::ZERO, 65_536), "a burst");
            assert!(bursts.suffices(9 * second, 1), "and a pause");
        }
    }
}
