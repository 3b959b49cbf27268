//! One transaction on a MySQL store.

use deadpool::managed::Object;
use mysql_async::Params;
use tokio::time::Instant;

use super::connection::Connection;
use super::dialect::{CLOCK, DIALECT};
use super::hosts::Hosts;
use super::session::{self, Look};
use crate::clock::Clock;
use crate::store::connections::{CALL_MAX, until};
use crate::store::sql::driver::{Aim, Result, Sql, Transaction, Values};
use crate::store::sql::statement::Said;
use crate::store::sql::value::{Row, Value};
use crate::store::{KeyId, StoreError};

/// An open transaction. One that is dropped before [`Tx::finish`] takes its connection with it,
/// and the server rolls it back.
pub(in crate::store::sql) struct Tx {
    connection: Option<Object<Hosts>>,
    deadline: Instant,
}

impl Tx {
    /// A list is read outside of any transaction.
    pub(super) async fn begin(connection: Object<Hosts>, aim: Aim) -> Result<Tx> {
        let deadline = Instant::now() + CALL_MAX;
        let mut tx = Tx { connection: Some(connection), deadline };
        if aim != Aim::List {
            tx.run(session::BEGIN).await?;
        }
        Ok(tx)
    }

    /// Commits what was done, or undoes it where the answer is an error. One that was to change nothing has
    /// nothing to commit, and nothing in doubt.
    pub(super) async fn finish<T>(mut self, aim: Aim, answer: Result<T>) -> Result<T> {
        match aim {
            Aim::Change if answer.is_ok() => {
                let committed = self.run("COMMIT").await;
                committed.map_err(|error| StoreError::InDoubt(error.to_string()))?;
            }
            Aim::Change | Aim::Look => {
                // Where an answer is missing, the next to come would be taken for another's.
                if !self.connection().is_usable() || self.run("ROLLBACK").await.is_err() {
                    return answer;
                }
            }
            Aim::List => {}
        }
        // Back into the pool.
        drop(self.connection.take());
        answer
    }

    /// Runs a text that is made for one use.
    pub(super) async fn execute_text(&mut self, sql: &str) -> Result<u64> {
        let deadline = self.deadline;
        until(deadline, self.connection().execute_text(sql)).await
    }

    pub(super) async fn query_text(&mut self, sql: &str) -> Result<Vec<Row>> {
        let deadline = self.deadline;
        let rows = until(deadline, self.connection().query_text(sql)).await?;
        Ok(rows.into_iter().map(row_from).collect())
    }

    async fn execute_one(&mut self, said: &Said, values: Values<'_>) -> Result<u64> {
        let (params, deadline) = (params(said, values), self.deadline);
        until(deadline, self.connection().execute(&said.text, params)).await
    }

    async fn run(&mut self, sql: &str) -> Result<()> {
        let deadline = self.deadline;
        until(deadline, self.connection().run(sql)).await
    }

    fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("taken only when it ends")
    }
}

impl Transaction for Tx {
    /// Looks in the same statement whether this is still the server that takes writes, and whether
    /// statements mean here what they should.
    async fn identity(&mut self) -> Result<String> {
        let (isolation, deadline) = (self.connection().isolation(), self.deadline);
        let look = session::look_at(isolation);
        let rows = until(deadline, self.connection().query_text(&look)).await?;
        let row = rows.first().ok_or_else(|| {
            StoreError::Broken("the table `store` has no row: restore a backup".to_owned())
        })?;
        let connection = self.connection();
        match Look::of(row, isolation) {
            Look::Good(identity) => Ok(identity),
            Look::ReadOnly => {
                connection.give_up_all();
                let place = connection.place();
                Err(StoreError::Unavailable(format!("{place} has become read-only")))
            }
            Look::Changed(problem) => {
                connection.give_up();
                let place = connection.place();
                Err(StoreError::Unavailable(format!("{place}: {problem}")))
            }
        }
    }

    async fn clock_ms(&mut self, _own: &Clock) -> Result<i64> {
        Ok(self.query(&CLOCK, &[], &[]).await?[0].get(0))
    }

    async fn query(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<Vec<Row>> {
        let (said, width) = (sql.said(&DIALECT), sql.width());
        if width > 0 {
            return self.query_items(&said.text, values, list, width).await;
        }
        let (params, deadline) = (params(said, values), self.deadline);
        let rows = until(deadline, self.connection().query(&said.text, params)).await?;
        Ok(rows.into_iter().map(row_from).collect())
    }

    async fn execute(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<u64> {
        let (said, width) = (sql.said(&DIALECT), sql.width());
        if width == 0 {
            return self.execute_one(said, values).await;
        }
        match &said.many {
            Some(_) if list.len() == width => {
                self.execute_one(said, &[values, list].concat()).await
            }
            Some(many) => self.insert_rows(many, values, list, width).await,
            None if sql.updates().is_some() => self.update_rows(sql, list).await,
            None => self.execute_items(&said.text, values, list).await,
        }
    }

    async fn remove(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<Vec<Row>> {
        let rows = self.query(sql, values, list).await?;
        let found: Vec<Value<'_>> = rows.iter().map(|row| row.get::<KeyId>(0).into()).collect();
        let removal = sql.said(&DIALECT).removal.as_ref();
        let removal = removal.expect("a removal is a statement of its own");
        self.execute_items(removal, values, &found).await?;
        Ok(rows)
    }

    async fn insert_new(
        &mut self,
        sql: Sql,
        values: Values<'_>,
        rows: Values<'_>,
    ) -> Result<Vec<KeyId>> {
        let (there, width) = (self.lock_ids(sql, values, rows).await?, sql.width());
        let new = rows.chunks(width).filter(|row| !there.contains(&row[0]));
        let new: Vec<Value<'_>> = new.flatten().cloned().collect();
        let ids: Vec<KeyId> = new.iter().step_by(width).filter_map(Value::int).collect();
        if self.execute(sql, values, &new).await? != ids.len() as u64 {
            let problem = "keys were used by another at the same time; try again".to_owned();
            return Err(StoreError::Unavailable(problem));
        }
        Ok(ids)
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        // What is half done must not go back into the pool.
        drop(self.connection.take().map(Object::take));
    }
}

/// The arguments of a statement, one for each use.
fn params(said: &Said, values: Values<'_>) -> Params {
    if said.order.is_empty() {
        return Params::Empty;
    }
    let value = |place: &usize| match &values[*place] {
        Value::Int(number) => mysql_async::Value::from(*number),
        Value::Text(text) => mysql_async::Value::from(text.as_deref()),
        Value::Bytes(bytes) => mysql_async::Value::from(bytes.as_deref()),
        Value::Bool(truth) => mysql_async::Value::from(*truth),
    };
    Params::Positional(said.order.iter().map(value).collect())
}

fn row_from(row: mysql_async::Row) -> Row {
    let value = |value: mysql_async::Value| match value {
        mysql_async::Value::NULL => Value::NULL,
        mysql_async::Value::Bytes(bytes) => bytes.into(),
        mysql_async::Value::Int(number) => number.into(),
        mysql_async::Value::UInt(number) => number.into(),
        other => unreachable!("no column of ours is {other:?}"),
    };
    Row(row.unwrap().into_iter().map(value).collect())
}
