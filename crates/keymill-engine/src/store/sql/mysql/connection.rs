//! One connection to MySQL: how statements are sent, and whether its server is safe.

use std::collections::HashMap;

use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Params, Row};

use super::fold_error;
use crate::store::connections::refuse_unsafe;
use crate::store::sql::driver::Result;
use crate::store::sql::hosts::{Link, Route};
use crate::store::{Finding, StoreError};

/// What is looked at before a server is used. Not every server has all of them.
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'read_only',
    'super_read_only', 'innodb_read_only', 'wsrep_on', 'innodb_flush_log_at_trx_commit',
    'innodb_doublewrite', 'log_bin', 'sync_binlog', 'binlog_format', 'transaction_isolation')";
/// There is no such variable.
const UNKNOWN_VARIABLE: u16 = 1193;
/// The server takes no writes: of anybody but an administrator, or of anybody.
const READ_ONLY: [u16; 2] = [1290, 1836];

/// One connection. Where a future of it is dropped half-way, it cannot be used any more.
#[derive(Debug)]
pub(super) struct Connection {
    conn: Conn,
    pub(super) route: Route,
    /// This server's name for the isolation of transactions.
    pub(super) isolation: &'static str,
}

impl Connection {
    pub(super) fn new(conn: Conn, route: Route) -> Connection {
        Connection { conn, route, isolation: "tx_isolation" }
    }

    pub(super) async fn query(&mut self, sql: &str, params: Params) -> Result<Vec<Row>> {
        self.route.ask();
        let answer = self.conn.exec(sql, params).await;
        self.answered(answer)
    }

    pub(super) async fn execute(&mut self, sql: &str, params: Params) -> Result<u64> {
        self.route.ask();
        let answer = self.conn.exec_drop(sql, params).await;
        self.answered(answer)?;
        Ok(self.conn.affected_rows())
    }

    /// The same as `query` for a text that is made for one use: it is not prepared and kept.
    pub(super) async fn query_text(&mut self, sql: &str) -> Result<Vec<Row>> {
        self.route.ask();
        let answer = self.conn.query(sql).await;
        self.answered(answer)
    }

    /// The same as `execute` for such a text.
    pub(super) async fn execute_text(&mut self, sql: &str) -> Result<u64> {
        self.run(sql).await?;
        Ok(self.conn.affected_rows())
    }

    /// Has the server end a transaction that lies idle. MariaDB has a limit of its own for it;
    /// MySQL has one for connections, which ours outlive by being made anew.
    pub(super) async fn end_idle_transactions(&mut self, seconds: u64) -> Result<()> {
        self.route.ask();
        let limit = format!("SET SESSION idle_transaction_timeout = {seconds}");
        match self.conn.query_drop(limit).await {
            Err(mysql_async::Error::Server(refusal)) if refusal.code == UNKNOWN_VARIABLE => {
                self.run(&format!("SET SESSION wait_timeout = {seconds}")).await
            }
            answer => self.answered(answer),
        }
    }

    /// Is the server safe to lease from, setting by setting.
    pub(super) async fn findings(&mut self) -> Result<Vec<Finding>> {
        self.route.ask();
        let settings = self.conn.query::<(String, String), _>(SETTINGS).await;
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

    fn answered<T>(&mut self, answer: mysql_async::Result<T>) -> Result<T> {
        self.route.answered();
        answer.map_err(|error| {
            let code = if let mysql_async::Error::Server(it) = &error { it.code } else { 0 };
            if READ_ONLY.contains(&code) {
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
        self.route.ask();
        let answer = self.conn.query_drop(sql).await;
        self.answered(answer)
    }

    async fn ping(&mut self) -> Result<()> {
        self.conn.ping().await.map_err(|error| fold_error(&self.route.server_name, &error))
    }

    async fn check(&mut self, allow_unsafe: bool) -> Result<()> {
        let findings = self.findings().await?;
        let follows = |it: &&Finding| it.setting.ends_with("read_only") && it.found != "OFF";
        if let Some(it) = findings.iter().find(follows) {
            let (server_name, setting) = (&self.route.server_name, &it.setting);
            return Err(StoreError::Unavailable(format!(
                "{server_name} accepts no writes: {setting} is on"
            )));
        }
        refuse_unsafe(&findings, allow_unsafe)
    }
}

/// A column of a row, of the type that our own statement gives it.
pub(super) fn column<T: FromValue>(row: &Row, number: usize) -> T {
    row.get(number).expect("the statement asks for this column")
}
