//! The server: from a bound socket to answered requests, and to an orderly end.
//!
//! One thread accepts; the others each run a single-threaded runtime and keep the connections
//! they are given, so that a request never changes threads. Connections are capped, and every
//! wait on a client has a time limit.

mod connection;

use std::io;
use std::net::TcpStream as StdTcpStream;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

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
    for worker in workers {
        worker.end().await;
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
    thread: JoinHandle<()>,
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
                    let Connection { stream, _place } = connection;
                    if let Err(error) = connection::serve(stream, http, limits, drain).await {
                        tracing::debug!("a connection ended early: {error}");
                    }
                });
            }
            // The server is gone: what it has not waited for has run out of time.
        };
        let thread = std::thread::Builder::new()
            .name(format!("http-{number}"))
            .spawn(move || runtime.block_on(work))?;
        Ok(Worker { connections, thread })
    }

    /// Cuts off what is left, and lets go of the service.
    async fn end(self) {
        drop(self.connections);
        let _ = tokio::task::spawn_blocking(|| self.thread.join()).await;
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
