//! One transaction on a SQLite store: on the thread of its connection, where every call answers at once.
//!
//! Lists are run row by row, with one prepared statement: there are no round trips to save.

use rusqlite::types::{ToSqlOutput, Type, ValueRef};
use rusqlite::{CachedStatement, params_from_iter};

use super::connection::Db;
use super::dialect::{DIALECT, IDENTITY};
use crate::clock::Clock;
use crate::store::sql::driver::{Result, Sql, Transaction, Values, no_identity};
use crate::store::sql::statement::NOW;
use crate::store::sql::value::{Row, Value};
use crate::store::values::now;
use crate::store::{Floor, KeyId, StoreError};

/// A statement that is about to be run, for one row or for many.
struct ReadyStatement<'a> {
    statement: CachedStatement<'a>,
    order: &'a [usize],
    values: Values<'a>,
    now: i64,
}

impl Db {
    /// Has a statement run, for each row of a list where it is made for one.
    fn for_each(
        &self,
        sql: Sql,
        values: Values<'_>,
        list: Values<'_>,
        mut run: impl FnMut(&mut ReadyStatement<'_>, Values<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let said = sql.said(&DIALECT);
        let prepared = self.connection.prepare_cached(&said.text);
        let ran = prepared.and_then(|statement| {
            let mut prepared = ReadyStatement { statement, order: &said.order, values, now: now() };
            match sql.width() {
                0 => run(&mut prepared, &[]),
                width => list.chunks(width).try_for_each(|item| run(&mut prepared, item)),
            }
        });
        ran.map_err(|error| self.fold_error(&error))
    }
}

impl ReadyStatement<'_> {
    /// Runs it for a row; how many it changed.
    fn execute(&mut self, row: Values<'_>) -> rusqlite::Result<u64> {
        let values = self.order.iter().map(|index| argument(*index, self.values, row, self.now));
        self.statement.execute(params_from_iter(values)).map(|changed| changed as u64)
    }

    /// The rows that it finds for a row.
    fn query(&mut self, row: Values<'_>, found: &mut Vec<Row>) -> rusqlite::Result<()> {
        let values = self.order.iter().map(|index| argument(*index, self.values, row, self.now));
        let columns = self.statement.column_count();
        let mut rows = self.statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|column| value_from(column, row.get_ref(column)?));
            found.push(Row(values.collect::<rusqlite::Result<_>>()?));
        }
        Ok(())
    }
}

impl Transaction for Db {
    async fn identity(&mut self) -> Result<String> {
        let rows = self.query(&IDENTITY, &[], &[]).await?;
        let row = rows.first().ok_or_else(no_identity)?;
        Ok(row.get(0))
    }

    /// The caller's floor, or the one that all processes on this file share where that is higher:
    /// read here, where no other process can be granted anything meanwhile.
    fn floor(&mut self, space: &str, floor: &Floor) -> Result<Floor> {
        let shared = self.floors.mark(&floor.store, space);
        let shared =
            shared.map_err(|error| StoreError::Unavailable(format!("the floor file {error}")))?;
        Ok(Floor { store: floor.store.clone(), mark: floor.mark.max(shared) })
    }

    async fn clock_ms(&mut self, own: &Clock) -> Result<i64> {
        Ok(own.now_ms())
    }

    async fn query(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<Vec<Row>> {
        let mut found = Vec::new();
        self.for_each(sql, values, list, |prepared, item| prepared.query(item, &mut found))?;
        Ok(found)
    }

    async fn execute(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<u64> {
        let mut changed = 0;
        self.for_each(sql, values, list, |prepared, item| {
            changed += prepared.execute(item)?;
            Ok(())
        })?;
        Ok(changed)
    }

    async fn insert_new(
        &mut self,
        sql: Sql,
        values: Values<'_>,
        rows: Values<'_>,
    ) -> Result<Vec<KeyId>> {
        let mut new = Vec::new();
        self.for_each(sql, values, rows, |prepared, row| {
            if prepared.execute(row)? > 0 {
                new.extend(row[0].int());
            }
            Ok(())
        })?;
        Ok(new)
    }
}

/// An argument: of those that are the same for all rows, of the row's own, or the time.
fn argument<'a>(index: usize, values: Values<'a>, row: Values<'a>, now: i64) -> ToSqlOutput<'a> {
    let value = match index {
        NOW => return ToSqlOutput::Borrowed(ValueRef::Integer(now)),
        index => values.get(index).unwrap_or_else(|| &row[index - values.len()]),
    };
    ToSqlOutput::Borrowed(match value {
        Value::Int(Some(number)) => ValueRef::Integer(*number),
        Value::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
        Value::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
        Value::Bool(truth) => ValueRef::Integer(i64::from(*truth)),
        Value::Int(None) | Value::Text(None) | Value::Bytes(None) => ValueRef::Null,
    })
}

/// What a column holds. What is neither ours nor anybody's text is damage: a key that was read as another
/// one could be handed out as that.
fn value_from(column: usize, value: ValueRef<'_>) -> rusqlite::Result<Value<'static>> {
    Ok(match value {
        ValueRef::Integer(number) => number.into(),
        ValueRef::Text(text) => std::str::from_utf8(text)?.to_owned().into(),
        ValueRef::Blob(bytes) => bytes.to_vec().into(),
        ValueRef::Null => Value::NULL,
        ValueRef::Real(_) => {
            return Err(rusqlite::Error::FromSqlConversionFailure(
                column,
                Type::Real,
                "no column of keymill's is a fraction".into(),
            ));
        }
    })
}
