//! One transaction on a PostgreSQL store. Lists are arrays, so each is one statement.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::Poll;

use deadpool::managed::Object;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};

use super::begin::View;
use super::dialect::{CLOCK, DIALECT};
use super::hosts::Hosts;
use super::param::{Array, Param, row_from};
use crate::clock::Clock;
use crate::store::connections::{CALL_MAX, until};
use crate::store::sql::driver::{Result, Sql, Step, Transaction, Values};
use crate::store::sql::value::{Row, Value};
use crate::store::{History, KeyId, StoreError};

/// An open transaction. One that is dropped before it has ended takes its connection with it, and
/// the server rolls it back.
pub(in crate::store::sql) struct Tx {
    connection: Option<Object<Hosts>>,
    identity: String,
    history: History,
    deadline: Instant,
}

impl Tx {
    pub(super) async fn begin(connection: Object<Hosts>, view: View) -> Result<Tx> {
        let mut tx = Tx {
            connection: Some(connection),
            identity: String::new(),
            history: History::default(),
            deadline: Instant::now() + CALL_MAX,
        };
        let begun = until(tx.deadline, tx.connection().begin(view)).await;
        match begun {
            Ok(begun) => {
                tx.identity = begun.identity;
                tx.history = begun.history;
                Ok(tx)
            }
            Err(error) => {
                tx.give_up_outlived();
                Err(error)
            }
        }
    }

    /// Commits what was done, or undoes it where the answer is an error.
    pub(super) async fn finish<T>(mut self, answer: Result<T>) -> Result<T> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.end(Err(error)).await,
        };
        let connection = self.connection();
        let warned = connection.warnings();
        let committed = until(self.deadline, connection.run("COMMIT")).await;
        let doubt = match committed {
            Err(error) => Some(error.to_string()),
            Ok(()) if connection.warnings() != warned => Some(
                "the server gave a warning at the commit: the change may not be on its standby"
                    .to_owned(),
            ),
            Ok(()) => None,
        };
        match (self.connection.take(), &doubt) {
            (Some(connection), Some(_)) => Hosts::doubt(connection),
            // Back into the pool.
            (connection, _) => drop(connection),
        }
        doubt.map_or(Ok(answer), |doubt| Err(StoreError::InDoubt(doubt)))
    }

    /// Ends a transaction that is to change nothing: so there is no doubt about it. Where the store seems
    /// to have been rolled back, the next one to ask does so over a new connection.
    pub(super) async fn end<T>(mut self, answer: Result<T>) -> Result<T> {
        if matches!(answer, Err(StoreError::RolledBack(_)))
            && let Some(connection) = self.connection.take()
        {
            Hosts::give_up(connection);
        } else if until(self.deadline, self.connection().run("ROLLBACK")).await.is_ok()
            && self.connection().is_good()
        {
            drop(self.connection.take());
        } else {
            self.give_up_outlived();
        }
        answer
    }

    async fn query_text(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let rows = until(self.deadline, self.connection().query(sql, params)).await?;
        Ok(rows.iter().map(row_from).collect())
    }

    async fn execute_text(&self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        until(self.deadline, self.connection().execute(sql, params)).await
    }

    async fn step(&self, step: &Step<'_>) -> Result<Vec<Row>> {
        let said = step.sql.said(&DIALECT);
        let params = said.order.iter().map(|place| step.values[*place].typed());
        let params: Vec<Param<'_>> = params.collect();
        if step.sql.reads() {
            return self.query_text(&said.text, &params).await;
        }
        self.execute_text(&said.text, &params).await.map(|_| Vec::new())
    }

    /// Closes the connection; where its server is not the one to use any more, all others too.
    fn give_up_outlived(&mut self) {
        match self.connection.take() {
            Some(connection) if connection.is_outlived() => Hosts::give_up(connection),
            connection => drop(connection.map(Object::take)),
        }
    }

    fn connection(&self) -> &Object<Hosts> {
        self.connection.as_ref().expect("taken only when it ends")
    }
}

impl Transaction for Tx {
    async fn identity(&mut self) -> Result<String> {
        Ok(self.identity.clone())
    }

    fn history(&self) -> History {
        self.history
    }

