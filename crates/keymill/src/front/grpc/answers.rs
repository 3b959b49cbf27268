//! Answers: a message and its status, a status alone, or a stream of messages that is made while it is read.
//!
//! Nothing here knows what a message means.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body as AxumBody;
use bytes::{BufMut, Bytes};
use http_body_util::{BodyExt, Either, Full};
use hyper::Response;
use hyper::body::{Body as HttpBody, Frame};
use hyper::header::{self, HeaderMap, HeaderValue};
use prost::Message;
use tonic::Status;

use super::messages::HEAD;
use super::status;
use crate::front::http::budget::Whole;
use crate::front::http::pieces::{self, SMALL_MAX};
use crate::front::http::{Body, Problem, State};

static GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// The answer with a message. One that is large counts against the budget, and is refused where there is no room.
pub(super) fn answer_with(
    state: &State,
    message: &impl Message,
) -> Result<Response<Body>, Problem> {
    let bytes = framed(message);
    if bytes.len() <= SMALL_MAX {
        return Ok(small(bytes.into(), HeaderMap::new()));
    }
    pieces::counted(state, large(bytes))
}

/// The same of a message for which there is room already.
pub(super) fn answer_in(state: &State, bytes: Vec<u8>, room: Option<Whole>) -> Response<Body> {
    match room {
        Some(room) => pieces::sliced(state, large(bytes), room),
        None => small(bytes.into(), HeaderMap::new()),
    }
}

/// The answer with a message whose bytes are few; `headers` is an empty map that can be used.
pub(super) fn small(bytes: Bytes, headers: HeaderMap) -> Response<Body> {
    with_body(AxumBody::new(Answered { message: Some(bytes), is_ended: false }), headers)
}

fn large(bytes: Vec<u8>) -> Response<Body> {
    let trailers = ready(Some(Ok::<_, Infallible>(status::ok())));
    with_body(
        AxumBody::new(Full::new(Bytes::from(bytes)).with_trailers(trailers)),
        HeaderMap::new(),
    )
}

/// The answer with a stream of messages.
pub(super) fn stream<S: Steps>(steps: S) -> Response<Body> {
    let making = Some(Box::pin(steps.step()) as Making<S>);
    with_body(AxumBody::new(Stepped { making }), HeaderMap::new())
}

/// An answer that is nothing but a status.
pub(super) fn refusal(status: &Status) -> Response<Body> {
    let mut answer = Response::new(Either::Left(Full::default()));
    *answer.headers_mut() = status::headers(status);
    answer.headers_mut().insert(header::CONTENT_TYPE, GRPC.clone());
    answer
}

fn with_body(body: AxumBody, mut headers: HeaderMap) -> Response<Body> {
    headers.insert(header::CONTENT_TYPE, GRPC.clone());
    let mut answer = Response::new(Either::Right(body));
    *answer.headers_mut() = headers;
    answer
}

/// A message with what stands before it.
pub(super) fn framed(message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + message.encoded_len());
    put_framed(message, &mut bytes);
    bytes
}

/// Adds a message with what stands before it.
pub(super) fn put_framed(message: &impl Message, bytes: &mut Vec<u8>) {
    let start = begin_frame(bytes);
    message.encode_raw(bytes);
    end_frame(bytes, start);
}

/// Adds what stands before a message whose length is not known yet; where the message begins.
pub(super) fn begin_frame(bytes: &mut Vec<u8>) -> usize {
    bytes.put_bytes(0, HEAD);
    bytes.len()
}

/// Writes the length of a message, which is complete, before it.
pub(super) fn end_frame(bytes: &mut [u8], start: usize) {
    end_frame_before(bytes, start, 0);
}

/// The same of a message whose last bytes are sent behind these.
pub(super) fn end_frame_before(bytes: &mut [u8], start: usize, rest: usize) {
    let len = bytes.len() - start + rest;
    let len = u32::try_from(len).expect("what fits memory here fits a message");
    bytes[start - 4..start].copy_from_slice(&len.to_be_bytes());
}

/// One message, and the status OK.
struct Answered {
    message: Option<Bytes>,
    is_ended: bool,
}

impl HttpBody for Answered {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(message) = self.message.take() {
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if self.is_ended {
            return Poll::Ready(None);
        }
        self.is_ended = true;
        Poll::Ready(Some(Ok(Frame::trailers(status::ok()))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended
    }
}

/// What a stream of messages is made by.
pub(super) trait Steps: Sized + Send + 'static {
    /// Waits for the next frame; nothing follows the trailers. A frame that was made is returned by the same poll.
    fn step(self) -> impl Future<Output = (Frame<Bytes>, Option<Self>)> + Send;
}

type Making<S> = Pin<Box<dyn Future<Output = (Frame<Bytes>, Option<S>)> + Send>>;

/// A body that is made while it is read.
struct Stepped<S> {
    /// The next frame; `None` behind the last.
    making: Option<Making<S>>,
}

impl<S: Steps> HttpBody for Stepped<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(making) = &mut self.making else { return Poll::Ready(None) };
        let (frame, rest) = ready!(making.as_mut().poll(context));
        self.making = rest.map(|steps| Box::pin(steps.step()) as Making<S>);
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.making.is_none()
    }
}
