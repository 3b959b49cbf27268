//! Connections to MySQL: which of the hosts, whether it is safe, and its schema.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Params, Row, SslOpts};
use tokio::time::{Instant, timeout};

use super::fold_error;
use super::rows::column;
use crate::store::pool::{
    CALL_MAX, CHECK_EVERY, CONNECT_MAX, IDLE_MAX, LOCK_MAX, MIGRATE_MAX, none_of_them,
    refuse_unsafe, within_limit,
};
use crate::store::url::StoreUrl;
use crate::store::{Finding, Opening, StoreError, schema};

/// What is looked at before a server is used. Not every server has all of them.
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'read_only',
    'super_read_only', 'innodb_read_only', 'wsrep_on', 'innodb_flush_log_at_trx_commit',
    'innodb_doublewrite', 'log_bin', 'sync_binlog', 'binlog_format')";
const SCHEMA_VERSION: &str = "SELECT MAX(version) FROM refinery_schema_history";
const TABLES: &str = "SELECT COUNT(*), COALESCE(SUM(table_name = 'refinery_schema_history'), 0)
    FROM information_schema.tables WHERE table_schema = DATABASE()";
const PORT: u16 = 3306;
/// There is no such database.
const UNKNOWN_DATABASE: u16 = 1049;
/// There is no such variable.
const UNKNOWN_VARIABLE: u16 = 1193;

mod migrations {
    refinery::embed_migrations!("migrations/mysql");
}

/// The servers of a URL, of which one takes writes.
pub(super) struct Hosts {
    url: StoreUrl,
    tls: Option<SslOpts>,
    allow_unsafe: bool,
    /// The host that was last connected to.
    last: AtomicUsize,
}

