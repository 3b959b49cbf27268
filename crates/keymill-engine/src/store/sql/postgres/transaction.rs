//! One transaction on a PostgreSQL store. Lists are arrays, so each is one statement.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::Poll;

use tokio_postgres::types::{ToSql, Type};

use super::begin::Begun;
use super::dialect::{CLOCK, DIALECT};
use super::param::{Array, Param, row_from};
use super::server::PostgresServer;
use crate::clock::Clock;
use crate::store::connections::until;
use crate::store::sql::driver::{Aim, Result, Sql, Step, Transaction, Values};
use crate::store::sql::hosts::{InTransaction, Link};
use crate::store::sql::value::{Row, Value};
use crate::store::{History, KeyId, StoreError};

/// An open transaction.
pub(in crate::store::sql) struct Tx {
    link: InTransaction<PostgresServer>,
    begun: Begun,
}

impl Tx {
    pub(super) async fn begin(link: InTransaction<PostgresServer>, aim: Aim) -> Result<Tx> {
        let begun = until(link.deadline, link.begin(aim)).await?;
        Ok(Tx { link, begun })
    }

    /// Commits what was done, or undoes it where the answer is an error. One that was to change nothing has
    /// nothing to commit, and nothing in doubt. Where the store seems to have been rolled back, the next
    /// one to ask does so over a new connection.
    pub(super) async fn finish<T>(self, aim: Aim, answer: Result<T>) -> Result<T> {
        let Tx { mut link, .. } = self;
        if aim == Aim::Change && answer.is_ok() {
            if let Err(error) = until(link.deadline, link.commit()).await {
                link.route.doubt();
                return Err(StoreError::InDoubt(error.to_string()));
            }
            link.put_back();
        } else if let Err(StoreError::RolledBack(_)) = answer {
            link.route.give_up_all();
        } else if until(link.deadline, link.run("ROLLBACK")).await.is_ok() && link.route.is_usable()
        {
            link.put_back();
        }
        answer
    }

    async fn query_text(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let rows = until(self.link.deadline, self.link.query(sql, params)).await?;
        Ok(rows.iter().map(row_from).collect())
    }

    async fn execute_text(&self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        until(self.link.deadline, self.link.execute(sql, params)).await
    }

    async fn step(&self, step: &Step<'_>) -> Result<Vec<Row>> {
        let said = step.sql.said(&DIALECT);
        let params = said.order.iter().map(|index| step.values[*index].typed());
        let params: Vec<Param<'_>> = params.collect();
        if step.sql.reads() {
            return self.query_text(&said.text, &params).await;
        }
        self.execute_text(&said.text, &params).await.map(|_| Vec::new())
    }
}

impl Transaction for Tx {
    async fn identity(&mut self) -> Result<String> {
        Ok(self.begun.identity.clone())
    }

    fn history(&self) -> History {
        self.begun.history
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
            return until(self.link.deadline, self.link.copy(table, &types, rows)).await;
        }
        let Some(asked) = Asked::of(sql, values, list) else { return Ok(0) };
        self.execute_text(&asked.text, &asked.params()).await
    }

    /// Sent one behind the other, without waiting for each: a step that was polled once is on its way.
    async fn run_all(&mut self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>> {
        let mut asked = Vec::with_capacity(steps.len());
        for step in steps {
            let mut step = Box::pin(self.step(step));
            let early = poll_fn(|context| Poll::Ready(step.as_mut().poll(context))).await;
            asked.push((step, early));
        }
        let mut answers = Vec::with_capacity(steps.len());
        for (step, early) in asked {
            answers.push(if let Poll::Ready(answer) = early { answer } else { step.await });
        }
        answers.into_iter().collect()
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
        self.order.iter().map(|index| all[*index].clone()).collect()
    }
}
