//! A fleet: servers that share a store, as callers find them and a test harms them.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::ScopedJoinHandle;

use crate::process::{Server, ServerSpec};

/// How often a server is started again while a paused one keeps it from that.
const STARTS_MAX: u32 = 5;

/// Servers by number, running or not.
#[derive(Debug)]
pub struct Fleet {
    berths: Vec<Berth>,
}

/// A place for one server after another, all on one data directory.
#[derive(Debug)]
struct Berth {
    spec: ServerSpec,
    /// Locked as long as somebody harms the server.
    server: Mutex<Server>,
    /// `None` while it is down: its port may be that of another test's server the next moment.
    address: Mutex<Option<SocketAddr>>,
    takes_under_way: AtomicU32,
}

/// One server, held by the one who looks at it or harms it.
#[derive(Debug)]
pub struct Held<'a> {
    berth: &'a Berth,
    server: MutexGuard<'a, Server>,
}

/// A take under way, as long as it lives.
#[derive(Debug)]
pub(crate) struct UnderWay<'a>(&'a AtomicU32);

impl Fleet {
    /// Starts servers, one after another.
    ///
    /// # Panics
    ///
    /// With its log, when one does not start.
    pub fn start(specs: impl IntoIterator<Item = ServerSpec>) -> Fleet {
        Fleet::of(specs.into_iter().map(|spec| (spec.start(), spec)))
    }

    /// Starts servers, all at once.
    ///
    /// # Panics
    ///
    /// With its log, when one does not start.
    pub fn start_at_once(specs: impl IntoIterator<Item = ServerSpec>) -> Fleet {
        let specs: Vec<ServerSpec> = specs.into_iter().collect();
        let servers: Vec<Server> = std::thread::scope(|scope| {
            let starting: Vec<_> = specs.iter().map(|spec| scope.spawn(|| spec.start())).collect();
            let started = starting.into_iter().map(ScopedJoinHandle::join);
            started.map(|server| server.expect("it starts")).collect()
        });
        Fleet::of(servers.into_iter().zip(specs))
    }

    fn of(servers: impl Iterator<Item = (Server, ServerSpec)>) -> Fleet {
        let berth = |(server, spec): (Server, ServerSpec)| Berth {
            spec,
            address: Mutex::new(Some(server.address())),
            server: Mutex::new(server),
            takes_under_way: AtomicU32::new(0),
        };
        Fleet { berths: servers.map(berth).collect() }
    }

    /// The same, but servers that are started again listen where they did before.
    pub fn keeps_addresses(mut self) -> Fleet {
        for berth in &mut self.berths {
            let address = berth.hold().address();
            berth.spec = berth.spec.clone().listen(address);
        }
        self
    }

    /// How many servers there are.
    pub fn len(&self) -> usize {
        self.berths.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.berths.is_empty()
    }

    /// A server, once nobody else holds it.
    pub fn hold(&self, number: usize) -> Held<'_> {
        self.berths[number].hold()
    }

    /// One server after another.
    pub fn each(&self) -> impl Iterator<Item = Held<'_>> {
        self.berths.iter().map(Berth::hold)
    }

    /// Where a server can be reached, while it is not down.
    pub fn address(&self, number: usize) -> Option<SocketAddr> {
        *self.berths[number].address()
    }

    /// Notes that a take is sent to a server.
    pub(crate) fn take_under_way(&self, number: usize) -> UnderWay<'_> {
        let count = &self.berths[number].takes_under_way;
        count.fetch_add(1, Ordering::SeqCst);
        UnderWay(count)
    }
}

impl Berth {
    fn hold(&self) -> Held<'_> {
        Held { berth: self, server: self.server.lock().expect("no thread panicked with it") }
    }

    fn address(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.address.lock().expect("no thread panicked with it")
    }
}

impl Held<'_> {
    /// Whether takes are under way there.
    pub fn is_asked(&self) -> bool {
        self.berth.takes_under_way.load(Ordering::SeqCst) > 0
    }

    /// Kills it as `kill -9` does. Takes that are under way stay so; nobody looks for it any more.
    pub fn kill(&mut self) {
        *self.berth.address() = None;
        self.server.kill();
    }

    /// Stops it in order, while takes go on being sent; then nobody looks for it any more.
    ///
    /// # Panics
    ///
    /// With its log, when it does not end well.
    pub fn stop(&mut self) {
        let status = self.server.stop();
        *self.berth.address() = None;
        assert!(status.success(), "a stop ended with {status}:\n{}", self.server.log());
    }

    /// Starts a server anew on the same data directory. A process that was paused with a lock on SQLite's file
    /// keeps others from starting until it goes on, so that is tried again.
    ///
    /// # Panics
    ///
    /// With its log, when it does not start.
    pub fn start(&mut self) {
        let mut started = self.berth.spec.try_start();
        for _ in 1..STARTS_MAX {
            match &started {
                Err(problem) if problem.contains("by another process") => {
                    started = self.berth.spec.try_start();
                }
                _ => break,
            }
        }
        *self.server = started.unwrap_or_else(|problem| panic!("{problem}"));
        *self.berth.address() = Some(self.server.address());
    }
}

impl Deref for Held<'_> {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
