//! One connection to PostgreSQL, or to a pooler in front of it: how statements are sent, and whether the
//! connection can go on being used.
//!
//! `hosts` makes them, `tx` uses them, one transaction after the other. Nothing that is sent here lasts
//! longer than its transaction: no prepared statement, no setting, no lock.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Row, SimpleQueryMessage, SimpleQueryRow};

use super::begin::{Begun, STORE, SYNCHRONOUS, View};
use super::fold_error;
use super::param::Param;
use crate::store::connections::{CALL_MAX, refuse_unsafe};
use crate::store::{StoreError, Verdict};

/// One checked connection.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    /// Where it leads, for people.
    place: String,
    schema: String,
    /// Of which generation of connections it is.
    pub(super) generation: u64,
    /// The highest timeline that was met anywhere.
    timeline: Arc<AtomicU64>,
    warnings: Arc<AtomicU64>,
    pub(super) checked_at: Instant,
    /// It did not answer in time, or was left within a transaction.
    failed: AtomicBool,
    /// Its server takes no writes, was cut off or has ended, and others may lead to the same one.
    outlived: AtomicBool,
}

impl Connection {
    pub(super) fn new(
        client: Client,
        warnings: Arc<AtomicU64>,
        place: &str,
        schema: &str,
        generation: u64,
        timeline: Arc<AtomicU64>,
    ) -> Connection {
        Connection {
            client,
            place: place.to_owned(),
            schema: schema.to_owned(),
            generation,
            timeline,
            warnings,
            checked_at: Instant::now(),
            failed: AtomicBool::new(false),
            outlived: AtomicBool::new(false),
        }
    }

    /// Begins a transaction, on a server that takes writes and was not cut off.
    pub(super) async fn begin(&self, view: View) -> Result<Begun, StoreError> {
        let begin = view.begin(&self.schema);
        let row = self.last_row(&format!("{begin}; {SYNCHRONOUS}; {STORE}")).await?;
        let row = row.ok_or_else(|| {
            StoreError::Broken("the table `store` has no row: restore a backup".to_owned())
        })?;
        let begun = Begun::of(&row, &self.schema, view, &self.place);
        if let Err(StoreError::Unavailable(_)) = begun {
            self.outlived.store(true, Ordering::Relaxed);
        }
        let begun = begun?;
        self.check_timeline(begun.history.timeline)?;
        Ok(begun)
    }

    /// Asks one thing, in a transaction and a round trip of its own.
    pub(super) async fn inspect(&self, sql: &str) -> Result<SimpleQueryRow, StoreError> {
        let begin = View::Latest.begin(&self.schema);
        let answer = timeout(CALL_MAX, self.last_row(&format!("{begin}; {sql}; ROLLBACK"))).await;
        let answer = answer.unwrap_or_else(|_| Err(self.unanswered()));
        if answer.is_err() {
            // The transaction may be open still.
            self.failed.store(true, Ordering::Relaxed);
        }
        answer?.ok_or_else(|| StoreError::Broken(format!("{} gave no answer to {sql}", self.place)))
    }

    /// Runs statements that have neither parameters nor an answer.
    pub(super) async fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.client.batch_execute(sql).await.map_err(|error| self.fold_error(&error))
    }

    pub(super) async fn query(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let answer = timeout(CALL_MAX, self.client.query_typed(sql, params)).await;
        self.answered(answer)
    }

    pub(super) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        let answer = timeout(CALL_MAX, self.client.execute_typed(sql, params)).await;
        self.answered(answer)
    }

    /// Writes rows in bulk; how many. The driver names the statement, and closes it before the
    /// transaction can end.
    pub(super) async fn copy<'a>(
        &self,
        table: &str,
        types: &[Type],
        rows: impl Iterator<Item = Vec<&'a (dyn ToSql + Sync)>> + Send,
    ) -> Result<u64, StoreError> {
        let sql = format!("COPY {table} FROM STDIN (FORMAT binary)");
        let copy = async {
            let sink = self.client.copy_in::<_, Bytes>(&sql).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, types));
            for row in rows {
                writer.as_mut().write(&row).await?;
            }
            writer.finish().await
        };
        let answer = timeout(CALL_MAX, copy).await;
        self.answered(answer)
    }

    /// How many warnings the server has given so far.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::SeqCst)
    }

    /// Whether it can be used again.
    pub(super) fn is_good(&self) -> bool {
        !self.client.is_closed() && !self.failed.load(Ordering::Relaxed) && !self.is_outlived()
    }

    /// Whether its server is not the one to use any more: so may be those of all other connections.
    pub(super) fn is_outlived(&self) -> bool {
        self.outlived.load(Ordering::Relaxed)
    }

    /// Whether the server is safe, and not one that was cut off.
    pub(super) async fn check(&mut self, allow_unsafe: bool) -> Result<(), StoreError> {
        let findings = self.findings().await?;
        let found = |name: &str| findings.iter().find(|it| it.setting == name);
        if found("role").is_some_and(|it| it.verdict == Verdict::Unsafe) {
            let place = &self.place;
            return Err(StoreError::Unavailable(format!("{place} is a standby")));
        }
        let timeline = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
        let row = self.inspect(timeline).await?;
        let timeline = row.get(0).and_then(|text| u64::from_str_radix(text, 16).ok());
        self.check_timeline(timeline.unwrap_or_default())?;
        self.checked_at = Instant::now();
        refuse_unsafe(&findings, allow_unsafe)
    }

    /// Refuses a server below the highest timeline that was met.
    fn check_timeline(&self, timeline: u64) -> Result<(), StoreError> {
        let met = self.timeline.fetch_max(timeline, Ordering::SeqCst);
        if timeline < met {
            self.outlived.store(true, Ordering::Relaxed);
            let place = &self.place;
            return Err(StoreError::Unavailable(format!(
                "{place} is on timeline {timeline}, but another server is on {met}: this one was \
                 cut off"
            )));
        }
        Ok(())
    }

    /// Runs statements without parameters; the last row of their answers.
    async fn last_row(&self, sql: &str) -> Result<Option<SimpleQueryRow>, StoreError> {
        let answers = self.client.simple_query(sql).await;
        let answers = answers.map_err(|error| self.fold_error(&error))?;
        let row = |answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(row).next_back())
    }

    fn answered<T>(
        &self,
        answer: Result<Result<T, tokio_postgres::Error>, Elapsed>,
    ) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => answer.map_err(|error| self.fold_error(&error)),
            Err(_) => Err(self.unanswered()),
        }
    }

    fn unanswered(&self) -> StoreError {
        self.failed.store(true, Ordering::Relaxed);
        let place = &self.place;
        StoreError::Unavailable(format!("{place} did not answer within {CALL_MAX:?}"))
    }

    fn fold_error(&self, error: &tokio_postgres::Error) -> StoreError {
        if is_outlived(error) {
            self.outlived.store(true, Ordering::Relaxed);
        }
        fold_error(&self.place, error)
    }
}

/// Whether an error tells that the server has ended or takes no writes. On a standby, a transaction
/// cannot be begun to write (0A000), and there is no position to write at (55000).
fn is_outlived(error: &tokio_postgres::Error) -> bool {
    let Some(refusal) = error.as_db_error() else { return true };
    let ended = [Some(Severity::Fatal), Some(Severity::Panic)];
    let read_only = [
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    ];
    ended.contains(&refusal.parsed_severity()) || read_only.contains(refusal.code())
}

/// Reads from a connection for as long as it lives, and counts the server's warnings.
pub(super) fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    warnings: Arc<AtomicU64>,
) where
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
