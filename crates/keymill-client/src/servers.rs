//! The servers of a client: which one to ask next.
//!
//! `calls` picks a server for each attempt and says how it went. A server that failed is left alone for a while that
//! doubles, then one call tries it; the others go on with servers that work. Nothing here sends anything.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::backoff::Backoff;
#[cfg(feature = "grpc")]
use crate::grpc::GrpcLine;
use crate::transport::Line;

/// All servers of a client.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    all: Vec<Arc<Server>>,
    /// Where the next round starts, so that servers share the load.
    next: AtomicUsize,
}

/// One server, and how it is.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) line: Arc<Line>,
    #[cfg(feature = "grpc")]
    pub(crate) grpc: GrpcLine,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    backoff: Backoff,
    /// After a failure: when it may be tried again.
    not_before: Option<Instant>,
    problem: String,
}

/// Which servers one call has tried in its present round.
#[derive(Debug, Default)]
pub(crate) struct Tried(Vec<usize>);

impl Servers {
    pub(crate) fn new(lines: impl IntoIterator<Item = Line>) -> Servers {
        let server = |line: Line| {
            Arc::new(Server {
                #[cfg(feature = "grpc")]
                grpc: GrpcLine::new(&line),
                line: Arc::new(line),
                health: Mutex::default(),
            })
        };
        let all: Vec<Arc<Server>> = lines.into_iter().map(server).collect();
        // Clients that start together do not start with the same server.
        let next = AtomicUsize::new(fastrand::usize(..1 << 16));
        Servers { all, next }
    }

    /// The next server that this round has not tried and that may be tried now.
    pub(crate) fn pick(&self, tried: &mut Tried, now: Instant) -> Option<&Arc<Server>> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let places = (0..self.all.len()).map(|step| start.wrapping_add(step) % self.all.len());
        let mut places = places.filter(|place| !tried.0.contains(place));
        let place = places.find(|place| self.all[*place].may_be_tried(now))?;
        tried.0.push(place);
        Some(&self.all[place])
    }

    /// Whether this round has not tried all of them, those included that may not be tried now.
    pub(crate) fn has_untried(&self, tried: &Tried) -> bool {
        tried.0.len() < self.all.len()
    }

    /// When some server may be tried: `now`, unless all of them have failed of late.
    pub(crate) fn ready_at(&self, now: Instant) -> Instant {
        let ready_at = |server: &Arc<Server>| server.health().not_before.unwrap_or(now).max(now);
        self.all.iter().map(ready_at).min().unwrap_or(now)
    }

    /// Why none can be tried, for a call that did not get to try one.
    pub(crate) fn problems(&self) -> String {
        let problem = |server: &Arc<Server>| {
            let health = server.health();
            format!("{} {}", server.line.address.name, health.problem)
        };
        self.all.iter().map(problem).collect::<Vec<_>>().join("; ")
    }
}

impl Server {
    /// It has answered, whatever it said.
    pub(crate) fn answered(&self) {
        let mut health = self.health();
        if health.backoff.has_failed() {
            *health = Health::default();
        }
    }

    /// It could not be reached, or did not answer.
    pub(crate) fn failed(&self, problem: &str, now: Instant) {
        let mut health = self.health();
        // Calls that were under way together failed together: that counts once.
        if health.not_before.is_none_or(|not_before| not_before <= now) {
            health.not_before = Some(now + health.backoff.next_half());
        }
        health.problem = problem.to_owned();
        drop(health);
        self.close_idle();
    }

    /// Has the next request open a new connection.
    pub(crate) fn close_idle(&self) {
        self.line.close_idle();
        #[cfg(feature = "grpc")]
        self.grpc.close();
    }

    fn may_be_tried(&self, now: Instant) -> bool {
        let mut health = self.health();
        match health.not_before {
            None => true,
            Some(not_before) if not_before > now => false,
            Some(_) => {
                // One call finds out, and the others need not.
                health.not_before = Some(now + health.backoff.next_half());
                true
            }
        }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tried {
    /// Begins a new round.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Tries the last server once more in this round.
    pub(crate) fn forget_last(&mut self) {
        self.0.pop();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transport::{Address, Dialer};

    fn servers(count: usize) -> Servers {
        let dialer = Dialer { tls: None, time_max: Duration::from_secs(1) };
        let address = |port| Address::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        Servers::new((1..=count).map(|port| Line::new(address(port), dialer.clone())))
    }

    /// The names of the servers that one round tries.
    fn round(servers: &Servers, now: Instant) -> Vec<Arc<str>> {
        let mut tried = Tried::default();
        let pick = || servers.pick(&mut tried, now).map(|it| it.line.address.name.clone());
        let mut names: Vec<Arc<str>> = std::iter::from_fn(pick).collect();
        names.sort();
        names
    }

    #[test]
    fn a_round_tries_every_server_once_and_rounds_begin_with_each_in_turn() {
        let (servers, now) = (servers(3), Instant::now());
        assert_eq!(round(&servers, now).len(), 3);
        let firsts = (0..30).map(|_| servers.pick(&mut Tried::default(), now).unwrap());
        let first = servers.all[0].line.address.name.clone();
        assert_eq!(firsts.filter(|it| it.line.address.name == first).count(), 10);
    }

    #[test]
    fn a_server_that_failed_is_left_alone_then_tried_by_one_call() {
        let (servers, now) = (servers(2), Instant::now());
        servers.all[0].failed("refused", now);
        assert_eq!(round(&servers, now).len(), 1);
        assert_eq!(servers.ready_at(now), now);
        let later = now + Duration::from_secs(1);
        assert_eq!(round(&servers, later).len(), 2, "it may be tried again");
        assert_eq!(round(&servers, later).len(), 1, "but not by everybody");
        servers.all[0].answered();
        assert_eq!(round(&servers, later).len(), 2);
    }

    #[test]
    fn when_all_have_failed_it_is_known_when_to_try_and_why() {
        let (servers, now) = (servers(2), Instant::now());
        for server in &servers.all {
            server.failed("refused", now);
            server.failed("refused again", now);
        }
        assert!(round(&servers, now).is_empty());
        let wait = servers.ready_at(now) - now;
        assert!(wait >= Duration::from_millis(25) && wait <= Duration::from_millis(50), "{wait:?}");
        assert!(servers.problems().contains("http://127.0.0.1:2 refused again"));
    }
}
