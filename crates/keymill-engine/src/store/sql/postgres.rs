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
mod param;
mod safety;
mod schema;
mod server;
mod transaction;

use tokio_postgres::error::SqlState;

use server::PostgresServer;
use transaction::Tx;

use super::driver::{Aim, Doing, Driver};
use super::hosts::{Hosts, InTransaction};
use super::store::SqlStore;
use crate::store::connections::{self, Connections, within_call};
use crate::store::{FILL_MAX, Finding, Opening, StoreDescription, StoreError};

/// What a server that takes no writes answers. On a standby, a transaction cannot be begun to write (0A000),
/// and there is no position to write at (55000).
const READ_ONLY: [SqlState; 3] = [
    SqlState::READ_ONLY_SQL_TRANSACTION,
    SqlState::FEATURE_NOT_SUPPORTED,
    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
];

/// A PostgreSQL database.
#[derive(Debug)]
pub(crate) struct Postgres {
    connections: Connections<Hosts<PostgresServer>>,
    created: bool,
}

/// Connects to the server that takes writes, making keymill's schema where there is none if
/// `create`, and brings it up to date.
pub(crate) async fn open(url: &str, opening: Opening) -> Result<SqlStore<Postgres>, StoreError> {
    let connections = connections::new(server::hosts(url, opening)?);
    let created = connections.manager().prepare(opening).await?;
    Ok(SqlStore::new(Postgres { connections, created }))
}

impl Driver for Postgres {
    type Tx = Tx;

    const FILL_MAX: u64 = FILL_MAX;

    async fn run<T, J>(&self, aim: Aim, job: J) -> Result<T, StoreError>
    where
        T: Send + 'static,
        J: for<'t> FnOnce(&'t mut Tx) -> Doing<'t, T> + Send + 'static,
    {
        let generation = self.connections.manager().generation();
        let mut begun = Tx::begin(InTransaction::get(&self.connections).await?, aim).await;
        // Where a connection turns out to lead to a server that is not the one to use any more, nothing was
        // asked of it yet: a new one is asked.
        if begun.is_err() && self.connections.manager().generation() != generation {
            begun = Tx::begin(InTransaction::get(&self.connections).await?, aim).await;
        }
        let mut tx = begun?;
        let answer = job(&mut tx).await;
        tx.finish(aim, answer).await
    }

    /// [`Tx::finish`] has given up all connections.
    fn ask_again(&self) -> bool {
        true
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        within_call(connections::get(&self.connections).await?.findings()).await
    }

    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        self.connections.manager().migrate().await
    }

    fn describe(&self) -> StoreDescription {
        let location = self.connections.manager().url.shown();
        StoreDescription { kind: "postgres", location, created: self.created }
    }
}

/// The one place where PostgreSQL's errors become the store's.
fn fold_error(server_name: &str, error: &tokio_postgres::Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else {
        // The driver's own words hide the cause: "error communicating with the server".
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        return StoreError::Unavailable(format!(
            "{server_name}: {error}{}",
            cause.unwrap_or_default()
        ));
    };
    let message = refusal.message();
    match refusal.code() {
        &SqlState::UNDEFINED_TABLE
        | &SqlState::UNDEFINED_COLUMN
        | &SqlState::INVALID_SCHEMA_NAME => StoreError::Broken(format!(
            "{server_name} lacks keymill's tables ({message}); run `keymill store migrate`"
        )),
        code if READ_ONLY.contains(code) => StoreError::Unavailable(format!(
            "{server_name} accepts no writes, it may be a standby: {message}"
        )),
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Broken(format!(
            "{server_name}: {message}; grant this user the privilege, or run `keymill store migrate` as \
             a user who has it"
        )),
        &SqlState::INVALID_CATALOG_NAME => {
            StoreError::Broken(format!("{server_name}: {message}; create it with CREATE DATABASE"))
        }
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::Broken(format!("{server_name}: {message}"))
        }
        _ => StoreError::Unavailable(format!("{server_name}: {message}")),
    }
}
