//! The servers of a MySQL store: which of them to connect to, and the schema there.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use mysql_async::{Conn, OptsBuilder, SslOpts};
use tokio::time::timeout;

use super::connection::Connection;
use super::{fold_error, session};
use crate::store::connections::{
    CONNECT_MAX, IDLE_MAX, MIGRATE_MAX, in_time, none_of_them, within_limit,
};
use crate::store::sql::migrations;
use crate::store::url::StoreUrl;
use crate::store::{Opening, StoreError};

const PORT: u16 = 3306;
/// There is no such database.
const UNKNOWN_DATABASE: u16 = 1049;
/// The lock under which a schema is changed. MySQL 9 has no SHA1(), and names of locks end after 64
/// characters.
const SCHEMA_LOCK: &str = "CONCAT('keymill:', LEFT(SHA2(DATABASE(), 256), 32))";

mod embedded {
    refinery::embed_migrations!("migrations/mysql");
}

/// The servers of a URL, of which one takes writes.
pub(super) struct Hosts {
    url: StoreUrl,
    tls: Option<SslOpts>,
    allow_unsafe: bool,
    /// The host that was last connected to.
    last: AtomicUsize,
    /// The cohort of connections that may be used. The next one begins when it shows that they lead
    /// to the wrong server.
    cohort: Arc<AtomicU64>,
}

impl Hosts {
    pub(super) fn parse(url: &str, opening: Opening) -> Result<Hosts, StoreError> {
        let url = StoreUrl::parse(url, &[])?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(1..=63).contains(&url.path.len()) || !url.path.bytes().all(fits) {
            return Err(StoreError::Broken(
                "the store's URL needs a database of letters, digits, _ and -: \
                 mysql://user:password@host/keymill"
                    .to_owned(),
            ));
        }
        let tls = url.tls()?.map(|tls| match tls.ca {
            Some(ca) => SslOpts::default()
                .with_root_certs(vec![ca.into()])
                .with_disable_built_in_roots(true),
            None => SslOpts::default(),
        });
        Ok(Hosts {
            url,
            tls,
            allow_unsafe: opening.allow_unsafe,
            last: AtomicUsize::new(0),
            cohort: Arc::default(),
        })
    }

    /// Has every connection made until now closed instead of used again.
    pub(super) fn give_up_all(&self) {
        self.cohort.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn shown(&self) -> String {
        self.url.shown()
    }

    /// Makes or updates the schema as `opening` has it; whether it was made.
    pub(super) async fn prepare(&self, opening: Opening) -> Result<bool, StoreError> {
        if opening.create && opening.migrate {
            self.make_database().await?;
        }
        if !opening.create && self.lacks_database().await {
            return Err(StoreError::empty(&self.shown(), opening));
        }
        if self.url.hosts.len() > 1 {
            self.refuse_two_masters().await?;
        }
        let mut connection = self.connect().await?;
        let place = self.shown();
        let (tables, ours) = connection.count_tables().await?;
        let version = if ours { connection.schema_version().await? } else { None };
        if version.is_none() && tables > 0 && !ours {
            return Err(StoreError::Broken(format!(
                "{place} has another program's tables; give keymill a database of its own"
            )));
        }
        if version.is_none() && !opening.create {
            return Err(StoreError::empty(&place, opening));
        }
        let latest = migrations::latest(&embedded::migrations::runner());
        if !opening.migrate || version >= Some(latest) {
            return Ok(false);
        }
        // Of several that find no schema, one makes it.
        let applied = within_limit(self.migrate_on(connection)).await?;
        Ok(version.is_none() && !applied.is_empty())
    }

    /// Brings the schema up to date; the names of what was applied.
    pub(super) async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        self.make_database().await?;
        within_limit(self.migrate_on(self.connect().await?)).await
    }

    async fn migrate_on(&self, mut connection: Connection) -> Result<Vec<String>, StoreError> {
        let place = self.shown();
        let limit = MIGRATE_MAX.as_secs();
        // The lock is held by a connection that lies idle meanwhile.
        connection.run("SET SESSION wait_timeout = 600").await?;
        let lock = format!("SELECT GET_LOCK({SCHEMA_LOCK}, {limit})");
        let locked: Option<Option<i64>> = connection.ask(&lock).await?;
        if locked.flatten() != Some(1) {
            return Err(StoreError::Unavailable(format!(
                "{place}: another instance has been changing the schema for over {limit} s"
            )));
        }
        let number = self.number_of(&connection);
        let mut pool = mysql_async::Pool::new(self.options(number, true));
        let runner = migrations::tolerant(embedded::migrations::runner());
        let report = runner.run_async(&mut pool).await;
        let report = report.map_err(|error| migrations::error(&place, &error));
        // The schema is made whatever becomes of the connections that made it.
        let _ = pool.disconnect().await;
        Ok(migrations::applied(&report?))
    }

