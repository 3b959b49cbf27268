//! The server: from a bound socket to answered requests, and to an orderly end.
//!
//! One thread accepts; the others each run a single-threaded runtime and keep the connections
//! they are given, so that a request never changes threads. Connections are capped, in all and for
//! each address, and every wait on a client has a time limit, which one sweep per thread keeps.

mod accept;
mod activity;
mod connection;
mod places;
mod proxy_protocol;
mod stream;
mod sweep;
mod under_way;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

pub use self::places::RESERVE;

use self::accept::{Acceptor, Connection};
use self::activity::Order;
use self::connection::Served;
use self::sweep::Sweep;
use crate::front::http::Http;

/// How long connections stay open for a request that is on its way when the server stops.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(2);

/// After how many polls of connections that have more to do a worker looks for news on the others. Those
/// who pipeline get many answers in one poll.
const POLLS_A_LOOK: u32 = 16;

/// How much a client may ask of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections open at once; beyond them only health checks and metrics are answered.
    pub connections_max: usize,
    /// How long a new connection may send nothing.
    pub first_byte_time_max: Duration,
    /// How long a request's headers may take, from their first byte on.
    pub header_time_max: Duration,
    /// How long a connection may stay open with nothing to do.
    pub idle_time_max: Duration,
    /// How long the server, told to stop, goes on as usual but for saying that it is not ready.
    pub drain_delay: Duration,
    /// How long requests under way may take after that.
    pub drain_time_max: Duration,
    /// Threads that answer requests.
    pub threads: usize,
}

/// Serves until `shutdown` resolves, and ends in order: it says that it is not ready, and goes on
/// as usual for `drain_delay`. Then it accepts no more, answers what is under way or on its way,
/// and cuts off what is left after `drain_time_max`.
pub async fn run(
    listener: TcpListener,
    http: Http,
    limits: ServerLimits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (orders, told) = watch::channel(Order::Serve);
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let mut workers = Workers { workers: Vec::new(), turn: 0 };
    for number in 0..limits.threads.max(1) {
        workers.workers.push(Worker::start(number, http.clone(), limits, told.clone())?);
    }
    let first_byte = limits.first_byte_time_max;
    let mut acceptor = Acceptor::new(listener, http.clone(), places.clone(), first_byte);
    accept_until(shutdown, &mut acceptor, &mut workers).await;
    http.begin_stop();
    accept_until(sleep(limits.drain_delay), &mut acceptor, &mut workers).await;
    // Closing the socket over connections that the system has accepted would reset them.
    for connection in acceptor.close().await {
        workers.give(connection);
    }
    orders.send_replace(Order::Close);
    let all = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    let closing_time = CLOSING_TIME_MAX.min(limits.drain_time_max / 2);
    if timeout(closing_time, places.acquire_many(all)).await.is_err() {
        orders.send_replace(Order::End);
        let ending_time = limits.drain_time_max - closing_time;
        if timeout(ending_time, places.acquire_many(all)).await.is_err() {
            let open = limits.connections_max - places.available_permits();
            tracing::warn!(open, "closing connections that did not end in time");
        }
    }
    for worker in workers.workers {
        worker.end().await;
    }
    Ok(())
}

/// Hands connections to the workers until `end` resolves.
async fn accept_until(
    end: impl Future<Output = ()>,
    acceptor: &mut Acceptor,
    workers: &mut Workers,
) {
    let mut end = pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = acceptor.next() => accepted,
            () = &mut end => return,
        };
        match accepted {
            Ok(connection) => workers.give(connection),
            Err(error) => {
                // Out of file descriptors, most likely: they come back as connections close.
                tracing::warn!("cannot accept a connection: {error}");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// All workers, which take connections in turn.
struct Workers {
    workers: Vec<Worker>,
    turn: usize,
}

impl Workers {
    fn give(&mut self, connection: Connection) {
        self.turn = (self.turn + 1) % self.workers.len();
        // A worker ends only when the server does.
        let _ = self.workers[self.turn].connections.send(connection);
    }
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
        orders: watch::Receiver<Order>,
    ) -> io::Result<Worker> {
        // Unbounded, but never longer than there are places: each entry holds one.
        let (connections, accepted) = mpsc::unbounded_channel::<Connection>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(POLLS_A_LOOK)
            .build()?;
        let work = work(accepted, http, limits, orders);
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

/// What a worker does until the server is gone. What is open then has run out of time.
async fn work(
    mut accepted: mpsc::UnboundedReceiver<Connection>,
    http: Http,
    limits: ServerLimits,
    mut orders: watch::Receiver<Order>,
) {
    let mut sweep = Sweep::new(limits);
    let mut sweeps = interval(sweep.period());
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            connection = accepted.recv() => {
                let Some(connection) = connection else { return };
                let Connection { stream, client, place, address } = connection;
                let (http, line) = http.for_connection(client, place.is_reserved());
                let served = Arc::new(Served::new(http));
                sweep.add(served.clone(), Instant::now());
                let task = tokio::spawn(async move {
                    match place.hold(connection::serve(stream, served)).await {
                        Some(Ok(())) => {}
                        Some(Err(error)) => tracing::debug!("a connection ended early: {error}"),
                        None => tracing::debug!("closed a connection beyond the limit"),
                    }
                    drop(address);
                });
                line.cut_with(task.abort_handle());
            }
            _ = sweeps.tick(), if !sweep.is_empty() => sweep.sweep(Instant::now()),
            Ok(()) = orders.changed() => {
                let order = *orders.borrow_and_update();
                sweep.tell_all(order);
            }
        }
    }
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            connections_max: 10_000,
            first_byte_time_max: Duration::from_secs(10),
            header_time_max: Duration::from_secs(30),
            idle_time_max: Duration::from_secs(75),
            drain_delay: Duration::ZERO,
            drain_time_max: Duration::from_secs(10),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
