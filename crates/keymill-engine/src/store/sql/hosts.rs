//! The servers of a store's URL, of which one takes writes: found when a connection is made, and found
//! again when another has taken its place.
//!
//! `mysql` and `postgres` say how to connect to a server and what to check there ([`Server`], [`Link`]).
//!
//! # Invariants
//!
//! - Every connection is checked before its first use, and again when the last check was a while ago.
//! - Connections are of generations. Where one shows that its server is not the one to use any more, its
//!   generation ends: no other of it is used again, and those in use are closed when they come back.
//! - A connection is used again only after its transaction has ended; any other is closed.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use deadpool::managed::{Manager, Metrics, Object, RecycleError, RecycleResult};
use tokio::time::Instant;

use super::driver::Result;
use crate::store::connections::{self, CALL_MAX, CHECK_EVERY, Connections, in_time, none_of_them};
use crate::store::url::{Host, StoreUrl};
use crate::store::{Opening, StoreError};

/// A kind of server.
pub(super) trait Server: Send + Sync + 'static {
    /// What people call it.
    const NAME: &'static str;

    /// A connection to one.
    type Link: Link;

    /// Connects to a host. What is there is checked by the caller.
    fn connect(
        &self,
        url: &StoreUrl,
        host: &Host,
        route: Route,
    ) -> impl Future<Output = Result<Self::Link>> + Send;
}

/// A connection to a server.
pub(super) trait Link: fmt::Debug + Send + Sync + 'static {
    /// Where it leads.
    fn route(&mut self) -> &mut Route;

    /// Runs statements that have neither parameters nor an answer.
    fn run(&mut self, sql: &str) -> impl Future<Output = Result<()>> + Send;

    /// Refuses a connection that is closed.
    fn ping(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Refuses a server that takes no writes, whatever else is allowed, and one that is unsafe.
    fn check(&mut self, allow_unsafe: bool) -> impl Future<Output = Result<()>> + Send;
}

/// The servers of a URL.
pub(super) struct Hosts<S> {
    pub(super) url: StoreUrl,
    pub(super) server: S,
    allow_unsafe: bool,
    /// The host that was last connected to.
    last: AtomicUsize,
    shared: Arc<Shared>,
}

/// What all connections know together.
#[derive(Debug, Default)]
struct Shared {
    /// The generation of connections that may be used.
    generation: AtomicU64,
    /// A commit was in doubt: another host may have taken the place of the one that it was asked of.
    in_doubt: AtomicBool,
}

/// Where a connection leads, and whether it may still be used.
#[derive(Debug)]
pub(super) struct Route {
    /// The server, as people name it.
    pub(super) server_name: String,
    generation: u64,
    shared: Arc<Shared>,
    /// `None` before the first check.
    checked_at: Option<Instant>,
    /// A request was begun and its answer not read to the end: what comes next on this connection would
    /// be taken for the answer to something else.
    under_way: AtomicBool,
}

/// A connection with a transaction on it, which has to end by the deadline. Where this is dropped before
/// it is put back, the connection is closed, and the server rolls the transaction back.
pub(super) struct InTransaction<S: Server> {
    connection: Option<Object<Hosts<S>>>,
    pub(super) deadline: Instant,
}

impl<S: Server> Hosts<S> {
    pub(super) fn new(url: StoreUrl, server: S, opening: Opening) -> Hosts<S> {
        let (last, shared) = (AtomicUsize::new(0), Arc::default());
        Hosts { url, server, allow_unsafe: opening.allow_unsafe, last, shared }
    }