/// One checked connection.
#[derive(Debug)]
pub(super) struct Connection {
    conn: Conn,
    place: String,
    /// A request was begun and its answer not read to the end: what comes next on this
    /// connection would be taken for the answer to something else.
    under_way: bool,
    checked_at: Instant,
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
        Ok(Hosts { url, tls, allow_unsafe: opening.allow_unsafe, last: AtomicUsize::new(0) })
    }

    pub(super) fn shown(&self) -> String {
        self.url.shown()
    }

    /// Makes or updates the schema as `opening` has it; whether it was made.
    pub(super) async fn prepare(&self, opening: Opening) -> Result<bool, StoreError> {
        if opening.create && opening.migrate {
            self.make_database().await?;
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
                "{place} has another program's tables; name a database of its own for keymill"
            )));
        }
        if version.is_none() && !opening.create {
            return Err(StoreError::Broken(format!("{place} is empty, and is not created")));
        }
        let latest = schema::latest(&migrations::migrations::runner());
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
        let lock =
            format!("SELECT GET_LOCK(CONCAT('keymill:', LEFT(SHA1(DATABASE()), 32)), {limit})");
        let locked: Option<Option<i64>> = connection.ask(&lock).await?;
        if locked.flatten() != Some(1) {
            return Err(StoreError::Unavailable(format!(
                "{place}: another instance has been changing the schema for over {limit} s"
            )));
        }
        let number = self.number_of(&connection);
        let mut pool = mysql_async::Pool::new(self.options(number, true));
        let runner = schema::tolerant(migrations::migrations::runner());
        let report = runner.run_async(&mut pool).await;
        let report = report.map_err(|error| schema::error(&place, &error));
        // The schema is made whatever becomes of the connections that made it.
        let _ = pool.disconnect().await;
        Ok(schema::applied(&report?))
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
                let mut connection =
                    Connection { conn, place, under_way: false, checked_at: Instant::now() };
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

    /// Refuses when several hosts take writes: each would grant what the others grant.
    async fn refuse_two_masters(&self) -> Result<(), StoreError> {
        let mut masters = Vec::new();
        for number in 0..self.url.hosts.len() {
            let place = self.place_of(number);
            let connected = timeout(CONNECT_MAX, self.connect_to(number, &place)).await;
            if matches!(connected, Ok(Ok(_))) {
                masters.push(place);
            }
        }
        if masters.len() > 1 {
            return Err(StoreError::Broken(format!(
                "{} take writes, and only one may: set read_only on the others",
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
            match timeout(CONNECT_MAX, self.connect_to(number, &place)).await {
                Ok(Ok(connection)) => {
                    self.last.store(number, Ordering::Relaxed);
                    return Ok(connection);
                }
                Ok(Err(error)) => problems.push(error),
                Err(_) => problems.push(StoreError::Unavailable(format!(
                    "{place} did not answer in {CONNECT_MAX:?}"
                ))),
            }
        }
        Err(none_of_them(problems))
    }

    async fn connect_to(&self, number: usize, place: &str) -> Result<Connection, StoreError> {
        let conn = Conn::new(self.options(number, true)).await;
        let conn = conn.map_err(|error| fold_error(place, &error))?;
        let mut connection = Connection {
            conn,
            place: place.to_owned(),
            under_way: false,
            checked_at: Instant::now(),
        };
        let (lock, idle) = (LOCK_MAX.as_secs(), IDLE_MAX.as_secs());
        connection.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
        connection
            .run(&format!(
                "SET SESSION innodb_lock_wait_timeout = {lock}, sql_mode = 'STRICT_ALL_TABLES'"
            ))
            .await?;
        connection.end_idle_transactions(idle).await?;
        connection.check(self.allow_unsafe).await?;
        Ok(connection)
    }

    fn place_of(&self, number: usize) -> String {
        format!("mysql at {}", self.url.hosts[number])
    }

    /// Which of the hosts a connection is to.
    fn number_of(&self, connection: &Connection) -> usize {
        let is_it = |number: &usize| self.place_of(*number) == connection.place;
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
        if connection.under_way {
            return Err(RecycleError::message("a request was given up half-way"));
        }
        connection.conn.ping().await.map_err(|error| connection.fold_error(&error))?;
        if connection.checked_at.elapsed() > CHECK_EVERY {
            connection.check(self.allow_unsafe).await?;
            connection.checked_at = Instant::now();
        }
        Ok(())
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl Connection {
    /// Runs a statement that has neither parameters nor an answer.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.under_way = true;
        let answer = timeout(CALL_MAX, self.conn.query_drop(sql)).await;
        self.answered(answer)
    }

    /// Whether every answer was read to its end.
    pub(super) fn is_usable(&self) -> bool {
        !self.under_way
    }

    /// Has it closed instead of used again.
    pub(super) fn give_up(&mut self) {
        self.under_way = true;
    }

    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        params: impl Into<Params> + Send,
    ) -> Result<Vec<Row>, StoreError> {
        self.under_way = true;
        let answer = timeout(CALL_MAX, self.conn.exec(sql, params)).await;
        self.answered(answer)
    }

    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        params: impl Into<Params> + Send,
    ) -> Result<u64, StoreError> {
        self.under_way = true;
        let answer = timeout(CALL_MAX, self.conn.exec_drop(sql, params)).await;
        self.answered(answer)?;
        Ok(self.conn.affected_rows())
    }

    /// The same as `query` for a text that is made for one use: it is not prepared and kept.
    pub(super) async fn query_text(&mut self, sql: &str) -> Result<Vec<Row>, StoreError> {
        self.under_way = true;
        let answer = timeout(CALL_MAX, self.conn.query(sql)).await;
        self.answered(answer)
    }

    /// The same as `execute` for such a text.
    pub(super) async fn execute_text(&mut self, sql: &str) -> Result<u64, StoreError> {
        self.run(sql).await?;
        Ok(self.conn.affected_rows())
    }

    pub(super) async fn findings(&mut self) -> Result<Vec<Finding>, StoreError> {
        self.under_way = true;
        let settings = self.conn.query::<(String, String), _>(SETTINGS);
        let settings = timeout(CALL_MAX, settings).await;
        let settings: HashMap<String, String> = self.answered(settings)?.into_iter().collect();
        let get = |name: &str| settings.get(name).map_or("", String::as_str);
        let mut findings = vec![Finding::new("server", get("version"), "any", true)];
        let mut look = |name: &str, wanted: &str, safe: bool| {
            if settings.contains_key(name) {
                findings.push(Finding::new(name, get(name), wanted, safe));
            }
        };
        for name in ["read_only", "super_read_only", "innodb_read_only", "wsrep_on"] {
            look(name, "OFF", get(name) == "OFF");
        }
        let doublewrite = get("innodb_doublewrite");
        look("innodb_doublewrite", "ON", !["OFF", "DETECT_ONLY"].contains(&doublewrite));
        if get("log_bin") == "ON" {
            // Statements of READ COMMITTED transactions cannot be logged as such.
            look("binlog_format", "ROW or MIXED", get("binlog_format") != "STATEMENT");
            // With a log, it is the log that decides after a crash what was committed.
            look("sync_binlog", "1", get("sync_binlog") == "1");
        }
        let flush = "innodb_flush_log_at_trx_commit";
        findings.push(Finding::new(flush, get(flush), "1", get(flush) == "1"));
        Ok(findings)
    }

    /// Refuses a server that follows another, whatever else is allowed, and one that is unsafe.
    async fn check(&mut self, allow_unsafe: bool) -> Result<(), StoreError> {
        let findings = self.findings().await?;
        let follows = |it: &&Finding| it.setting.ends_with("read_only") && it.found != "OFF";
        if let Some(it) = findings.iter().find(follows) {
            let (place, setting) = (&self.place, &it.setting);
            return Err(StoreError::Unavailable(format!(
                "{place} takes no writes: {setting} is on"
            )));
        }
        refuse_unsafe(&findings, allow_unsafe)
    }

    /// Has the server end a transaction that lies idle. MariaDB has a limit of its own for it;
    /// MySQL has one for connections, which ours outlive by being made anew.
    async fn end_idle_transactions(&mut self, seconds: u64) -> Result<(), StoreError> {
        let limit = format!("SET SESSION idle_transaction_timeout = {seconds}");
        match timeout(CALL_MAX, self.conn.query_drop(limit)).await {
            Ok(Err(mysql_async::Error::Server(refusal))) if refusal.code == UNKNOWN_VARIABLE => {
                self.run(&format!("SET SESSION wait_timeout = {seconds}")).await
            }
            answer => self.answered(answer),
        }
    }

    /// How many tables there are, and whether they are keymill's.
    async fn count_tables(&mut self) -> Result<(i64, bool), StoreError> {
        let rows = self.query(TABLES, ()).await?;
        Ok((column(&rows[0], 0), column::<i64>(&rows[0], 1) > 0))
    }

    async fn schema_version(&mut self) -> Result<Option<i32>, StoreError> {
        Ok(column(&self.query(SCHEMA_VERSION, ()).await?[0], 0))
    }

    /// Asks for one value, however long the server takes.
    async fn ask(&mut self, sql: &str) -> Result<Option<Option<i64>>, StoreError> {
        self.conn.query_first(sql).await.map_err(|error| self.fold_error(&error))
    }

    fn answered<T>(
        &mut self,
        answer: Result<Result<T, mysql_async::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => {
                self.under_way = false;
                answer.map_err(|error| self.fold_error(&error))
            }
            Err(_) => {
                let place = &self.place;
                Err(StoreError::Unavailable(format!("{place} did not answer in {CALL_MAX:?}")))
            }
        }
    }

    fn fold_error(&self, error: &mysql_async::Error) -> StoreError {
        fold_error(&self.place, error)
    }
}
