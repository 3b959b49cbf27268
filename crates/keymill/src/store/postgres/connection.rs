//! Connections to PostgreSQL: which of the hosts, and whether it is safe.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::Severity;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::rows::history_from;
use super::{STORE, fold_error};
use crate::floor::History;
use crate::store::pool::{
    CALL_MAX, CHECK_EVERY, CONNECT_MAX, IDLE_MAX, LOCK_MAX, none_of_them, refuse_unsafe,
};
use crate::store::url::{StoreUrl, Tls};
use crate::store::{Opening, StoreError, Verdict, tls};

const PORT: u16 = 5432;

/// The servers of a URL, of which one takes writes.
pub(super) struct Hosts {
    url: StoreUrl,
    pub(super) schema: String,
    tls: Option<MakeRustlsConnect>,
    allow_unsafe: bool,
    /// The highest timeline met: a host below it was cut off, and is passed over.
    timeline: AtomicU64,
    /// The host that was last connected to.
    last: AtomicUsize,
}

/// One checked connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    place: String,
    statements: Mutex<HashMap<&'static str, Statement>>,
    warnings: Arc<AtomicU64>,
    begin: &'static str,
    checked_at: Instant,
    /// It did not answer in time.
    failed: AtomicBool,
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
            timeline: AtomicU64::new(0),
            last: AtomicUsize::new(0),
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
                let _ = timeout(CONNECT_MAX, self.connect_to(number, &place)).await;
            }
        }
    }

    fn place_of(&self, number: usize) -> String {
        format!("postgres at {}", self.url.hosts[number])
    }

    /// The first host that takes writes, is safe, and was not cut off.
    pub(super) async fn connect(&self) -> Result<Connection, StoreError> {
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
        let mut connection = Connection {
            client,
            place: place.to_owned(),
            statements: Mutex::default(),
            warnings,
            begin: BEGIN,
            checked_at: Instant::now(),
            failed: AtomicBool::new(false),
        };
        let (lock, idle) = (LOCK_MAX.as_millis(), IDLE_MAX.as_millis());
        let (call, schema) = (CALL_MAX.as_millis(), &self.schema);
        // Every statement of ours reads an index in its order. Of a table that was just filled the
        // server has no statistics, and would rather sort millions of keys to find the first.
        connection
            .run(&format!(
                "SET lock_timeout = {lock}; SET statement_timeout = {call};
                 SET idle_in_transaction_session_timeout = {idle};
                 SET enable_sort = off; SET enable_bitmapscan = off; SET enable_seqscan = off; SET enable_hashjoin = off;
                 SET enable_mergejoin = off; SET jit = off;
                 SET search_path = \"{schema}\""
            ))
            .await?;
        connection.check(self.allow_unsafe).await?;
        self.check_timeline(&connection).await?;
        Ok(connection)
    }

    async fn check_timeline(&self, connection: &Connection) -> Result<(), StoreError> {
        let read = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
        let rows = connection.query(read, &[]).await?;
        let found = u64::from_str_radix(rows[0].get(0), 16).unwrap_or_default();
        let met = self.timeline.fetch_max(found, Ordering::SeqCst);
        if found < met {
            let place = &connection.place;
            return Err(StoreError::Unavailable(format!(
                "{place} is on timeline {found} and another was met on {met}: it was cut off"
            )));
        }
        Ok(())
    }
}

const SESSION_ATTRS: &str = "target_session_attrs";
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = on";
/// Where the server waits for its standby to apply, it goes on doing so.
const BEGIN_APPLY: &str = "BEGIN; SET LOCAL synchronous_commit = remote_apply";

impl Manager for Hosts {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        self.connect().await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<StoreError> {
        if connection.client.is_closed() || connection.failed.load(Ordering::Relaxed) {
            return Err(RecycleError::message("closed"));
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

impl Connection {
    /// Runs statements that have neither parameters nor an answer.
    pub(super) async fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.client.batch_execute(sql).await.map_err(|error| self.fold_error(&error))
    }

    pub(super) async fn query(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.statement(sql).await?;
        let answer = timeout(CALL_MAX, self.client.query(&statement, params)).await;
        self.answered(answer)
    }

    pub(super) async fn execute(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        let statement = self.statement(sql).await?;
        let answer = timeout(CALL_MAX, self.client.execute(&statement, params)).await;
        self.answered(answer)
    }

    /// Writes rows in bulk; how many.
    pub(super) async fn copy<'a>(
        &self,
        sql: &'static str,
        types: &[Type],
        rows: impl Iterator<Item = [&'a (dyn ToSql + Sync); 3]> + Send,
    ) -> Result<u64, StoreError> {
        let copy = async {
            let sink = self.client.copy_in::<_, Bytes>(sql).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, types));
            for row in rows {
                writer.as_mut().write(&row).await?;
            }
            writer.finish().await
        };
        let answer = timeout(CALL_MAX, copy).await;
        self.answered(answer)
    }

    /// The server's history as it is now.
    pub(super) async fn history(&self) -> Result<History, StoreError> {
        Ok(self.query(STORE, &[]).await?.first().map(history_from).unwrap_or_default())
    }

    /// How many warnings the server has given so far.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::SeqCst)
    }

    pub(super) fn begin_statement(&self) -> &'static str {
        self.begin
    }

    async fn check(&mut self, allow_unsafe: bool) -> Result<(), StoreError> {
        let findings = self.findings().await?;
        let found = |name: &str| findings.iter().find(|it| it.setting == name);
        if found("role").is_some_and(|it| it.verdict == Verdict::Unsafe) {
            let place = &self.place;
            return Err(StoreError::Unavailable(format!("{place} is a standby")));
        }
        if found("synchronous_commit").is_some_and(|it| it.found == "remote_apply") {
            self.begin = BEGIN_APPLY;
        }
        self.checked_at = Instant::now();
        refuse_unsafe(&findings, allow_unsafe)
    }

    async fn statement(&self, sql: &'static str) -> Result<Statement, StoreError> {
        let known = self.statements().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let prepared = self.answered(timeout(CALL_MAX, self.client.prepare(sql)).await)?;
        self.statements().insert(sql, prepared.clone());
        Ok(prepared)
    }

    fn statements(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Statement>> {
        self.statements.lock().expect("nothing panics while it is held")
    }

    fn answered<T>(
        &self,
        answer: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => answer.map_err(|error| self.fold_error(&error)),
            Err(_) => {
                self.failed.store(true, Ordering::Relaxed);
                let place = &self.place;
                Err(StoreError::Unavailable(format!("{place} did not answer in {CALL_MAX:?}")))
            }
        }
    }

    fn fold_error(&self, error: &tokio_postgres::Error) -> StoreError {
        fold_error(&self.place, error)
    }
}

/// Reads from a connection for as long as it lives, and counts the server's warnings.
fn drive<S, T>(mut connection: tokio_postgres::Connection<S, T>, warnings: Arc<AtomicU64>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message
                && notice.parsed_severity() == Some(Severity::Warning)
            {
                tracing::warn!("postgres warns: {}", notice.message());
                // Before the answer that it belongs to reaches the one who waits for it.
                warnings.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
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
