//! The server: from bound sockets to answered requests, and to an orderly end.
//!
//! One thread accepts; the others each run a single-threaded runtime and keep the connections
//! they are given, so that a request never changes threads. Connections are capped, in all and for
//! each address, and every wait on a client has a time limit, which one sweep per thread keeps.

mod accept;
mod activity;
mod connection;
// For the fuzz targets.
#[doc(hidden)]
pub mod in_memory;
mod listeners;
mod places;
mod proxy_protocol;
mod redis_connection;
mod stream;
mod sweep;
mod tls;
mod under_way;
mod warning;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

pub use self::listeners::{BindError, Endpoint, Listeners};
pub use self::places::RESERVE;
pub use self::tls::{Tls, TlsError, TlsFiles};

use self::accept::{Acceptor, Connection, Protocol, Stream};
use self::activity::{Activity, Order};
use self::connection::{OtherStream, Served};
use self::places::{AddressPlace, Addresses, Place};
use self::sweep::Sweep;
use crate::front::http::{Http, Listener};
use crate::front::redis::Redis;

/// How many connections an admin listener has open at once. They are its own, so that it answers when all
/// others are in use.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;

/// How long connections stay open for a request that is on its way when the server stops.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(2);

/// After how many polls of connections that have more to do a worker looks for news on the others. Those
/// who pipeline get many answers in one poll.
const POLLS_A_LOOK: u32 = 16;

/// How much a client may ask of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections open at once, of all listeners but the admin one together; beyond them only health checks and
    /// metrics are answered.
    pub connections_max: usize,
    /// How long a new connection may send nothing.
    pub first_byte_time_max: Duration,
    /// How long a request's headers may take, from their first byte on.
    pub header_time_max: Duration,
    /// How long a connection may stay open with nothing to do.
    pub idle_time_max: Duration,
    /// The same for a client of the Redis protocol that has shown a token, or needs none; as long as it likes where
    /// nothing is set.
    pub redis_idle_time_max: Option<Duration>,
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
    listeners: impl Into<Listeners>,
    http: Http,
    limits: ServerLimits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let Listeners { public, admin, redis, tls } = listeners.into();
    let http = if admin.is_some() { http.with_admin_listener() } else { http };
    if let Some(tls) = &tls {
        tls.announce(&http);
    }
    let fronts = Fronts { http: http.clone(), redis: http.redis() };
    let (orders, told) = watch::channel(Order::Serve);
    let mut workers = Workers { workers: Vec::new(), turn: 0 };
    for number in 0..limits.threads.max(1) {
        workers.workers.push(Worker::start(number, fronts.clone(), limits, told.clone())?);
    }
    let gates = Gates {
        public: Gate::new(limits.connections_max),
        admin: Gate::new(if admin.is_some() { ADMIN_CONNECTIONS_MAX } else { 0 }),
    };
    let accept = |sockets, protocol, gate: &Gate| {
        let (tls, http, time_max) = (tls.clone(), http.clone(), limits.first_byte_time_max);
        let (places, addresses) = (gate.places.clone(), gate.addresses.clone());
        Acceptor::new(sockets, protocol, tls, http, places, addresses, time_max)
    };
    let mut acceptors = Acceptors {
        public: accept(public, Protocol::Http(Listener::Public), &gates.public),
        admin: accept(admin.into_iter().collect(), Protocol::Http(Listener::Admin), &gates.admin),
        redis: accept(redis, Protocol::Redis, &gates.public),
    };
    accept_until(shutdown, &mut acceptors, &mut workers).await;
    http.begin_stop();
    accept_until(sleep(limits.drain_delay), &mut acceptors, &mut workers).await;
    // Closing a socket over connections that the system has accepted would reset them.
    for acceptor in [acceptors.public, acceptors.admin, acceptors.redis] {
        for connection in acceptor.close().await {
            workers.give(connection);
        }
    }
    orders.send_replace(Order::Close);
    let closing_time = CLOSING_TIME_MAX.min(limits.drain_time_max / 2);
    if timeout(closing_time, gates.emptied()).await.is_err() {
        orders.send_replace(Order::End);
        let ending_time = limits.drain_time_max - closing_time;
        if timeout(ending_time, gates.emptied()).await.is_err() {
            let open = gates.public.open() + gates.admin.open();
            tracing::warn!(open, "closing connections that did not end in time");
        }
    }
    for worker in workers.workers {
        worker.end().await;
    }
    Ok(())
}

/// What answers, in each protocol.
#[derive(Clone)]
struct Fronts {
    http: Http,
    redis: Redis,
}

/// What accepts connections, for everybody and for admins. One that has no socket accepts nothing.
struct Acceptors {
    public: Acceptor,
    admin: Acceptor,
    redis: Acceptor,
}