    /// The generation of connections that may be used.
    pub(super) fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::SeqCst)
    }

    /// Has every connection made until now closed instead of used again.
    pub(super) fn give_up_all(&self) {
        self.shared.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Connects to all hosts, where there are several; those that can be used.
    pub(super) async fn meet_all(&self) -> Vec<String> {
        let mut usable = Vec::new();
        if self.url.hosts.len() > 1 {
            for host in &self.url.hosts {
                if let Ok(mut connection) = self.connect_to(&self.url, host).await {
                    usable.push(connection.route().server_name.clone());
                }
            }
        }
        usable
    }

    /// The first host that takes writes and is safe.
    pub(super) async fn connect(&self) -> Result<S::Link> {
        if self.shared.in_doubt.swap(false, Ordering::SeqCst) {
            self.meet_all().await;
        }
        let mut problems = Vec::new();
        // The one that was good the last time first.
        let (hosts, first) = (&self.url.hosts, self.last.load(Ordering::Relaxed));
        for number in (0..hosts.len()).map(|turn| (first + turn) % hosts.len()) {
            match self.connect_to(&self.url, &hosts[number]).await {
                Ok(connection) => {
                    self.last.store(number, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(error) => problems.push(error),
            }
        }
        Err(none_of_them(problems))
    }

    /// Connects to a host, and checks it.
    pub(super) async fn connect_to(&self, url: &StoreUrl, host: &Host) -> Result<S::Link> {
        let server_name = format!("{} at {host}", S::NAME);
        let route = Route {
            server_name: server_name.clone(),
            generation: self.generation(),
            shared: self.shared.clone(),
            checked_at: None,
            under_way: AtomicBool::new(false),
        };
        in_time(&server_name, async {
            let mut connection = self.server.connect(url, host, route).await?;
            connection.check(self.allow_unsafe).await?;
            connection.route().checked_at = Some(Instant::now());
            Ok(connection)
        })
        .await
    }
}

impl<S: Server> Manager for Hosts<S> {
    type Type = S::Link;
    type Error = StoreError;

    async fn create(&self) -> Result<S::Link> {
        self.connect().await
    }

    async fn recycle(&self, connection: &mut S::Link, _: &Metrics) -> RecycleResult<StoreError> {
        if !connection.route().is_usable() {
            return Err(RecycleError::message("it was given up"));
        }
        connection.ping().await?;
        if connection.route().checked_at.is_none_or(|at| at.elapsed() > CHECK_EVERY) {
            // What holds for its server holds for the others that lead there.
            let checked = connection.check(self.allow_unsafe).await;
            checked.inspect_err(|_| connection.route().give_up_all())?;
            connection.route().checked_at = Some(Instant::now());
        }
        Ok(())
    }
}

impl<S> fmt::Debug for Hosts<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl Route {
    /// Whether every answer was read to its end, and nothing has shown that it leads to the wrong server.
    pub(super) fn is_usable(&self) -> bool {
        !self.under_way.load(Ordering::SeqCst)
            && self.generation == self.shared.generation.load(Ordering::SeqCst)
    }

    /// Something is asked. Where the answer is not waited for, the connection is not used again.
    pub(super) fn ask(&self) {
        self.under_way.store(true, Ordering::SeqCst);
    }

    /// The answer was read to its end.
    pub(super) fn answered(&self) {
        self.under_way.store(false, Ordering::SeqCst);
    }

    /// Has the connection closed instead of used again.
    pub(super) fn give_up(&self) {
        self.under_way.store(true, Ordering::SeqCst);
    }

    /// The same for all of its generation: its server is not the one to use any more, and the next request
    /// looks for the one that is. A connection that is still being made speaks for itself alone.
    pub(super) fn give_up_all(&self) {
        self.give_up();
        if self.checked_at.is_some() {
            // Where another has seen it too, the next generation has begun already.
            self.shared.generation.fetch_max(self.generation + 1, Ordering::SeqCst);
        }
    }

    /// The same, after a commit of which nobody knows whether it was made: before the next connection all
    /// hosts are looked at, because the one that answers may have been replaced.
    pub(super) fn doubt(&self) {
        self.shared.in_doubt.store(true, Ordering::SeqCst);
        self.give_up_all();
    }
}

impl<S: Server> InTransaction<S> {
    /// A connection for a transaction that begins now.
    pub(super) async fn get(connections: &Connections<Hosts<S>>) -> Result<InTransaction<S>> {
        let connection = connections::get(connections).await?;
        Ok(InTransaction { connection: Some(connection), deadline: Instant::now() + CALL_MAX })
    }

    /// Lets the connection be used again, once the transaction has ended.
    pub(super) fn put_back(mut self) {
        drop(self.connection.take());
    }
}

impl<S: Server> Deref for InTransaction<S> {
    type Target = S::Link;

    fn deref(&self) -> &S::Link {
        self.connection.as_ref().expect("taken only at the end")
    }
}

impl<S: Server> DerefMut for InTransaction<S> {
    fn deref_mut(&mut self) -> &mut S::Link {
        self.connection.as_mut().expect("taken only at the end")
    }
}

impl<S: Server> Drop for InTransaction<S> {
    fn drop(&mut self) {
        // What is half done must not be used again.
        drop(self.connection.take().map(Object::take));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_ends_once_and_only_by_a_connection_that_was_checked() {
        let shared = Arc::<Shared>::default();
        let route = |checked_at| Route {
            server_name: String::new(),
            generation: shared.generation.load(Ordering::SeqCst),
            shared: shared.clone(),
            checked_at,
            under_way: AtomicBool::new(false),
        };
        let (new, one, other) = (route(None), route(Some(Instant::now())), route(None));
        new.give_up_all();
        assert!(!new.is_usable() && one.is_usable());
        one.give_up_all();
        one.give_up_all();
        assert!(!one.is_usable() && !other.is_usable());
        assert_eq!(shared.generation.load(Ordering::SeqCst), 1);
        assert!(route(None).is_usable());
    }
}