    /// Makes the database, where there is none and this user may.
    async fn make_database(&self) -> Result<(), StoreError> {
        for (number, host) in self.url.hosts.iter().enumerate() {
            let place = format!("mysql at {host}");
            let connect = timeout(CONNECT_MAX, Conn::new(self.options(number, true))).await;
            let Ok(Err(mysql_async::Error::Server(refusal))) = connect else { continue };
            if refusal.code == UNKNOWN_DATABASE {
                let conn = timeout(CONNECT_MAX, Conn::new(self.options(number, false))).await;
                let Ok(Ok(conn)) = conn else { continue };
                let mut connection = Connection::new(conn, &place, &self.cohort);
                let database = &self.url.path;
                let make = format!("CREATE DATABASE IF NOT EXISTS `{database}`");
                // Not on a server that only follows another.
                if connection.check(self.allow_unsafe).await.is_ok() {
                    return connection.run(&make).await;
                }
            }
        }
        Ok(())
    }

    /// Whether there is no such database on any host that can be reached.
    async fn lacks_database(&self) -> bool {
        let mut lacks = false;
        for number in 0..self.url.hosts.len() {
            match timeout(CONNECT_MAX, Conn::new(self.options(number, true))).await {
                Ok(Ok(_)) => return false,
                Ok(Err(mysql_async::Error::Server(refusal))) => {
                    lacks |= refusal.code == UNKNOWN_DATABASE;
                }
                _ => {}
            }
        }
        lacks
    }

    /// Refuses when several hosts take writes: each would grant what the others grant.
    async fn refuse_two_masters(&self) -> Result<(), StoreError> {
        let mut masters = Vec::new();
        for number in 0..self.url.hosts.len() {
            let place = self.place_of(number);
            if in_time(&place, self.connect_to(number, &place)).await.is_ok() {
                masters.push(place);
            }
        }
        if masters.len() > 1 {
            return Err(StoreError::Broken(format!(
                "{} accept writes, but only one may: set read_only on the others",
                masters.join(" and ")
            )));
        }
        Ok(())
    }

    /// The first host that takes writes and is safe.
    async fn connect(&self) -> Result<Connection, StoreError> {
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

    async fn connect_to(&self, number: usize, place: &str) -> Result<Connection, StoreError> {
        let conn = Conn::new(self.options(number, true)).await;
        let conn = conn.map_err(|error| fold_error(place, &error))?;
        let mut connection = Connection::new(conn, place, &self.cohort);
        connection.end_idle_transactions(IDLE_MAX.as_secs()).await?;
        connection.check(self.allow_unsafe).await?;
        Ok(connection)
    }

    fn place_of(&self, number: usize) -> String {
        format!("mysql at {}", self.url.hosts[number])
    }

    /// Which of the hosts a connection is to.
    fn number_of(&self, connection: &Connection) -> usize {
        let is_it = |number: &usize| self.place_of(*number) == connection.place();
        (0..self.url.hosts.len()).find(is_it).unwrap_or(0)
    }

    fn options(&self, number: usize, with_database: bool) -> OptsBuilder {
        let host = &self.url.hosts[number];
        OptsBuilder::default()
            .ip_or_hostname(host.name.clone())
            .tcp_port(host.port_or(PORT))
            .user(Some(self.url.user.as_deref().unwrap_or("root")))
            .pass(self.url.password.clone())
            .db_name(with_database.then_some(&self.url.path))
            .prefer_socket(false)
            // Before anything is read that a limit may cut off, the list of migrations too.
            .setup(vec![session::CONNECT])
            .ssl_opts(self.tls.clone())
    }
}

impl Manager for Hosts {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        self.connect().await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<StoreError> {
        if !connection.is_usable() {
            return Err(RecycleError::message("it was given up"));
        }
        connection.ping().await?;
        connection.check_again(self.allow_unsafe).await?;
        Ok(())
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}