/// Hands connections to the workers until `end` resolves.
async fn accept_until(
    end: impl Future<Output = ()>,
    acceptors: &mut Acceptors,
    workers: &mut Workers,
) {
    let mut end = pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = acceptors.public.next() => accepted,
            accepted = acceptors.admin.next() => accepted,
            accepted = acceptors.redis.next() => accepted,
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

/// The places for connections: of the admin listener, and of all others.
struct Gates {
    public: Gate,
    admin: Gate,
}

struct Gate {
    places: Arc<Semaphore>,
    connections_max: usize,
    addresses: Arc<Addresses>,
}

impl Gates {
    /// Resolves when no connection is open. None may be accepted any more.
    async fn emptied(&self) {
        for gate in [&self.public, &self.admin] {
            let all = u32::try_from(gate.connections_max).unwrap_or(u32::MAX);
            // It is never closed.
            let _ = gate.places.acquire_many(all).await;
        }
    }
}

impl Gate {
    fn new(connections_max: usize) -> Gate {
        let places = Arc::new(Semaphore::new(connections_max));
        Gate { places, connections_max, addresses: Arc::default() }
    }

    fn open(&self) -> usize {
        self.connections_max - self.places.available_permits()
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
        fronts: Fronts,
        limits: ServerLimits,
        orders: watch::Receiver<Order>,
    ) -> io::Result<Worker> {
        // Unbounded, but never longer than there are places: each entry holds one.
        let (connections, accepted) = mpsc::unbounded_channel::<Connection>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(POLLS_A_LOOK)
            .build()?;
        let work = work(accepted, fronts, limits, orders);
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
    fronts: Fronts,
    limits: ServerLimits,
    mut orders: watch::Receiver<Order>,
) {
    let Fronts { http, redis } = fronts;
    let mut sweep = Sweep::new(limits);
    let mut sweeps = interval(sweep.period());
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            connection = accepted.recv() => {
                let Some(connection) = connection else { return };
                match connection.protocol {
                    Protocol::Http(listener) => serve(connection, listener, &http, &mut sweep),
                    Protocol::Redis => serve_redis(connection, &redis, &mut sweep),
                }
            }
            _ = sweeps.tick(), if !sweep.is_empty() => sweep.sweep(Instant::now()),
            Ok(()) = orders.changed() => {
                let order = *orders.borrow_and_update();
                sweep.tell_all(order);
            }
        }
    }
}

/// Begins to serve a connection on this thread. One that cannot be served is closed.
fn serve(connection: Connection, listener: Listener, http: &Http, sweep: &mut Sweep) {
    let Connection { stream, client, place, address, .. } = connection;
    let (front, line) = http.for_connection(client, listener, place.is_reserved());
    let served = Arc::new(Served { front, activity: Activity::default() });
    sweep.add(served.clone(), Instant::now());
    // Each is a task of its own size: one of plain TCP, of which there are most, has no room for TLS.
    let task = match stream {
        Stream::Tcp(stream) => TcpStream::from_std(stream)
            .map(|stream| keep(place, address, connection::serve(stream, served))),
        Stream::Tls(stream, tls) => TcpStream::from_std(stream)
            .map(|stream| keep(place, address, connection::serve_tls(stream, tls, served))),
        Stream::Unix(stream) => UnixStream::from_std(stream).map(|stream| {
            let stream: Box<dyn OtherStream> = Box::new(stream);
            keep(place, address, connection::serve(stream, served))
        }),
    };
    match task {
        Ok(task) => line.cut_with(task),
        Err(error) => tracing::debug!("cannot serve a connection: {error}"),
    }
}

/// The same for one that speaks the Redis protocol.
fn serve_redis(connection: Connection, redis: &Redis, sweep: &mut Sweep) {
    let Connection { stream, client, place, address, .. } = connection;
    let (front, line) = redis.for_connection(client);
    let served = Arc::new(Served { front, activity: Activity::of_redis() });
    sweep.add(served.clone(), Instant::now());
    let task = match stream {
        Stream::Tcp(stream) => TcpStream::from_std(stream)
            .map(|stream| keep(place, address, redis_connection::serve(stream, served))),
        Stream::Tls(stream, tls) => TcpStream::from_std(stream)
            .map(|stream| keep(place, address, redis_connection::serve_tls(stream, tls, served))),
        Stream::Unix(stream) => UnixStream::from_std(stream).map(|stream| {
            let stream: Box<dyn OtherStream> = Box::new(stream);
            keep(place, address, redis_connection::serve(stream, served))
        }),
    };
    match task {
        Ok(task) => line.cut_with(task),
        Err(error) => tracing::debug!("cannot serve a connection: {error}"),
    }
}

/// Serves a connection for as long as it has its place.
fn keep<S>(place: Place, address: AddressPlace, served: S) -> AbortHandle
where
    S: Future<Output = Result<(), connection::BoxError>> + Send + 'static,
{
    let task = tokio::spawn(async move {
        match place.hold(served).await {
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::debug!("a connection ended early: {error}"),
            None => tracing::debug!("closed a connection beyond the limit"),
        }
        drop(address);
    });
    task.abort_handle()
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            connections_max: 10_000,
            first_byte_time_max: Duration::from_secs(10),
            header_time_max: Duration::from_secs(30),
            idle_time_max: Duration::from_secs(75),
            redis_idle_time_max: None,
            drain_delay: Duration::ZERO,
            drain_time_max: Duration::from_secs(10),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
