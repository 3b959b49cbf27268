//! The server: from a bound socket to answered requests, and to an orderly end.
//!
//! One thread accepts; the others each run a single-threaded runtime and keep the connections
//! they are given, so that a request never changes threads. Connections are capped, and every
//! wait on a client has a time limit.

use std::io;
use std::net::TcpStream as StdTcpStream;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{interval, sleep, timeout};

use crate::front::http::Http;

/// How much a client may ask of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections open at once; more wait to be accepted.
    pub connections_max: usize,
    /// How long a request's headers may take.
    pub header_time_max: Duration,
    /// How long a connection may stay open with nothing to do.
    pub idle_time_max: Duration,
    /// How long requests under way may take once the server stops.
    pub drain_time_max: Duration,
    /// Threads that answer requests.
    pub threads: usize,
}

/// Serves until `shutdown` resolves and the requests under way are answered, or until
/// `drain_time_max` has passed.
pub async fn run(
    listener: TcpListener,
    http: Http,
    limits: ServerLimits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (draining, drain) = watch::channel(false);
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let mut workers = Vec::new();
    for number in 0..limits.threads.max(1) {
        workers.push(Worker::start(number, http.clone(), limits, drain.clone())?);
    }
    let mut shutdown = pin!(shutdown);
    let mut turn = 0;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok(connection) => {
                turn = (turn + 1) % workers.len();
                // A worker ends only when this loop does.
                let _ = workers[turn].connections.send(connection);
            }
            Err(error) => {
                // Out of file descriptors, most likely: they come back as connections close.
                tracing::warn!("cannot accept a connection: {error}");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    draining.send_replace(true);
    let all = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    if timeout(limits.drain_time_max, places.acquire_many(all)).await.is_err() {
        let open = limits.connections_max - places.available_permits();
        tracing::warn!(open, "connections did not end in time and are cut off");
    }
    Ok(())
}

struct Connection {
    stream: StdTcpStream,
    _place: OwnedSemaphorePermit,
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<Connection> {
    let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
    let (stream, _) = listener.accept().await?;
    // Keys are small: waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    Ok(Connection { stream: stream.into_std()?, _place: place })
}

/// A thread that keeps and answers its share of the connections.
struct Worker {
    connections: mpsc::UnboundedSender<Connection>,
}

impl Worker {
    fn start(
        number: usize,
        http: Http,
        limits: ServerLimits,
        drain: watch::Receiver<bool>,
    ) -> io::Result<Worker> {
        // Unbounded, but never longer than `connections_max`: each entry holds a place.
        let (connections, mut accepted) = mpsc::unbounded_channel::<Connection>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = async move {
            while let Some(connection) = accepted.recv().await {
                let (http, drain) = (http.clone(), drain.clone());
                tokio::spawn(async move {
                    if let Err(error) = serve(connection, http, limits, drain).await {
                        tracing::debug!("a connection ended early: {error}");
                    }
                });
            }
            // The server is gone: what it has not waited for has run out of time.
        };
        std::thread::Builder::new()
            .name(format!("http-{number}"))
            .spawn(move || runtime.block_on(work))?;
        Ok(Worker { connections })
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn serve(
    connection: Connection,
    http: Http,
    limits: ServerLimits,
    drain: watch::Receiver<bool>,
) -> Result<(), BoxError> {
    let Connection { stream, _place } = connection;
    let stream = TcpStream::from_std(stream)?;
    let is_http2 = timeout(limits.header_time_max, speaks_http2(&stream)).await??;
    // One reference count a connection: a count that all threads share would slow them all.
    let shared = Arc::new((http, Activity::default()));
    let activity = &shared.1;
    let answer = service_fn(|request| {
        let shared = shared.clone();
        async move {
            let (http, activity) = &*shared;
            activity.started.fetch_add(1, Ordering::Relaxed);
            let answer = http.answer(request).await;
            activity.ended.fetch_add(1, Ordering::Relaxed);
            answer
        }
    });
    if is_http2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.idle_time_max)
            .max_concurrent_streams(64)
            .serve_connection(TokioIo::new(stream), answer);
        watch_over(connection, http2::Connection::graceful_shutdown, activity, limits, drain).await
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time_max)
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), answer);
        watch_over(connection, http1::Connection::graceful_shutdown, activity, limits, drain).await
    }
}

/// Requests of one connection, so that idleness shows without a clock read per request.
#[derive(Debug, Default)]
struct Activity {
    started: AtomicU64,
    ended: AtomicU64,
}

/// Drives a connection until it ends, and asks it to end when it has been idle for a whole
/// period or when the server drains.
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
    let mut seen = 0;
    let mut ending = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => return Ok(ended?),
            // A client that does not read what it asked for must not keep its place for ever.
            () = sleep(limits.idle_time_max), if ending => return Err("the client does not read".into()),
            _ = periods.tick(), if !ending => {
                let started = activity.started.load(Ordering::Relaxed);
                let busy = started != activity.ended.load(Ordering::Relaxed);
                if started == seen && !busy {
                    ending = true;
                    end(connection.as_mut());
                }
                seen = started;
            }
            _ = drain.wait_for(|drain| *drain), if !ending => {
                ending = true;
                end(connection.as_mut());
            }
        }
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

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            connections_max: 10_000,
            header_time_max: Duration::from_secs(30),
            idle_time_max: Duration::from_secs(75),
            drain_time_max: Duration::from_secs(10),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