    async fn clock_ms(&mut self, _own: &Clock) -> Result<i64> {
        Ok(self.query_text(CLOCK, &[]).await?[0].get(0))
    }

    async fn query(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<Vec<Row>> {
        let Some(asked) = Asked::of(sql, values, list) else { return Ok(Vec::new()) };
        self.query_text(&asked.text, &asked.params()).await
    }

    async fn execute(&mut self, sql: Sql, values: Values<'_>, list: Values<'_>) -> Result<u64> {
        let said = sql.said(&DIALECT);
        if let Some(table) = said.many.as_ref().and_then(|many| many.copied.as_ref())
            && !list.is_empty()
        {
            let first = values.iter().chain(&list[..sql.width()]);
            let types: Vec<Type> = first.map(|value| value.typed().1).collect();
            let rows = list.chunks(sql.width()).map(|row| {
                let row = values.iter().chain(row);
                row.map(|value| value as &(dyn ToSql + Sync)).collect()
            });
            return until(self.deadline, self.connection().copy(table, &types, rows)).await;
        }
        let Some(asked) = Asked::of(sql, values, list) else { return Ok(0) };
        self.execute_text(&asked.text, &asked.params()).await
    }

    /// Sent one behind the other, without waiting for each.
    async fn run_all(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>> {
        let mut asked: Vec<_> =
            steps.iter().map(|step| (Box::pin(self.step(step)), None)).collect();
        poll_fn(|context| {
            let mut all = Poll::Ready(());
            for (asked, answer) in &mut asked {
                if answer.is_none() {
                    match asked.as_mut().poll(context) {
                        Poll::Ready(found) => *answer = Some(found),
                        Poll::Pending => all = Poll::Pending,
                    }
                }
            }
            all
        })
        .await;
        asked.into_iter().map(|(_, answer)| answer.expect("all of them have answered")).collect()
    }

    async fn insert_new(
        &mut self,
        sql: Sql,
        values: Values<'_>,
        rows: Values<'_>,
    ) -> Result<Vec<KeyId>> {
        let Some(asked) = Asked::of(sql, values, rows) else { return Ok(Vec::new()) };
        let text = format!("{} RETURNING id", asked.text);
        let new = self.query_text(&text, &asked.params()).await?;
        Ok(new.iter().map(|row| row.get(0)).collect())
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        // What is half done must not go back into the pool.
        drop(self.connection.take().map(Object::take));
    }
}

/// A statement as it is sent.
struct Asked<'a> {
    text: Cow<'a, str>,
    /// Which parameters it takes, of the values and, behind them, the row or the arrays.
    order: Vec<usize>,
    values: Values<'a>,
    row: Values<'a>,
    arrays: Vec<Array<'a>>,
}

impl<'a> Asked<'a> {
    /// Nothing, where it is made for a list and there is none.
    fn of(sql: Sql, values: Values<'a>, list: Values<'a>) -> Option<Asked<'a>> {
        let (said, width) = (sql.said(&DIALECT), sql.width());
        let (text, order) = (Cow::from(&said.text), said.order.clone());
        let (row, arrays): (Values<'a>, _) = (&[], Vec::new());
        let one = Asked { text, order, values, row, arrays };
        let array = |column: usize| Array::column(list, width, column);
        match &said.many {
            _ if width == 0 => Some(one),
            _ if list.is_empty() => None,
            Some(_) if list.len() == width => Some(Asked { row: list, ..one }),
            Some(many) => {
                let arrays: Vec<_> = many.columns.iter().map(|column| array(*column)).collect();
                let order = (0..values.len() + arrays.len()).collect();
                let text = format!("{}{}", many.text, many.tail).into();
                Some(Asked { text, order, arrays, ..one })
            }
            None => Some(Asked { arrays: (0..width).map(array).collect(), ..one }),
        }
    }

    fn params(&self) -> Vec<Param<'_>> {
        let all = self.values.iter().chain(self.row).map(Value::typed);
        let all: Vec<Param<'_>> = all.chain(self.arrays.iter().map(Array::typed)).collect();
        self.order.iter().map(|place| all[*place].clone()).collect()
    }
}
