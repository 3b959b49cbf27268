//! Messages as they are received: five bytes with flags and length, and the message itself.
//!
//! Calls with one message read it with [`only`], within the limits that hold for the bodies of HTTP; streams read one
//! after the other.
//!
//! # Invariants
//!
//! - The length of a message is compared with its limit before room is made for it.
//! - A connection has at most `BODIES_MAX` messages of calls in memory (`budget::Line`), and those above [`SMALL_MAX`]
//!   share the budget of all connections.

use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::front::http::Problem;
use crate::front::http::State;
use crate::front::http::pieces::SMALL_MAX;
use crate::front::http::request_body::BODY_TIME_MAX;

/// What stands before a message: whether it is compressed, and its length.
pub(super) const HEAD: usize = 5;

/// The one message of a call, and the room that it takes until it is dropped.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) bytes: Bytes,
    _place: Option<OwnedSemaphorePermit>,
    _room: Option<OwnedSemaphorePermit>,
}

/// The messages of a call, one after the other.
#[derive(Debug)]
pub(super) struct Messages<B = Incoming> {
    body: B,
    /// What was received and belongs to no message that was given out.
    received: BytesMut,
}

/// Reads a call that has one message.
pub(super) async fn only(state: &State, body: Incoming) -> Result<Received, Problem> {
    let late = |_| Problem::body_too_slow();
    timeout(BODY_TIME_MAX, only_in_room(state, body)).await.map_err(late)?
}

async fn only_in_room(state: &State, body: Incoming) -> Result<Received, Problem> {
    let place = match &state.line {
        Some(line) => Some(line.place_for_body().await),
        None => None,
    };
    let len_max = state.body_max.load(Ordering::Relaxed);
    let mut messages = Messages::new(body);
    let missing = || Problem::bad_body("the call has no message".to_owned());
    let len = messages.announced(len_max).await?.ok_or_else(missing)?;
    let room = if len > SMALL_MAX {
        let room = state.budget.reserve_body(len).await;
        Some(room.ok_or_else(Problem::too_many_large_bodies)?)
    } else {
        None
    };
    let bytes = messages.next(len_max).await?.ok_or_else(missing)?;
    if messages.announced(usize::MAX).await?.is_some() {
        return Err(Problem::bad_body("the call has more than one message".to_owned()));
    }
    Ok(Received { bytes, _place: place, _room: room })
}

impl<B> Messages<B>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    pub(super) fn new(body: B) -> Messages<B> {
        Messages { body, received: BytesMut::new() }
    }

    /// Waits for the next message; `None` behind the last. Nothing is lost if it is dropped while it waits.
    pub(super) async fn next(&mut self, len_max: usize) -> Result<Option<Bytes>, Problem> {
        let Some(len) = self.announced(len_max).await? else { return Ok(None) };
        while self.received.len() < HEAD + len {
            if !self.receive().await? {
                return Err(Problem::bad_body("the message ended early".to_owned()));
            }
        }
        self.received.advance(HEAD);
        Ok(Some(self.received.split_to(len).freeze()))
    }

    /// Waits for the length of the next message; `None` behind the last.
    async fn announced(&mut self, len_max: usize) -> Result<Option<usize>, Problem> {
        loop {
            if let Some([flags, len @ ..]) = self.received.first_chunk::<HEAD>() {
                return announced(*flags, *len, len_max).map(Some);
            }
            if !self.receive().await? {
                return match self.received.is_empty() {
                    true => Ok(None),
                    false => Err(Problem::bad_body("the message ended early".to_owned())),
                };
            }
        }
    }

    /// Waits for more; whether there was any.
    async fn receive(&mut self) -> Result<bool, Problem> {
        if self.body.is_end_stream() {
            return Ok(false);
        }
        match self.body.frame().await {
            None => Ok(false),
            Some(Ok(frame)) => {
                // Trailers of a client have no meaning.
                if let Ok(data) = frame.into_data() {
                    self.received.extend_from_slice(&data);
                }
                Ok(true)
            }
            Some(Err(error)) => {
                Err(Problem::bad_body(format!("the message could not be read: {error}")))
            }
        }
    }
}

/// The length in the head of a message, if the message can be read.
fn announced(flags: u8, len: [u8; 4], len_max: usize) -> Result<usize, Problem> {
    match flags {
        0 => {}
        1 => {
            return Err(Problem::unsupported_media_type("application/grpc", "compressed messages"));
        }
        _ => {
            return Err(Problem::bad_body(format!("a message has the unknown flags {flags:#04x}")));
        }
    }
    let len = usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX);
    if len > len_max { Err(Problem::body_too_large(len_max)) } else { Ok(len) }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;

    use super::*;

    /// A body in pieces of the test's choice.
    struct Pieces(VecDeque<&'static [u8]>);

    impl hyper::body::Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(Bytes::from_static(piece)))))
        }
    }

    /// All messages of a body, or the code of what is wrong with it.
    async fn read(pieces: &[&'static [u8]]) -> Result<Vec<Bytes>, &'static str> {
        let mut messages = Messages::new(Pieces(pieces.iter().copied().collect()));
        let mut all = Vec::new();
        while let Some(message) = messages.next(10).await.map_err(|problem| problem.code())? {
            all.push(message);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn messages_are_found_wherever_their_bytes_are_cut() {
        let all: &[u8] = b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x01z";
        let expected: Vec<Bytes> = [&b"abc"[..], b"", b"z"].map(Bytes::from_static).to_vec();
        assert_eq!(read(&[all]).await.unwrap(), expected);
        for at in 0..all.len() {
            assert_eq!(read(&[&all[..at], b"", &all[at..]]).await.unwrap(), expected, "{at}");
        }
        let single: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(read(&single).await.unwrap(), expected);
        assert_eq!(read(&[]).await.unwrap(), Vec::<Bytes>::new());
    }

    #[tokio::test]
    async fn what_is_not_a_message_is_refused() {
        for (body, code) in [
            (&b"\0\0\0\0"[..], "bad_body"),
            (b"\0\0\0\0\x02a", "bad_body"),
            (b"\x02\0\0\0\0", "bad_body"),
            (b"\xff\0\0\0\0", "bad_body"),
            (b"\x01\0\0\0\0", "unsupported_media_type"),
            (b"\0\0\0\0\x0b12345678901", "body_too_large"),
            (b"\0\xff\xff\xff\xff", "body_too_large"),
            (b"\0\0\0\0\0\0", "bad_body"),
        ] {
            assert_eq!(read(&[body]).await, Err(code), "{body:?}");
        }
    }
}
