//! One connection to PostgreSQL, or to a pooler in front of it: how statements are sent, and what shows that
//! it leads to the wrong server.
//!
//! `server` makes them, `transaction` uses them, one transaction after the other. Nothing that is sent here
//! lasts longer than its transaction: no prepared statement, no setting, no lock.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::Severity;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Error, Row, SimpleQueryMessage, SimpleQueryRow};

use super::begin::{Begun, STORE, SYNCHRONOUS, begin};
use super::param::Param;
use super::{READ_ONLY, fold_error, safety};
use crate::store::connections::refuse_unsafe;
use crate::store::sql::driver::{Aim, Result, no_identity};
use crate::store::sql::hosts::{Link, Route};
use crate::store::{Finding, StoreError, Verdict};

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) route: Route,
    pub(super) schema: String,
    /// The highest timeline that was met anywhere.
    pub(super) timeline: Arc<AtomicU64>,
    pub(super) warnings: Arc<AtomicU64>,
}

impl Connection {
    /// Begins a transaction, on a server that takes writes and was not cut off.
    pub(super) async fn begin(&self, aim: Aim) -> Result<Begun> {
        let begin = begin(aim, &self.schema);
        let row = self.last_row(&format!("{begin}; {SYNCHRONOUS}; {STORE}")).await?;
        let row = row.ok_or_else(no_identity)?;
        let begun = Begun::of(&row, &self.schema, aim, &self.route.server_name);
        if let Err(StoreError::Unavailable(_)) = begun {
            self.route.give_up_all();
        }
        let begun = begun?;
        self.check_timeline(begun.history.timeline)?;
        Ok(begun)
    }

    /// Asks one thing, in a transaction and a round trip of its own. Where that fails, the transaction may
    /// be open still, and the connection is not used again.
    pub(super) async fn inspect(&self, sql: &str) -> Result<SimpleQueryRow> {
        let begin = begin(Aim::Change, &self.schema);
        self.route.ask();
        let row = self.last_row(&format!("{begin}; {sql}; ROLLBACK")).await?;
        self.route.answered();
        row.ok_or_else(|| {
            StoreError::Broken(format!("{} gave no answer to {sql}", self.route.server_name))
        })
    }

    pub(super) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.answered(self.client.query_typed(sql, params).await)
    }

    pub(super) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        self.answered(self.client.execute_typed(sql, params).await)
    }

    /// Writes rows in bulk; how many. The driver names the statement, and closes it before the
    /// transaction can end.
    pub(super) async fn copy<'a>(
        &self,
        table: &str,
        types: &[Type],
        rows: impl Iterator<Item = Vec<&'a (dyn ToSql + Sync)>> + Send,
    ) -> Result<u64> {
        let sql = format!("COPY {table} FROM STDIN (FORMAT binary)");
        let copy = async {
            let sink = self.client.copy_in::<_, Bytes>(&sql).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, types));
            for row in rows {
                writer.as_mut().write(&row).await?;
            }
            writer.finish().await
        };
        self.answered(copy.await)
    }

    /// Commits. After an error, nobody knows whether that was done; what it means for the other connections,
    /// the caller decides.
    pub(super) async fn commit(&self) -> Result<()> {
        let warned = self.warnings.load(Ordering::SeqCst);
        let committed = self.client.batch_execute("COMMIT").await;
        committed.map_err(|error| fold_error(&self.route.server_name, &error))?;
        if self.warnings.load(Ordering::SeqCst) == warned {
            return Ok(());
        }
        let problem =
            "the server gave a warning at the commit: the change may not be on its standby";
        Err(StoreError::Broken(problem.to_owned()))
    }

    /// Refuses a server below the highest timeline that was met.
    fn check_timeline(&self, timeline: u64) -> Result<()> {
        let met = self.timeline.fetch_max(timeline, Ordering::SeqCst);
        if timeline < met {
            self.route.give_up_all();
            let server_name = &self.route.server_name;
            return Err(StoreError::Unavailable(format!(
                "{server_name} is on timeline {timeline}, but another server is on {met}: this one was \
                 cut off"
            )));
        }
        Ok(())
    }

    /// Runs statements without parameters; the last row of their answers.
    async fn last_row(&self, sql: &str) -> Result<Option<SimpleQueryRow>> {
        let answers = self.answered(self.client.simple_query(sql).await)?;
        let row = |answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(row).next_back())
    }

    /// Is the server safe to lease from, setting by setting.
    pub(super) async fn findings(&mut self) -> Result<Vec<Finding>> {
        Ok(safety::findings(&self.inspect(safety::SETTINGS).await?))
    }

    fn answered<T>(&self, answer: std::result::Result<T, Error>) -> Result<T> {
        answer.map_err(|error| {
            if is_outlived(&error) {
                self.route.give_up_all();
            }
            fold_error(&self.route.server_name, &error)
        })
    }
}

impl Link for Connection {
    fn route(&mut self) -> &mut Route {
        &mut self.route
    }

    async fn run(&mut self, sql: &str) -> Result<()> {
        self.answered(self.client.batch_execute(sql).await)
    }

    async fn ping(&mut self) -> Result<()> {
        match self.client.is_closed() {
            true => Err(StoreError::Unavailable(format!("{} hung up", self.route.server_name))),
            false => Ok(()),
        }
    }

    /// Refuses one that was cut off, too.
    async fn check(&mut self, allow_unsafe: bool) -> Result<()> {
        let findings = self.findings().await?;
        if findings.iter().any(|it| it.setting == "role" && it.verdict == Verdict::Unsafe) {
            let server_name = &self.route.server_name;
            return Err(StoreError::Unavailable(format!("{server_name} is a standby")));
        }
        let timeline = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
        let row = self.inspect(timeline).await?;
        let timeline = row.get(0).and_then(|text| u64::from_str_radix(text, 16).ok());
        self.check_timeline(timeline.unwrap_or_default())?;
        refuse_unsafe(&findings, allow_unsafe)
    }
}

/// Whether an error tells that the server has ended or takes no writes.
fn is_outlived(error: &Error) -> bool {
    let Some(refusal) = error.as_db_error() else { return true };
    let ended = [Some(Severity::Fatal), Some(Severity::Panic)];
    ended.contains(&refusal.parsed_severity()) || READ_ONLY.contains(refusal.code())
}

/// Reads from a connection for as long as it lives, and counts the server's warnings.
pub(super) fn drive<S, T>(
    (client, mut connection): (Client, tokio_postgres::Connection<S, T>),
    warnings: Arc<AtomicU64>,
) -> Client
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
    client
}
