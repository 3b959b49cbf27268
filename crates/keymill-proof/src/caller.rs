//! A caller: takes keys of one server, or of one after another, until its load ends or it has enough.
//!
//! What it speaks is up to the one who makes it: a caller of another protocol is another [`Take`].

use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;

use crate::load::Run;
use crate::take::{HttpTake, Take, Taken};

/// How long a caller waits who was given no keys, or finds that there are enough; longer each time, up to a bound.
const RESPITE: Duration = Duration::from_millis(2);
const RESPITES_MAX: u32 = 10;

/// A caller, before it begins.
pub struct Caller<'a> {
    connect: Box<dyn Fn(SocketAddr) -> Box<dyn Take + 'a> + Send + 'a>,
    asks: Asks,
    count: Box<dyn FnMut(&mut Rng) -> u32 + Send + 'a>,
    has_enough: Box<dyn FnMut(&Taken) -> bool + Send + 'a>,
    respite: Duration,
}

/// Whom a caller asks.
#[derive(Debug, Clone, Copy)]
enum Asks {
    /// All servers, one after another.
    All,
    /// One server, wherever it is.
    One(usize),
    /// Whoever is at that address, such as a load balancer.
    Address(SocketAddr),
}

impl<'a> Caller<'a> {
    /// One who connects like that, and takes one key at a time of one server after another.
    pub fn over<T: Take + 'a>(connect: impl Fn(SocketAddr) -> T + Send + 'a) -> Caller<'a> {
        Caller {
            connect: Box::new(move |address| Box::new(connect(address))),
            asks: Asks::All,
            count: Box::new(|_| 1),
            has_enough: Box::new(|_| false),
            respite: Duration::ZERO,
        }
    }

    /// One who takes of a space over HTTP.
    pub fn http(space: &'a str) -> Caller<'a> {
        Caller::over(move |address| HttpTake::new(address, space))
    }

    /// The same, but it asks one server only.
    pub fn of(self, server: usize) -> Caller<'a> {
        Caller { asks: Asks::One(server), ..self }
    }

    /// The same, but it asks whoever is at that address.
    pub fn at(self, address: SocketAddr) -> Caller<'a> {
        Caller { asks: Asks::Address(address), ..self }
    }

    /// The same with takes of so many keys.
    pub fn takes(self, count: u32) -> Caller<'a> {
        self.takes_by(move |_| count)
    }

    /// The same with takes of as many keys as this says each time.
    pub fn takes_by(self, count: impl FnMut(&mut Rng) -> u32 + Send + 'a) -> Caller<'a> {
        Caller { count: Box::new(count), ..self }
    }

    /// The same with a rest after every take.
    pub fn rests(self, respite: Duration) -> Caller<'a> {
        Caller { respite, ..self }
    }

    /// The same, until this says that what it was given is enough.
    pub fn until(self, has_enough: impl FnMut(&Taken) -> bool + Send + 'a) -> Caller<'a> {
        Caller { has_enough: Box::new(has_enough), ..self }
    }

    /// Takes until it has enough or the run ends. The number tells callers apart.
    pub(crate) fn work(mut self, number: usize, run: &Run<'_>) {
        let mut rng = Rng::with_seed(run.seed ^ (number as u64 + 1) << 32);
        let servers = run.fleet.len();
        let mut connections: Vec<Option<(SocketAddr, Box<dyn Take + 'a>)>> = Vec::new();
        connections.resize_with(servers, || None);
        let mut in_vain = 0;
        for turn in number.. {
            let (server, address) = match self.asks {
                Asks::All => (turn % servers, run.fleet.address(turn % servers)),
                Asks::One(server) => (server, run.fleet.address(server)),
                Asks::Address(address) => (0, Some(address)),
            };
            in_vain = RESPITES_MAX.min(in_vain + 1);
            if let Some(address) = address {
                let connection = &mut connections[server];
                if connection.as_ref().is_none_or(|(known, _)| *known != address) {
                    *connection = Some((address, (self.connect)(address)));
                }
                let (_, connection) = connection.as_mut().expect("just made");
                if connection.connect() {
                    let count = (self.count)(&mut rng);
                    let under_way = run.fleet.take_under_way(server);
                    let taken = connection.take(count);
                    drop(under_way);
                    run.note(number, address, count, &taken);
                    if (self.has_enough)(&taken) {
                        return;
                    }
                    if taken.is_keys() && !run.has_enough() {
                        in_vain = 0;
                    }
                }
            }
            if run.end.wait(self.respite.max(RESPITE * in_vain)) {
                return;
            }
        }
    }
}
