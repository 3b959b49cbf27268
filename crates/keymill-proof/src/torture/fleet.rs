//! The fleet: the servers of one run, as callers find them and the nemesis harms them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::process::{Server, ServerSpec};

/// The servers, and whether the run is at its end.
#[derive(Debug)]
pub(super) struct Fleet {
    berths: Vec<Berth>,
    ended: Mutex<bool>,
    ending: Condvar,
}

/// A place for one server after another, all on one data directory.
#[derive(Debug)]
struct Berth {
    spec: ServerSpec,
    /// Locked as long as somebody harms the server.
    server: Mutex<Server>,
    address: Mutex<Option<SocketAddr>>,
    takes_under_way: AtomicU32,
}

/// The server of one berth, held by the one who harms it.
pub(super) struct Held<'a> {
    berth: &'a Berth,
    pub(super) server: MutexGuard<'a, Server>,
}

/// A take under way, as long as it lives.
pub(super) struct UnderWay<'a>(&'a AtomicU32);

/// Ends the run when dropped, so that a panic leaves no thread behind.
pub(super) struct End<'a>(&'a Fleet);

impl Fleet {
    pub(super) fn start(specs: &[ServerSpec]) -> Fleet {
        let berth = |spec: &ServerSpec| {
            let server = Server::start(spec);
            Berth {
                spec: spec.clone(),
                address: Mutex::new(Some(server.address())),
                server: Mutex::new(server),
                takes_under_way: AtomicU32::new(0),
            }
        };
        Fleet {
            berths: specs.iter().map(berth).collect(),
            ended: Mutex::new(false),
            ending: Condvar::new(),
        }
    }

    /// How many servers there are, running or not.
    pub(super) fn len(&self) -> usize {
        self.berths.len()
    }

    /// Where a server can be reached, while it is not known to be down.
    pub(super) fn address(&self, number: usize) -> Option<SocketAddr> {
        *self.berths[number].address()
    }

    /// Notes that a take is sent to a server.
    pub(super) fn take_under_way(&self, number: usize) -> UnderWay<'_> {
        let count = &self.berths[number].takes_under_way;
        count.fetch_add(1, Ordering::SeqCst);
        UnderWay(count)
    }

    /// A server for harm, once takes are under way there; `None` when the run ends first.
    pub(super) fn hold(&self, number: usize) -> Option<Held<'_>> {
        let berth = &self.berths[number];
        let server = berth.server.lock().expect("no thread panicked with it");
        while berth.takes_under_way.load(Ordering::SeqCst) == 0 {
            if self.wait(Duration::from_micros(200)) {
                return None;
            }
        }
        Some(Held { berth, server })
    }

    pub(super) fn end(&self) {
        *self.ended.lock().expect("no thread panicked with it") = true;
        self.ending.notify_all();
    }

    pub(super) fn end_when_dropped(&self) -> End<'_> {
        End(self)
    }

    /// Waits so long, or until the run ends; says whether it has.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let ended = self.ended.lock().expect("no thread panicked with it");
        let waited = self.ending.wait_timeout_while(ended, time, |ended| !*ended);
        *waited.expect("no thread panicked with it").0
    }

    /// Stops all servers in order.
    pub(super) fn stop(self) {
        for berth in self.berths {
            let mut server = berth.server.into_inner();
            server.as_mut().expect("no thread panicked with it").stop();
        }
    }
}

impl Berth {
    fn address(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.address.lock().expect("no thread panicked with it")
    }
}

impl Held<'_> {
    /// Callers stop looking for the server here.
    pub(super) fn strike(&self) {
        *self.berth.address() = None;
    }

    /// Starts a server anew on the same data directory.
    pub(super) fn start_again(&mut self) {
        *self.server = Server::start(&self.berth.spec);
        *self.berth.address() = Some(self.server.address());
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
