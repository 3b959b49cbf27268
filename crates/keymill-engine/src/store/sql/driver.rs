//! What a database has to do for a store: run jobs in transactions, and a few primitives in each.
//!
//! The algorithms (`spaces`, `leases`, …) are written over [`Transaction`]; `store` hands them to a
//! [`Driver`]. Which statements run, and in which order, is theirs alone; a driver decides nothing.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;

use super::statement::Statement;
use super::value::{Row, Value};
use crate::clock::Clock;
use crate::store::{Finding, Floor, History, KeyId, StoreDescription, StoreError};

/// A statement of `statements`.
pub(super) type Sql = &'static Statement;
/// Its arguments, the items of its list or the rows that it writes.
pub(super) type Values<'a> = &'a [Value<'a>];
/// What can go wrong is the store's.
pub(super) type Result<T> = std::result::Result<T, StoreError>;

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// To change something: it is committed, unless its job fails. A commit that got no answer is in doubt.
    Change,
    /// To read what belongs together, or decides something; nothing is in doubt.
    Look,
    /// To read one list, with one statement that has a limit of its own.
    List,
}

/// What a job gives back once it is done.
pub(super) type Doing<'t, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

/// A database that runs jobs in transactions.
pub(super) trait Driver: fmt::Debug + Send + Sync + 'static {
    /// Its transactions.
    type Tx: Transaction;

    /// The most keys of one fill that do not keep others waiting for long.
    const FILL_MAX: u64;

    /// Runs a job in one transaction.
    fn run<T, J>(&self, aim: Aim, job: J) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        J: for<'t> FnOnce(&'t mut Self::Tx) -> Doing<'t, T> + Send + 'static;

    /// Whether a store that seems to have been rolled back may be a server that lags behind, at the other
    /// end of connections that still lead there: then these are given up, and the question is to be
    /// asked once more.
    fn ask_again(&self) -> bool {
        false
    }

    /// The clock of windows; `own_ms` where the database has none.
    fn clock_ms(&self, _own_ms: i64) -> impl Future<Output = Result<i64>> + Send {
        self.run(Aim::List, |tx| Box::pin(async { tx.clock_ms(&Clock::default()).await }))
    }

    /// Is it safe to lease from, setting by setting.
    fn check(&self) -> impl Future<Output = Result<Vec<Finding>>> + Send;

    /// Brings the schema up to date, and tells what was applied.
    fn migrate(&self) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// The store as people name it.
    fn describe(&self) -> StoreDescription;

    /// A file that every process on this store sees.
    fn floor_file(&self) -> Option<PathBuf> {
        None
    }
}

/// A statement with its arguments.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) sql: Sql,
    /// Its arguments, or the one row that it writes.
    pub(super) values: Vec<Value<'a>>,
}

/// An open transaction.
///
/// Lists and rows are given as one sequence of values, row after row. Where a statement is made for them
/// and there are none, nothing is asked of the database.
pub(super) trait Transaction: Send {
    /// What tells this store from every other. MySQL looks in the same statement whether this is still the
    /// server that takes writes, and whether statements mean there what they should: so it is asked for
    /// before anything is concluded from what was read, and as late as it can be.
    fn identity(&mut self) -> impl Future<Output = Result<String>> + Send;

    /// The history that the server is on.
    fn history(&self) -> History {
        History::default()
    }

    /// The floor that a request carries, or a higher one that others have left beside the database.
    fn floor(&mut self, space: &str, floor: &Floor) -> Result<Floor> {
        let _ = space;
        Ok(floor.clone())
    }

    /// The clock of windows: the database's, or the caller's where it has none.
    fn clock_ms(&mut self, own: &Clock) -> impl Future<Output = Result<i64>> + Send;

    /// The rows that a statement finds; for a statement on a list, those of all its items.
    fn query(
        &mut self,
        sql: Sql,
        values: Values<'_>,
        list: Values<'_>,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send;

    /// Runs a statement, on a list or with the rows that it writes; how many rows it changed.
    fn execute(
        &mut self,
        sql: Sql,
        values: Values<'_>,
        list: Values<'_>,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Runs statements in their order; the rows that each finds. None waits for the answers of those before
    /// it, where the database can be sent several.
    fn run_all(
        &mut self,
        steps: &[Step<'_>],
    ) -> impl Future<Output = Result<Vec<Vec<Row>>>> + Send {
        async move {
            let mut found = Vec::with_capacity(steps.len());
            for Step { sql, values } in steps {
                if sql.reads() {
                    found.push(self.query(sql, values, &[]).await?);
                    continue;
                }
                let (values, row) = values.split_at(if sql.width() > 0 { 0 } else { values.len() });
                self.execute(sql, values, row).await?;
                found.push(Vec::new());
            }
            Ok(found)
        }
    }

    /// Removes the rows of a list; those that were there.
    fn remove(
        &mut self,
        sql: Sql,
        values: Values<'_>,
        list: Values<'_>,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send {
        self.query(sql, values, list)
    }

    /// Writes rows of keys that begin with their id, no id twice, of the space that is the first of the
    /// values; the ids that were not there before.
    fn insert_new(
        &mut self,
        sql: Sql,
        values: Values<'_>,
        rows: Values<'_>,
    ) -> impl Future<Output = Result<Vec<KeyId>>> + Send;
}

impl<'a> Step<'a> {
    pub(super) fn new(sql: Sql, values: impl Into<Vec<Value<'a>>>) -> Step<'a> {
        Step { sql, values: values.into() }
    }
}

/// What to say where the row of the store's identity is missing.
pub(super) fn no_identity() -> StoreError {
    StoreError::Broken("the table `store` has no row: restore a backup".to_owned())
}
