//! The servers of a PostgreSQL URL, of which one takes writes: found when a connection is made, and found
//! again when it was another's turn.
//!
//! # Invariants
//!
//! - A host on a lower timeline than was met before is not used: it was cut off.
//! - Connections are of generations. Where one turns out to lead to a server that is not the primary any
//!   more, all of its generation are given up, those in use too, once they come back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use deadpool::managed::{Manager, Metrics, Object, RecycleError, RecycleResult};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::{Connection, drive};
use super::fold_error;
use crate::store::connections::{CHECK_EVERY, in_time, none_of_them};
use crate::store::url::{StoreUrl, Tls};
use crate::store::{Opening, StoreError, tls};

const PORT: u16 = 5432;
const SESSION_ATTRS: &str = "target_session_attrs";

/// The servers of a URL, of which one takes writes.
pub(super) struct Hosts {
    url: StoreUrl,
    pub(super) schema: String,
    tls: Option<MakeRustlsConnect>,
    allow_unsafe: bool,
    /// The highest timeline met: a host below it was cut off, and is passed over.
    timeline: Arc<AtomicU64>,
    /// The host that was last connected to.
    last: AtomicUsize,
    /// The generation that connections are made in.
    generation: AtomicU64,
    /// A commit was in doubt: another host may have taken the place of the one that it was asked of.
    in_doubt: AtomicBool,
}

impl Hosts {
    pub(super) fn parse(url: &str, opening: Opening) -> Result<Hosts, StoreError> {
        let url = StoreUrl::parse(url, &["schema", "sslmode", "sslrootcert", SESSION_ATTRS])?;
        if let Some(wanted) = url.setting(SESSION_ATTRS).filter(|wanted| *wanted != "read-write") {
            return Err(StoreError::Broken(format!(
                "the store's URL has {SESSION_ATTRS}={wanted}; keymill needs read-write, its default"
            )));
        }
        let schema = url.setting("schema").unwrap_or("keymill").to_owned();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(1..=63).contains(&schema.len()) || !schema.bytes().all(fits) {
            return Err(StoreError::Broken(format!(
                "the store's URL has schema={schema}; letters, digits, _ and - are allowed"
            )));
        }
        let tls = wanted_tls(&url)?.map(|wanted| tls::client(&wanted)).transpose()?;
        let tls = tls.map(MakeRustlsConnect::new);
        let allow_unsafe = opening.allow_unsafe;
        Ok(Hosts {
            url,
            schema,
            tls,
            allow_unsafe,
            timeline: Arc::default(),
            last: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            in_doubt: AtomicBool::new(false),
        })
    }

    pub(super) fn shown(&self) -> String {
        self.url.shown()
    }

    /// Learns the highest timeline there is, so that a primary that was cut off is not taken for
    /// the one that has its place.
    pub(super) async fn meet_all(&self) {
        if self.url.hosts.len() > 1 {
            for number in 0..self.url.hosts.len() {
                // One that cannot be met will not be connected to either.
                let place = self.place_of(number);
                let _ = in_time(&place, self.connect_to(number, &place)).await;
            }
        }
    }

    /// The first host that takes writes, is safe, and was not cut off.
    pub(super) async fn connect(&self) -> Result<Connection, StoreError> {
        if self.in_doubt.swap(false, Ordering::SeqCst) {
            self.meet_all().await;
        }
        let mut problems = Vec::new();
        // The one that was good the last time first.
        let (hosts, first) = (self.url.hosts.len(), self.last.load(Ordering::Relaxed));
        for number in (0..hosts).map(|turn| (first + turn) % hosts) {
            let place = self.place_of(number);
            match in_time(&place, self.connect_to(number, &place)).await {
                Ok(connection) => {
                    self.last.store(number, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(error) => problems.push(error),
            }
        }
        Err(none_of_them(problems))
    }

    /// The generation that connections are made in now.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Closes a connection, and gives up all that were made no later than it: so the next request connects
    /// anew, and finds the server that takes writes now.
    pub(super) fn give_up(connection: Object<Hosts>) {
        if let Some(pool) = Object::pool(&connection) {
            let (hosts, given_up) = (pool.manager(), connection.generation);
            // At once by one only: what was made since then is good.
            let next = given_up + 1;
            let _ = hosts.generation.compare_exchange(
                given_up,
                next,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            drop(pool.retain(|idle, _| idle.generation > given_up));
        }
        drop(Object::take(connection));
    }

    /// The same, after a commit of which nobody knows whether it was made: before the next connection all
    /// hosts are looked at, because the one that answers may have been replaced.
    pub(super) fn doubt(connection: Object<Hosts>) {
        if let Some(pool) = Object::pool(&connection) {
            pool.manager().in_doubt.store(true, Ordering::SeqCst);
        }
        Hosts::give_up(connection);
    }

    fn place_of(&self, number: usize) -> String {
        format!("postgres at {}", self.url.hosts[number])
    }

    async fn connect_to(&self, number: usize, place: &str) -> Result<Connection, StoreError> {
        let generation = self.generation();
        let host = &self.url.hosts[number];
        let mut config = Config::new();
        config
            .host(&host.name)
            .port(host.port_or(PORT))
            .application_name("keymill")
            .user(self.url.user.as_deref().unwrap_or("postgres"))
            .dbname(if self.url.path.is_empty() { "postgres" } else { &self.url.path });
        if let Some(password) = &self.url.password {
            config.password(password);
        }
        let warnings = Arc::<AtomicU64>::default();
        let fold = |error: tokio_postgres::Error| fold_error(place, &error);
        let client = if let Some(tls) = &self.tls {
            config.ssl_mode(SslMode::Require);
            let (client, connection) = config.connect(tls.clone()).await.map_err(fold)?;
            drive(connection, warnings.clone());
            client
        } else {
            config.ssl_mode(SslMode::Disable);
            let (client, connection) = config.connect(NoTls).await.map_err(fold)?;
            drive(connection, warnings.clone());
            client
        };
        let (schema, timeline) = (&self.schema, self.timeline.clone());
        let mut connection = Connection::new(client, warnings, place, schema, generation, timeline);
        connection.check(self.allow_unsafe).await?;
        Ok(connection)
    }
}

impl Manager for Hosts {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        self.connect().await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<StoreError> {
        if !connection.is_good() || connection.generation < self.generation() {
            return Err(RecycleError::message("given up"));
        }
        if connection.checked_at.elapsed() > CHECK_EVERY {
            connection.check(self.allow_unsafe).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// `tls` and `tls_ca`, or what PostgreSQL's own programs call them.
fn wanted_tls(url: &StoreUrl) -> Result<Option<Tls>, StoreError> {
    let ca = url.setting("sslrootcert").map(Into::into);
    match url.setting("sslmode") {
        None if ca.is_some() => Ok(Some(Tls { ca })),
        None | Some("disable") => url.tls(),
        Some("require" | "verify-full") => Ok(Some(Tls { ca })),
        Some(other) => Err(StoreError::Broken(format!(
            "the store's URL has sslmode={other}; it is disable, or verify-full (encrypted, and the \
             server verified by sslrootcert or the system's authorities)"
        ))),
    }
}
