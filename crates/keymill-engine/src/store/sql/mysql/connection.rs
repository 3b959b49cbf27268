//! One connection to MySQL: whether its server is safe, and whether it may still be used.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Params, Row};
use tokio::time::{Instant, timeout};

use super::fold_error;
use crate::store::connections::{CALL_MAX, CHECK_EVERY, refuse_unsafe};
use crate::store::{Finding, StoreError};

/// What is looked at before a server is used. Not every server has all of them.
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'read_only',
    'super_read_only', 'innodb_read_only', 'wsrep_on', 'innodb_flush_log_at_trx_commit',
    'innodb_doublewrite', 'log_bin', 'sync_binlog', 'binlog_format', 'transaction_isolation')";
const SCHEMA_VERSION: &str = "SELECT MAX(version) FROM refinery_schema_history";
const TABLES: &str = "SELECT COUNT(*), COALESCE(SUM(table_name = 'refinery_schema_history'), 0)
    FROM information_schema.tables WHERE table_schema = DATABASE()";
/// There is no such variable.
const UNKNOWN_VARIABLE: u16 = 1193;
/// The server takes no writes: of anybody but an administrator, or of anybody.
const READ_ONLY: [u16; 2] = [1290, 1836];

/// One checked connection.
#[derive(Debug)]
pub(super) struct Connection {
    conn: Conn,
    place: String,
    /// A request was begun and its answer not read to the end: what comes next on this
    /// connection would be taken for the answer to something else.
    under_way: bool,
    checked_at: Instant,
    /// This server's name for the isolation of transactions.
    isolation: &'static str,
    /// The cohort that it was made in,
    cohort: u64,
    /// and the one that may be used.
    cohorts: Arc<AtomicU64>,
}

impl Connection {
    /// One that was not checked yet. `cohorts` says which cohort of connections may be used.
    pub(super) fn new(conn: Conn, place: &str, cohorts: &Arc<AtomicU64>) -> Connection {
        Connection {
            conn,
            place: place.to_owned(),
            under_way: false,
            checked_at: Instant::now(),
            isolation: "tx_isolation",
            cohort: cohorts.load(Ordering::Relaxed),
            cohorts: Arc::clone(cohorts),
        }
    }

    /// Runs a statement that has neither parameters nor an answer.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.under_way = true;
        let answer = timeout(CALL_MAX, self.conn.query_drop(sql)).await;
        self.answered(answer)
    }

    /// Whether every answer was read to its end, and nothing has shown that it leads to the wrong
    /// server.
    pub(super) fn is_usable(&self) -> bool {
        !self.under_way && self.cohort == self.cohorts.load(Ordering::Relaxed)
    }

    /// Has it closed instead of used again.
    pub(super) fn give_up(&mut self) {
        self.under_way = true;
    }

    /// The same for all that were made along with it: their server takes no writes any more, and the
    /// next request looks for the one that does.
    pub(super) fn give_up_all(&mut self) {
        self.give_up();
        let (made_in, next) = (self.cohort, self.cohort + 1);
        // Where another has seen it too, the next cohort has begun already.
        let _ = self.cohorts.compare_exchange(made_in, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The server, as people name it.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// This server's name for the isolation of transactions.
    pub(super) fn isolation(&self) -> &'static str {
        self.isolation
    }

    pub(super) async fn query(
        &mut self,
        sql: &str,
        params: Params,
    ) -> Result<Vec<Row>, StoreError> {
        self.under_way = true;
        let answer = timeout(CALL_MAX, self.conn.exec(sql, params)).await;
        self.answered(answer)
    }

    pub(super) async fn execute(&mut self, sql: &str, params: Params) -> Result<u64, StoreError> {
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
        // MariaDB has another name for it, and newer ones have both.
        if settings.contains_key("transaction_isolation") {
            self.isolation = "transaction_isolation";
        }
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

    pub(super) async fn ping(&mut self) -> Result<(), StoreError> {
        self.conn.ping().await.map_err(|error| self.fold_error(&error))
    }

    /// Checks it where that was a while ago.
    pub(super) async fn check_again(&mut self, allow_unsafe: bool) -> Result<(), StoreError> {
        if self.checked_at.elapsed() > CHECK_EVERY {
            // What holds for its server holds for the others that lead there.
            self.check(allow_unsafe).await.inspect_err(|_| self.give_up_all())?;
            self.checked_at = Instant::now();
        }
        Ok(())
    }

    /// Refuses a server that follows another, whatever else is allowed, and one that is unsafe.
    pub(super) async fn check(&mut self, allow_unsafe: bool) -> Result<(), StoreError> {
        let findings = self.findings().await?;
        let follows = |it: &&Finding| it.setting.ends_with("read_only") && it.found != "OFF";
        if let Some(it) = findings.iter().find(follows) {
            let (place, setting) = (&self.place, &it.setting);
            return Err(StoreError::Unavailable(format!(
                "{place} accepts no writes: {setting} is on"
            )));
        }
        refuse_unsafe(&findings, allow_unsafe)
    }

    /// Has the server end a transaction that lies idle. MariaDB has a limit of its own for it;
    /// MySQL has one for connections, which ours outlive by being made anew.
    pub(super) async fn end_idle_transactions(&mut self, seconds: u64) -> Result<(), StoreError> {
        let limit = format!("SET SESSION idle_transaction_timeout = {seconds}");
        match timeout(CALL_MAX, self.conn.query_drop(limit)).await {
            Ok(Err(mysql_async::Error::Server(refusal))) if refusal.code == UNKNOWN_VARIABLE => {
                self.run(&format!("SET SESSION wait_timeout = {seconds}")).await
            }
            answer => self.answered(answer),
        }
    }

    /// How many tables there are, and whether they are keymill's.
    pub(super) async fn count_tables(&mut self) -> Result<(i64, bool), StoreError> {
        let rows = self.query(TABLES, Params::Empty).await?;
        Ok((column(&rows[0], 0), column::<i64>(&rows[0], 1) > 0))
    }

    pub(super) async fn schema_version(&mut self) -> Result<Option<i32>, StoreError> {
        Ok(column(&self.query(SCHEMA_VERSION, Params::Empty).await?[0], 0))
    }

    /// Asks for one value, however long the server takes.
    pub(super) async fn ask(&mut self, sql: &str) -> Result<Option<Option<i64>>, StoreError> {
        self.conn.query_first(sql).await.map_err(|error| self.fold_error(&error))
    }

    fn answered<T>(
        &mut self,
        answer: Result<Result<T, mysql_async::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => {
                self.under_way = false;
                answer.map_err(|error| {
                    if is_read_only(&error) {
                        self.give_up_all();
                    }
                    self.fold_error(&error)
                })
            }
            Err(_) => {
                let place = &self.place;
                Err(StoreError::Unavailable(format!("{place} did not answer within {CALL_MAX:?}")))
            }
        }
    }

    fn fold_error(&self, error: &mysql_async::Error) -> StoreError {
        fold_error(&self.place, error)
    }
}

/// A column of a row, of the type that our own statement gives it.
pub(super) fn column<T: FromValue>(row: &Row, number: usize) -> T {
    row.get(number).expect("the statement asks for this column")
}

fn is_read_only(error: &mysql_async::Error) -> bool {
    matches!(error, mysql_async::Error::Server(refusal) if READ_ONLY.contains(&refusal.code))
}
