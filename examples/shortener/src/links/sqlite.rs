//! Links in a SQLite file: one connection, and every commit is on disk before it is acknowledged.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ErrorCode, Row, ToSql, params_from_iter};

use super::{Error, Link, SCHEMA, Value};

/// How long to wait for another process that writes.
const BUSY_TIME_MAX: Duration = Duration::from_secs(5);

pub(super) struct Sqlite(Arc<Mutex<Connection>>);

impl Sqlite {
    pub(super) fn open(path: &str) -> Result<Sqlite, Error> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIME_MAX)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Sqlite(Arc::new(Mutex::new(connection))))
    }

    pub(super) async fn rows(
        &self,
        statement: &'static str,
        values: Vec<Value>,
    ) -> Result<Vec<Link>, Error> {
        let connection = self.0.clone();
        let work = tokio::task::spawn_blocking(move || {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let mut statement = connection.prepare_cached(statement)?;
            let rows = statement.query_map(params_from_iter(values), link)?;
            Ok(rows.collect::<Result<Vec<_>, _>>()?)
        });
        work.await.map_err(Error::lasting)?
    }
}

fn link(row: &Row<'_>) -> rusqlite::Result<Link> {
    Ok(Link {
        key: row.get("key")?,
        owner: row.get("owner")?,
        url: row.get("url")?,
        is_alias: row.get("is_alias")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        ended_at: row.get("ended_at")?,
    })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Value::Text(text) => text.to_sql(),
            Value::Number(number) => number.to_sql(),
            Value::Bool(is_so) => is_so.to_sql(),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::temporary(error),
            _ => Error::lasting(error),
        }
    }
}
