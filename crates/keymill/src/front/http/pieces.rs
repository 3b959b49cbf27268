//! Large answers: their text is made in pieces, as the client reads.
//!
//! `take` passes on takes whose text may exceed [`SMALL_MAX`]. Every key is drawn, and on record where
//! it has to be, before the status line; only the text is made later. [`Pieces`] is the body: hyper asks
//! it for more while the connection has room, and each piece waits for the budget and for its turn.
//!
//! # Invariants
//!
//! - A key whose text was made is in the piece that is returned by the same poll; it never comes back.
//!   Dropping the body gives the mill what was not made.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body as AxumBody;
use bytes::{BufMut, Bytes};
use http_body_util::Either;
use hyper::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use jiff::Timestamp;
use keymill_engine::operations::turn::turn;
use keymill_engine::operations::{Space, Unwritten};

use super::budget::{Account, PIECE_BYTES, Whole};
use super::{Body, Problem, State, full};
use crate::access::Counted;

/// Answers up to this size are made at once, and never wait.
pub(in crate::front) const SMALL_MAX: usize = 16 << 10;

/// How long a request that needs much memory waits for it.
pub(in crate::front) const ROWS_WAIT_MAX: Duration = Duration::from_secs(10);
/// What a key that has to be put on record takes in memory until it is, besides its text.
pub(in crate::front) const ROW_BYTES: usize = 256;

/// What a string of a request takes in memory until it is answered, at most: as the input of a digest, it
/// has candidates, a row and a key.
const STRING_BYTES: usize = 1 << 10;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Making = Pin<Box<dyn Future<Output = Result<(Writer, Bytes), BoxError>> + Send>>;

/// How keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One per line.
    Lines,
    /// JSON strings, in an object with the keyspace's name.
    Strings,
    /// The same with JSON numbers.
    Numbers,
}

impl Form {
    /// How many bytes the keys of a take may need.
    pub(super) fn len_max(self, key_len_max: usize, count: u32) -> usize {
        (key_len_max + self.around()).saturating_mul(count as usize)
    }

    /// How many bytes a key has around it.
    fn around(self) -> usize {
        match self {
            Form::Lines | Form::Numbers => 1,
            Form::Strings => 3,
        }
    }

    fn content_type(self) -> &'static str {
        if self == Form::Lines { "text/plain; charset=utf-8" } else { "application/json" }
    }

    /// What comes before the first key. Names need no escapes in JSON.
    fn head(self, space: &Space) -> String {
        match self {
            Form::Lines => String::new(),
            Form::Strings | Form::Numbers => format!("{{\"space\":\"{}\",\"keys\":[", space.name),
        }
    }

    fn put(self, text: &mut Vec<u8>, key: &[u8]) {
        match self {
            Form::Lines => {
                text.put_slice(key);
                text.put_u8(b'\n');
            }
            Form::Strings => {
                text.put_u8(b'"');
                text.put_slice(key);
                text.put_slice(b"\",");
            }
            Form::Numbers => {
                text.put_slice(key);
                text.put_u8(b',');
            }
        }
    }

    /// What takes the place of the comma behind the last key.
    fn tail(self, expires_at: Option<Timestamp>) -> Cow<'static, str> {
        match (self, expires_at) {
            (Form::Lines, _) => "".into(),
            (_, None) => "]}\n".into(),
            (_, Some(at)) => tail(at).into(),
        }
    }
}

/// What comes behind the last key of an object, where the first of its keys expires then.
pub(super) fn tail(expires_at: Timestamp) -> String {
    format!("],\"expires_at\":\"{expires_at}\"}}\n")
}

/// Answers a large take.
pub(super) async fn take(
    state: &State,
    space: &Arc<Space>,
    count: u32,
    caller: &str,
    form: Form,
    counted: Counted,
) -> Result<Response<Body>, Problem> {
    let rows = if space.takes_rows() {
        let bytes = form.len_max(space.key_len_max(), count) + ROW_BYTES * count as usize;
        let room = state.budget.reserve_whole(bytes, ROWS_WAIT_MAX).await;
        Some(room.ok_or_else(Problem::too_many_large_answers)?)
    } else {
        None
    };
    let unwritten = state.service.take_later(space, count, caller).await?;
    counted.keep(unwritten.count());
    let account = state.budget.open(state.line.clone());
    let rows = rows.map(|rows| rows.settle(unwritten.text_in_memory(), &account));
    let head = form.head(space).into_bytes();
    let around = u64::from(unwritten.count()) * form.around() as u64;
    // There is no comma after the last key.
    let tail = form.tail(unwritten.expires_at());
    let ends = (head.len() + tail.len()) as u64 - u64::from(form != Form::Lines);
    let left = unwritten.bytes() + around + ends;
    let writer = Writer { unwritten, form, head, tail, account, rows };
    let pieces = Pieces { making: Some(Box::pin(writer.piece())), left };
    let mut answer = full(form.content_type(), Bytes::new());
    *answer.body_mut() = Either::Right(AxumBody::new(pieces));
    Ok(answer)
}

