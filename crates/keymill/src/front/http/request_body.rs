//! Bodies of requests: read as a whole, within limits of size, time and memory.
//!
//! Everything but an import, whose lines are read as they come, reads its body here.
//!
//! # Invariants
//!
//! - A connection has at most `BODIES_MAX` bodies in memory (`budget::Line`). Over HTTP/2 the rest waits
//!   unread, and flow control bounds what the client may send meanwhile.
//! - Bodies above [`SMALL_MAX`] share a budget of all connections.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::pieces::SMALL_MAX;
use super::{Problem, State};

/// How long a body may take to arrive.
pub(in crate::front) const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// A body, and the room that it takes until it is dropped.
#[derive(Debug, Default)]
pub(super) struct RequestBody {
    pub(super) bytes: Bytes,
    _place: Option<OwnedSemaphorePermit>,
    _room: Option<OwnedSemaphorePermit>,
}

impl State {
    /// Reads a whole body, within its limits.
    pub(super) async fn read_body(&self, body: Incoming) -> Result<RequestBody, Problem> {
        if body.is_end_stream() {
            return Ok(RequestBody::default());
        }
        let body_max = self.body_max.load(Ordering::Relaxed);
        // Before the body is polled, which would request it from a client that waits for
        // `100 Continue`.
        if body.size_hint().lower() > body_max as u64 {
            return Err(Problem::body_too_large(body_max));
        }
        let late = |_| Problem::body_too_slow();
        timeout(BODY_TIME_MAX, self.read_in_room(body, body_max)).await.map_err(late)?
    }

    async fn read_in_room(&self, body: Incoming, body_max: usize) -> Result<RequestBody, Problem> {
        let place = match &self.line {
            Some(line) => Some(line.place_for_body().await),
            None => None,
        };
        // A body of unknown length may be as long as the limit.
        let len = body.size_hint().upper().and_then(|len| usize::try_from(len).ok());
        let len = len.unwrap_or(body_max).min(body_max);
        let room = if len > SMALL_MAX {
            let room = self.budget.reserve_body(len).await;
            Some(room.ok_or_else(Problem::too_many_large_bodies)?)
        } else {
            None
        };
        match Limited::new(body, body_max).collect().await {
            Ok(body) => Ok(RequestBody { bytes: body.to_bytes(), _place: place, _room: room }),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                Err(Problem::body_too_large(body_max))
            }
            Err(error) => Err(Problem::bad_request("bad_body", error.to_string())),
        }
    }
}
