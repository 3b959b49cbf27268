//! One connection of HTTP/1.1 or HTTP/2, perhaps over TLS, served until it ends or is told to end.
//!
//! A worker runs one task of these for each connection. There are no timers in it: `sweep` looks at
//! what a connection does and gives it orders, which it hears at its next poll.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::activity::{Activity, Order};
use super::stream::Counted;
use super::tls::Tls;
use super::under_way::{Answering, UnderWay};
use crate::front::http::{ClientCertificate, Http};
use crate::metrics::tls::TlsFigures;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The most of a header that is read over HTTP/1, and about the most of an answer that is kept for a
/// client that does not read.
const BUFFER_MAX: usize = 16 << 10;
/// The most that one HTTP/2 stream buffers beyond the piece that it sends.
const STREAM_BUFFER_MAX: usize = 64 << 10;
/// The most that the headers of an HTTP/2 request may have, of which there are many at once.
const HEADER_LIST_MAX: u32 = 8 << 10;
/// How much a client may send of a body, and of all bodies of its connection, before somebody reads it.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 128 << 10;
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 64;

/// What a connection, its requests and the sweep share: what answers, and what was done.
///
/// One reference count for each connection: a count that all threads share would slow them all.
#[derive(Debug)]
pub(super) struct Served<F> {
    pub(super) front: F,
    pub(super) activity: Activity,
}

/// A connection as the sweep sees it, whatever it speaks.
pub(super) trait Observed: fmt::Debug + Send + Sync {
    fn activity(&self) -> &Activity;
}

impl<F: fmt::Debug + Send + Sync> Observed for Served<F> {
    fn activity(&self) -> &Activity {
        &self.activity
    }
}

/// What answers on a connection, as far as a handshake has to know.
pub(super) trait Secured {
    /// What is counted of TLS.
    fn tls_figures(&self) -> &TlsFigures;
    /// Who is at the other end.
    fn sender(&self) -> Option<IpAddr>;
    /// Notes that the connection is over TLS, and the certificate of the client, which was verified.
    fn set_secured(&self, certificate: Option<ClientCertificate>);
}

impl Secured for Http {
    fn tls_figures(&self) -> &TlsFigures {
        Http::tls_figures(self)
    }

    fn sender(&self) -> Option<IpAddr> {
        Http::sender(self)
    }

    fn set_secured(&self, certificate: Option<ClientCertificate>) {
        Http::set_secured(self, certificate);
    }
}

/// Any stream but plain TCP. What hyper makes of it is compiled once for all of these.
pub(super) trait OtherStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> OtherStream for S {}

/// Serves a connection over TLS to its end.
pub(super) async fn serve_tls(
    stream: TcpStream,
    tls: Arc<Tls>,
    served: Arc<Served<Http>>,
) -> Result<(), BoxError> {
    let stream: Box<dyn OtherStream> = shake_hands(stream, &tls, &served).await?;
    serve(stream, served).await
}

/// Shakes hands, within the time limits and as long as nothing else is ordered. The client's certificate is known
/// before its first request is read.
pub(super) async fn shake_hands<F: Secured>(
    stream: TcpStream,
    tls: &Tls,
    served: &Served<F>,
) -> Result<Box<TlsStream<TcpStream>>, BoxError> {
    let activity = &served.activity;
    // On the heap, so that a connection does not keep the room of its handshake.
    let mut handshake = Box::pin(async {
        // The limit for silence holds until the first byte.
        if stream.peek(&mut [0]).await? == 0 {
            // As a probe of the port does, which asks for no handshake.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        activity.shakes_hands(true);
        let shaken = tls.shake_hands(stream).await;
        let front = &served.front;
        shaken.inspect_err(|error| tls.note_refused(front.tls_figures(), front.sender(), error))
    });
    let shaken = poll_fn(|context| {
        activity.obeyed_by(context.waker());
        if activity.order() >= Order::End {
            return Poll::Ready(Err("it was told to end during its TLS handshake".into()));
        }
        handshake.as_mut().poll(context).map_err(BoxError::from)
    });
    let (stream, certificate) = shaken.await?;
    activity.shakes_hands(false);
    if let Some(certificate) = &certificate {
        tracing::debug!(names = ?certificate.names, "a client has shown a certificate");
    }
    served.front.set_secured(certificate);
    Ok(Box::new(stream))
}

/// Serves a connection to its end.
pub(super) async fn serve<S>(stream: S, served: Arc<Served<Http>>) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = TokioIo::new(Counted::new(stream, served.clone()));
    let asked = served.clone();
    let answer = service_fn(move |mut request: Request<Incoming>| {
        let under_way = UnderWay::begin(&asked, request.version());
        // At once, and not when hyper polls for it: hyper looks for more from the client in between, and has to
        // do that in a new buffer while the request still refers to the old one.
        if let Some(answer) = under_way.http().answer_now(&mut request) {
            return Answering::Now(Some(under_way.answer(answer)));
        }
        Answering::Later(Box::pin(async move {
            let Ok(answer) = under_way.http().answer(request).await;
            under_way.answer(answer)
        }))
    });
    let mut protocols = auto::Builder::new(TokioExecutor::new());
    protocols.http1().header_read_timeout(None::<Duration>).max_buf_size(BUFFER_MAX);
    protocols
        .http2()
        .max_concurrent_streams(STREAMS_MAX)
        .max_send_buf_size(STREAM_BUFFER_MAX)
        .max_header_list_size(HEADER_LIST_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let mut connection = pin!(protocols.serve_connection(stream, answer));
    let mut is_ending = false;
    poll_fn(|context| {
        let activity = &served.activity;
        activity.obeyed_by(context.waker());
        let ends = match activity.order() {
            Order::Serve => false,
            // An HTTP/2 client is told by GOAWAY, which loses nothing. Over HTTP/1 hyper would
            // close an idle connection at once, under a request that may be on its way: the next
            // answer says that it is the last instead.
            Order::Close => activity.is_http2(),
            Order::End => true,
            Order::Cut => return Poll::Ready(Err("a time limit has passed".into())),
        };
        if ends && !is_ending {
            is_ending = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(context)
    })
    .await
}
