//! One connection: HTTP/1.1 or HTTP/2, served until it ends, goes idle or the server drains.

use std::io;
use std::net::TcpStream as StdTcpStream;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{interval, sleep, timeout};

use super::ServerLimits;
use crate::front::http::Http;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Serves a connection to its end.
pub(super) async fn serve(
    stream: StdTcpStream,
    http: Http,
    limits: ServerLimits,
    mut drain: watch::Receiver<bool>,
) -> Result<(), BoxError> {
    let stream = TcpStream::from_std(stream)?;
    let is_http2 = tokio::select! {
        found = timeout(limits.header_time_max, speaks_http2(&stream)) => found??,
        // Nothing was asked yet, so there is nothing to finish.
        _ = drain.wait_for(|drain| *drain) => return Ok(()),
    };
    // One reference count a connection: a count that all threads share would slow them all.
    let shared = Arc::new((http, Activity::default()));
    let stream = TokioIo::new(Counted { stream, shared: shared.clone() });
    let activity = &shared.1;
    let answer = service_fn(|request| {
        let shared = shared.clone();
        async move {
            let (http, activity) = &*shared;
            let _under_way = UnderWay::new(activity);
            http.answer(request).await
        }
    });
    if is_http2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.idle_time_max)
            .max_concurrent_streams(64)
            .serve_connection(stream, answer);
        watch_over(connection, http2::Connection::graceful_shutdown, activity, limits, drain).await
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time_max)
            .pipeline_flush(true)
            .serve_connection(stream, answer);
        watch_over(connection, http1::Connection::graceful_shutdown, activity, limits, drain).await
    }
}

/// What a connection does, counted so that idleness shows without a clock read per request.
#[derive(Debug, Default)]
struct Activity {
    started: AtomicU64,
    ended: AtomicU64,
    bytes_written: AtomicU64,
}

impl Activity {
    /// Whether a request is being answered.
    fn is_busy(&self) -> bool {
        self.started.load(Ordering::Relaxed) != self.ended.load(Ordering::Relaxed)
    }

    /// Changes whenever anything happens.
    fn progress(&self) -> (u64, u64) {
        (self.started.load(Ordering::Relaxed), self.bytes_written.load(Ordering::Relaxed))
    }
}

/// A request that is being answered, until it is dropped, also when it is given up half-way.
struct UnderWay<'a> {
    activity: &'a Activity,
}

impl<'a> UnderWay<'a> {
    fn new(activity: &'a Activity) -> UnderWay<'a> {
        activity.started.fetch_add(1, Ordering::Relaxed);
        UnderWay { activity }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.activity.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Drives a connection until it ends. One on which nothing has happened for a whole period is
/// asked to end; one that then still does nothing, because its client does not read what it asked
/// for, is cut off. A draining server asks it to end, too, and cuts it off by itself.
async fn watch_over<C>(
    connection: C,
    end: impl Fn(Pin<&mut C>),
    activity: &Activity,
    limits: ServerLimits,
    mut drain: watch::Receiver<bool>,
) -> Result<(), BoxError>
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = pin!(connection);
    let mut periods = interval(limits.idle_time_max);
    periods.tick().await;
    let mut seen = activity.progress();
    let mut ending = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => return Ok(ended?),
            _ = periods.tick() => {
                let progress = activity.progress();
                if progress == seen && !activity.is_busy() {
                    if ending {
                        return Err("the client does not read".into());
                    }
                    ending = true;
                    end(connection.as_mut());
                }
                seen = progress;
            }
            _ = drain.wait_for(|drain| *drain), if !ending => {
                ending = true;
                end(connection.as_mut());
            }
        }
    }
}

/// A stream that counts what it writes.
struct Counted {
    stream: TcpStream,
    shared: Arc<(Http, Activity)>,
}

impl Counted {
    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.shared.1.bytes_written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Whether the client opens with HTTP/2's preface. Looks without taking.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    const PREFACE: &[u8] = b"PRI";
    let mut start = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut start).await?;
        if count == 0 || start[..count] != PREFACE[..count] {
            return Ok(false);
        }
        if count == PREFACE.len() {
            return Ok(true);
        }
        // One or two letters so far; the next ones are on their way.
        sleep(Duration::from_millis(1)).await;
    }
}
