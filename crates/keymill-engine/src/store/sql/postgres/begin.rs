//! How every transaction begins: with its settings, and with a look at what the server has made of
//! them, all in one round trip.
//!
//! Nothing is set for longer than a transaction. Behind a pooler the server connection belongs to a
//! client for just that long; and what the server, the database or the user have by default may be
//! anything: read-only, another search path, one millisecond for a statement.

use tokio_postgres::SimpleQueryRow;

use crate::store::connections::{CALL_MAX, IDLE_MAX, LOCK_MAX};
use crate::store::sql::driver::{Aim, Result};
use crate::store::{History, StoreError};

/// Waits for a synchronous standby, where the server has one. Where it waits for its standby to apply,
/// it goes on doing so.
pub(super) const SYNCHRONOUS: &str = "SELECT set_config('synchronous_commit',
    CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END,
    true)";

/// The store, and the server that this transaction runs on: its history, and what it has made of the
/// settings that the transaction began with. A standby has no current position, and refuses.
pub(super) const STORE: &str =
    "SELECT identity, (SELECT system_identifier FROM pg_control_system()),
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), current_setting('transaction_isolation'),
    current_setting('transaction_read_only'), current_schema(), current_setting('row_security'),
    current_setting('synchronous_commit') FROM store";

/// The statements that begin a transaction in a schema. The time limit comes first: the rest has to
/// be done within it. A table of somebody's session must not stand before ours, hence `pg_temp`.
///
/// Every statement of ours reads an index in its order. Of a table that was just filled the server
/// has no statistics, and would rather sort millions of keys to find the first.
pub(super) fn begin(aim: Aim, schema: &str) -> String {
    let (isolation, call) = (isolation(aim), CALL_MAX.as_millis());
    let (lock, idle) = (LOCK_MAX.as_millis(), IDLE_MAX.as_millis());
    format!(
        "BEGIN ISOLATION LEVEL {isolation}, READ WRITE; SET LOCAL statement_timeout = {call};
         SET LOCAL search_path = \"{schema}\", pg_temp; SET LOCAL lock_timeout = {lock};
         SET LOCAL idle_in_transaction_session_timeout = {idle};
         SET LOCAL row_security = off; SET LOCAL client_min_messages = warning;
         SET LOCAL enable_indexscan = on; SET LOCAL enable_nestloop = on;
         SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off;
         SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off;
         SET LOCAL enable_mergejoin = off; SET LOCAL jit = off"
    )
}

/// A transaction that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    /// The identity of the store.
    pub(super) identity: String,
    /// The history that its server is on.
    pub(super) history: History,
}

impl Begun {
    /// From a row of `STORE`; refuses a transaction that is not as it was begun, which something between
    /// us and the server must have changed.
    pub(super) fn of(
        row: &SimpleQueryRow,
        schema: &str,
        aim: Aim,
        server_name: &str,
    ) -> Result<Begun> {
        let text = |column: usize| row.get(column).unwrap_or_default();
        if text(4) != "off" {
            return Err(StoreError::Unavailable(format!(
                "{server_name} accepts no writes: transaction_read_only is {}",
                text(4)
            )));
        }
        let settings = [
            ("transaction_isolation", text(3), isolation(aim)),
            ("search_path", text(5), schema),
            ("row_security", text(6), "off"),
        ];
        let safe = ["on", "remote_apply"].contains(&text(7));
        let commit = ("synchronous_commit", text(7), "on or remote_apply");
        let wrong = settings.into_iter().find(|(_, found, wanted)| found != wanted);
        if let Some((setting, found, wanted)) = wrong.or((!safe).then_some(commit)) {
            return Err(StoreError::Broken(format!(
                "{server_name} has {setting} = {found} in a transaction that keymill began with \
                 {wanted}; a proxy may not pass on SET LOCAL"
            )));
        }
        let server: i64 = text(1).parse().unwrap_or_default();
        let timeline = u64::from_str_radix(text(2), 16).unwrap_or_default();
        let history = History { server: server.cast_unsigned(), timeline };
        Ok(Begun { identity: text(0).to_owned(), history })
    }
}

/// Changes lock what they decide on, and see what is committed when a statement begins. Reads that belong
/// together see what was committed when the transaction began.
fn isolation(aim: Aim) -> &'static str {
    if aim == Aim::Change { "read committed" } else { "repeatable read" }
}