/// Counts an answer that is in memory as a whole, such as a list, against the budget until it is sent.
/// Where there is no room, it is dropped and refused: so it must be one that can be asked for again.
pub(in crate::front) fn counted(
    state: &State,
    answer: Response<Body>,
) -> Result<Response<Body>, Problem> {
    let left = answer.body().size_hint().exact().unwrap_or(0);
    let len = usize::try_from(left).unwrap_or(usize::MAX);
    if len <= SMALL_MAX {
        return Ok(answer);
    }
    let room = state.budget.try_reserve_whole(len).ok_or_else(Problem::too_many_large_answers)?;
    Ok(sliced(state, answer, room))
}

/// Room for the work on a request that consists of many strings, and for its answer, which cannot be
/// dropped and asked for again; `None` where that is little.
pub(super) async fn room_for_strings(state: &State, body: &[u8]) -> Result<Option<Whole>, Problem> {
    // Every string of JSON has two.
    room_for(state, body.iter().filter(|byte| **byte == b'"').count() / 2).await
}

/// The same, where it is known how many there are.
pub(in crate::front) async fn room_for(
    state: &State,
    strings: usize,
) -> Result<Option<Whole>, Problem> {
    let bytes = strings * STRING_BYTES;
    if bytes <= SMALL_MAX {
        return Ok(None);
    }
    let room = state.budget.reserve_whole(bytes, ROWS_WAIT_MAX).await;
    room.map(Some).ok_or_else(Problem::too_many_large_answers)
}

/// An answer that is in memory as a whole, with the room that it has until it is sent.
pub(in crate::front) fn sliced(
    state: &State,
    answer: Response<Body>,
    room: Whole,
) -> Response<Body> {
    let left = answer.body().size_hint().exact().unwrap_or(0);
    let account = state.budget.open(state.line.clone());
    let room = Arc::new(room.settle(usize::try_from(left).unwrap_or(usize::MAX), &account));
    answer.map(|body| {
        let slices = Slices { body, rest: Bytes::new(), left, account, room };
        Either::Right(AxumBody::new(slices))
    })
}

/// A body that is made while it is read.
struct Pieces {
    /// The next piece; `None` behind the last.
    making: Option<Making>,
    /// How many bytes are still to come.
    left: u64,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(making) = &mut self.making else {
            return Poll::Ready(None);
        };
        let made = ready!(making.as_mut().poll(context));
        self.making = None;
        let (writer, piece) = match made {
            Ok(made) => made,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        self.left = self.left.saturating_sub(piece.len() as u64);
        if writer.unwritten.count() > 0 {
            self.making = Some(Box::pin(writer.piece()));
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.making.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// What is left of an answer.
struct Writer {
    unwritten: Unwritten,
    form: Form,
    /// Empty once it is written.
    head: Vec<u8>,
    tail: Cow<'static, str>,
    account: Arc<Account>,
    /// Room for the text of rows, which stay in memory to the end.
    rows: Option<Whole>,
}

impl Writer {
    /// Makes the next piece, when there is room for it and it is this answer's turn. It ends with the
    /// poll that makes the text.
    async fn piece(mut self) -> Result<(Writer, Bytes), BoxError> {
        let room = self.account.reserve(self.rows.as_ref()).await;
        let mut text = Vec::new();
        // A piece is never empty, even if all its keys are blocked.
        while text.is_empty() {
            turn().await;
            self.write(&mut text)?;
        }
        Ok((self, room.hold(text)))
    }

    fn write(&mut self, text: &mut Vec<u8>) -> Result<(), BoxError> {
        text.reserve_exact(PIECE_BYTES);
        text.append(&mut self.head);
        let form = self.form;
        let space = PIECE_BYTES.saturating_sub(text.len() + self.tail.len());
        let count = space / (self.unwritten.key_len_max() + form.around());
        let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        self.unwritten.write(count, |key| form.put(text, key))?;
        if self.unwritten.count() == 0 && form != Form::Lines {
            text.pop();
            text.extend_from_slice(self.tail.as_bytes());
        }
        Ok(())
    }
}

/// A body that is in memory already, in slices, so that it shows how much of it was sent.
struct Slices {
    body: Body,
    /// The part that was received and not yet given out.
    rest: Bytes,
    left: u64,
    account: Arc<Account>,
    /// Given back with the last slice.
    room: Arc<Whole>,
}

impl HttpBody for Slices {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
            }
        }
        let len = self.rest.len().min(PIECE_BYTES);
        let bytes = self.rest.split_to(len);
        self.left = self.left.saturating_sub(len as u64);
        let slice = Slice { bytes, account: self.account.clone(), _room: self.room.clone() };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(slice)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

struct Slice {
    bytes: Bytes,
    account: Arc<Account>,
    _room: Arc<Whole>,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.account.moved();
    }
}
