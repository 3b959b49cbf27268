//! PostgreSQL: the store for many instances that most already have.
//!
//! A lease is one transaction on the space's row, committed with `synchronous_commit = on` or
//! more; never a sequence, which a crash may set back. Several hosts may be named: the one that
//! takes writes is found, and found again after a failover.
//!
//! Everything runs in transactions that bring their settings along, and nothing lasts longer than one:
//! so a pooler in transaction mode may stand in between, and the defaults of a server do not matter.
//!
//! # Invariants
//!
//! - Every transaction learns the system identifier and the timeline of the server it runs on,
//!   and they are part of the floor: a primary that was cut off and comes back is refused.
//! - A warning at commit is a doubt: the server says so when it gave up waiting for its
//!   synchronous standby.

mod begin;
mod connection;
mod dialect;
mod hosts;
mod param;
mod safety;
mod schema;
mod transaction;

use deadpool::managed::Pool;
use tokio_postgres::error::SqlState;

use begin::View;
use hosts::Hosts;
use transaction::Tx;

use super::driver::{Aim, Doing, Driver};
use super::store::SqlStore;
use crate::store::{FILL_MAX, Finding, Opening, Place, StoreError, connections};

/// A PostgreSQL database.
#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Pool<Hosts>,
    created: bool,
}

/// Connects to the server that takes writes, making keymill's schema where there is none if
/// `create`, and brings it up to date.
pub(crate) async fn open(url: &str, opening: Opening) -> Result<SqlStore<Postgres>, StoreError> {
    let pool = connections::new(Hosts::parse(url, opening)?);
    let created = pool.manager().prepare(opening).await?;
    Ok(SqlStore::new(Postgres { pool, created }))
}

impl Postgres {
    /// Where a connection turns out to lead to a server that is not the one to use any more, nothing was
    /// asked of it yet: a new one is asked.
    async fn begin(&self, view: View) -> Result<Tx, StoreError> {
        let hosts = self.pool.manager();
        let generation = hosts.generation();
        let tx = Tx::begin(connections::get(&self.pool).await?, view).await;
        if tx.is_ok() || hosts.generation() == generation {
            return tx;
        }
        Tx::begin(connections::get(&self.pool).await?, view).await
    }
}

impl Driver for Postgres {
    type Tx = Tx;

    const FILL_MAX: u64 = FILL_MAX;

    async fn run<T, J>(&self, aim: Aim, job: J) -> Result<T, StoreError>
    where
        T: Send + 'static,
        J: for<'t> FnOnce(&'t mut Tx) -> Doing<'t, T> + Send + 'static,
    {
        let view = if aim == Aim::Change { View::Latest } else { View::Snapshot };
        let mut tx = self.begin(view).await?;
        let answer = job(&mut tx).await;
        if aim == Aim::Change { tx.finish(answer).await } else { tx.end(answer).await }
    }

    /// [`Tx::end`] has given up all connections.
    fn ask_again(&self) -> bool {
        true
    }

    async fn clock_ms(&self, _own_ms: i64) -> Result<i64, StoreError> {
        let row = connections::get(&self.pool).await?.inspect(dialect::CLOCK).await?;
        let clock = row.get(0).and_then(|millis| millis.parse().ok());
        clock.ok_or_else(|| StoreError::Broken("the server's clock shows no time".to_owned()))
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        connections::get(&self.pool).await?.findings().await
    }

    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        self.pool.manager().migrate().await
    }

    fn place(&self) -> Place {
        let location = self.pool.manager().shown();
        Place { kind: "postgres", location, created: self.created }
    }
}

/// The one place where PostgreSQL's errors become the store's.
fn fold_error(place: &str, error: &tokio_postgres::Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else {
        // The driver's own words hide the cause: "error communicating with the server".
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        return StoreError::Unavailable(format!("{place}: {error}{}", cause.unwrap_or_default()));
    };
    let message = refusal.message();
    match refusal.code() {
        &SqlState::UNDEFINED_TABLE
        | &SqlState::UNDEFINED_COLUMN
        | &SqlState::INVALID_SCHEMA_NAME => StoreError::Broken(format!(
            "{place} lacks keymill's tables ({message}); run `keymill store migrate`"
        )),
        &SqlState::READ_ONLY_SQL_TRANSACTION
        | &SqlState::FEATURE_NOT_SUPPORTED
        | &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => StoreError::Unavailable(format!(
            "{place} accepts no writes, it may be a standby: {message}"
        )),
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Broken(format!(
            "{place}: {message}; grant this user the privilege, or run `keymill store migrate` as \
             a user who has it"
        )),
        &SqlState::INVALID_CATALOG_NAME => {
            StoreError::Broken(format!("{place}: {message}; create it with CREATE DATABASE"))
        }
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::Broken(format!("{place}: {message}"))
        }
        _ => StoreError::Unavailable(format!("{place}: {message}")),
    }
}
