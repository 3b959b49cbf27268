//! A request under way: from its complete header to the last piece of its answer.
//!
//! `connection` makes one for each request. It counts, also when the request is given up half-way,
//! and says so on the last answer of a connection. It never looks into a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response, Version};

use super::activity::Order;
use super::connection::Served;
use crate::front::http::{Body, Http};

/// A request that was begun and is not finished, until this is dropped.
pub(super) struct UnderWay {
    served: Arc<Served<Http>>,
    version: Version,
    is_answered: bool,
}

impl UnderWay {
    /// Begins a request.
    pub(super) fn begin(served: &Arc<Served<Http>>, version: Version) -> UnderWay {
        served.activity.request_started(version == Version::HTTP_2);
        UnderWay { served: served.clone(), version, is_answered: false }
    }

    /// Who answers it.
    pub(super) fn http(&self) -> Front<'_> {
        Front { served: &self.served }
    }

    /// Answers it. The answer is under way until hyper lets go of its body.
    pub(super) fn answer<B>(mut self, mut answer: Response<B>) -> Response<Answer<B>> {
        self.is_answered = true;
        self.served.activity.request_answered();
        // HTTP/2 has a frame for this.
        if self.version <= Version::HTTP_11 && self.served.activity.order() >= Order::Close {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            // Of another version than the request, hyper would add `keep-alive` for a client of HTTP/1.0
            // that asked for it.
            *answer.version_mut() = self.version;
        }
        answer.map(|body| Answer { body, under_way: self })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.is_answered {
            self.served.activity.request_answered();
        }
        self.served.activity.request_finished();
    }
}

/// The front as a request under way asks it: the length of the body is noted on the way.
pub(super) struct Front<'a> {
    served: &'a Served<Http>,
}

impl Front<'_> {
    /// Answers a request at once, where that is possible. Every request is asked for here first.
    pub(super) fn answer_now(&self, request: &mut Request<Incoming>) -> Option<Response<Body>> {
        if let Some(len) = request.body().size_hint().exact() {
            self.served.activity.body_announced(len);
        }
        self.served.front.answer_now(request)
    }

    /// Answers a request.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        self.served.front.answer(request).await
    }
}

/// An answer that is there already, or is being made. Those that are being made are on the heap, so that
/// the others, which are nearly all, are moved about in few bytes.
pub(super) enum Answering {
    Now(Option<Response<Answer<Body>>>),
    Later(Pin<Box<dyn Future<Output = Response<Answer<Body>>> + Send>>),
}

impl Future for Answering {
    type Output = Result<Response<Answer<Body>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Answering::Now(answer) => Poll::Ready(Ok(answer.take().expect("it is asked for once"))),
            Answering::Later(answer) => answer.as_mut().poll(context).map(Ok),
        }
    }
}

/// The body of an answer, whose pieces are counted.
pub(super) struct Answer<B> {
    body: B,
    under_way: UnderWay,
}

impl<B: HttpBody + Unpin> HttpBody for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let piece = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.under_way.served.activity.piece_made();
        Poll::Ready(piece)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
