//! One transaction on a MySQL store.

use mysql_async::Params;

use super::dialect::{CLOCK, DIALECT};
use super::server::MysqlServer;
use super::session::{self, SessionState};
use crate::clock::Clock;
use crate::store::connections::until;
use crate::store::sql::driver::{Aim, Result, Sql, Transaction, Values, no_identity};
use crate::store::sql::hosts::{InTransaction, Link};
use crate::store::sql::statement::{ITEMS, Said, list_texts};
use crate::store::sql::value::{Row, Value};
use crate::store::{KeyId, StoreError};

/// An open transaction.
pub(in crate::store::sql) struct Tx {
    link: InTransaction<MysqlServer>,
}

impl Tx {
    /// A list is read outside of any transaction.
    pub(super) async fn begin(link: InTransaction<MysqlServer>, aim: Aim) -> Result<Tx> {
        let mut tx = Tx { link };
        if aim != Aim::List {
            tx.run(&session::begin()).await?;
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
                if !self.link.route.is_usable() || self.run("ROLLBACK").await.is_err() {
                    return answer;
                }
            }
            Aim::List => {}
        }
        self.link.put_back();
        answer
    }

    async fn run(&mut self, sql: &str) -> Result<()> {
        until(self.link.deadline, self.link.run(sql)).await
    }

    async fn execute_one(&mut self, said: &Said, values: Values<'_>) -> Result<u64> {
        until(self.link.deadline, self.link.execute(&said.text, params(said, values))).await
    }

    /// Runs texts that are made for one use; how many rows they changed.
    async fn execute_texts(&mut self, texts: Vec<String>) -> Result<u64> {
        let mut changed = 0;
        for text in texts {
            changed += until(self.link.deadline, self.link.execute_text(&text)).await?;
        }
        Ok(changed)
    }

    async fn query_texts(&mut self, texts: Vec<String>) -> Result<Vec<Row>> {
        let mut found = Vec::new();
        for text in texts {
            let rows = until(self.link.deadline, self.link.query_text(&text)).await?;
            found.extend(rows.into_iter().map(row_from));
        }
        Ok(found)
    }
}

impl Transaction for Tx {
    /// Looks in the same statement whether this is still the server that takes writes, and whether
    /// statements mean here what they should.
    async fn identity(&mut self) -> Result<String> {
        let isolation = self.link.isolation;
        let look = session::look_at(isolation);
        let rows = until(self.link.deadline, self.link.query_text(&look)).await?;
        let row = rows.first().ok_or_else(no_identity)?;
        let (route, server_name) = (&self.link.route, &self.link.route.server_name);
        let problem = match SessionState::of(row, isolation) {
            SessionState::Good(identity) => return Ok(identity),
            SessionState::ReadOnly => {
                route.give_up_all();
                format!("{server_name} has become read-only")
            }
            SessionState::Changed(problem) => {
                route.give_up();
                format!("{server_name}: {problem}")
            }
        };
        Err(StoreError::Unavailable(problem))
    }

    async fn clock_ms(&mut self, _own: &Clock) -> Result<i64> {
        Ok(self.query(&CLOCK, &[], &[]).await?[0].get(0))
    }

    async fn query(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<Vec<Row>> {
        if sql.width() > 0 {
            return self.query_texts(sql.texts(&DIALECT, values, list)).await;
        }
        let (said, deadline) = (sql.said(&DIALECT), self.link.deadline);
        let asked = self.link.query(&said.text, params(said, values));
        Ok(until(deadline, asked).await?.into_iter().map(row_from).collect())
    }

    async fn execute(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<u64> {
        let (said, width) = (sql.said(&DIALECT), sql.width());
        if width == 0 {
            return self.execute_one(said, values).await;
        }
        if said.many.is_some() && list.len() == width {
            return self.execute_one(said, &[values, list].concat()).await;
        }
        self.execute_texts(sql.texts(&DIALECT, values, list)).await
    }

    async fn remove(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<Vec<Row>> {
        let rows = self.query(sql, values, list).await?;
        let found: Vec<Value<'_>> = rows.iter().map(|row| row.get::<KeyId>(0).into()).collect();
        let removal = sql.said(&DIALECT).removal.as_ref();
        let removal = removal.expect("a removal is a statement of its own");
        self.execute_texts(list_texts(removal, values, &found, 1)).await?;
        Ok(rows)
    }

    async fn insert_new(
        &mut self,
        sql: Sql,
        values: Values<'_>,
        rows: Values<'_>,
    ) -> Result<Vec<KeyId>> {
        let (into, width) = (sql.into(), sql.width());
        // What is there is locked from here on.
        let there = format!(
            "SELECT id FROM {into} FORCE INDEX (PRIMARY) WHERE space = $1 AND id IN ({ITEMS}) \
             FOR UPDATE"
        );
        let ids: Vec<Value<'_>> = rows.iter().step_by(width).cloned().collect();
        let there = self.query_texts(list_texts(&there, values, &ids, 1)).await?;
        let there: Vec<Value<'_>> = there.iter().map(|row| row.get::<KeyId>(0).into()).collect();
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

/// The arguments of a statement, one for each use.
fn params(said: &Said, values: Values<'_>) -> Params {
    if said.order.is_empty() {
        return Params::Empty;
    }
    let value = |index: &usize| match &values[*index] {
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
