//! MySQL and MariaDB: the store for many instances of those who already run one of them.
//!
//! A lease is one transaction: the space's row is locked with `SELECT … FOR UPDATE`, then
//! updated. The server ends a transaction that lies idle, so that an instance that is paused
//! half-way does not hold the row.
//!
//! # Invariants
//!
//! - Transactions are `READ COMMITTED`: what is read after the lock is what the last holder of
//!   the lock left, and a name that is not there yet is not locked by gaps.
//! - What decides anything is read in a transaction, which looks itself whether its server takes
//!   writes and statements mean what they should (`session`). Lists outside of one have a limit of
//!   their own.
//! - Rows of keys are locked by their ids alone: hence `FORCE INDEX`, and hence the form of `DELETE`
//!   that takes it (`dialect`).

mod connection;
mod dialect;
mod schema;
mod server;
mod session;
mod transaction;

use server::MysqlServer;
use transaction::Tx;

use super::driver::{Aim, Doing, Driver};
use super::hosts::{Hosts, InTransaction};
use super::store::SqlStore;
use crate::store::connections::{self, Connections, within_call};
use crate::store::{Finding, Opening, StoreDescription, StoreError};

/// A MySQL or MariaDB database.
#[derive(Debug)]
pub(crate) struct Mysql {
    connections: Connections<Hosts<MysqlServer>>,
    created: bool,
}

/// Connects to the server that takes writes, making keymill's tables where there are none if
/// `create`, and brings them up to date.
pub(crate) async fn open(url: &str, opening: Opening) -> Result<SqlStore<Mysql>, StoreError> {
    let connections = connections::new(server::hosts(url, opening)?);
    let created = connections.manager().prepare(opening).await?;
    Ok(SqlStore::new(Mysql { connections, created }))
}

impl Driver for Mysql {
    type Tx = Tx;

    // Under the lock of the space, and within the time of a request.
    const FILL_MAX: u64 = 10_000;

    async fn run<T, J>(&self, aim: Aim, job: J) -> Result<T, StoreError>
    where
        T: Send + 'static,
        J: for<'t> FnOnce(&'t mut Tx) -> Doing<'t, T> + Send + 'static,
    {
        let mut tx = Tx::begin(InTransaction::get(&self.connections).await?, aim).await?;
        let answer = job(&mut tx).await;
        tx.finish(aim, answer).await
    }

    fn ask_again(&self) -> bool {
        self.connections.manager().give_up_all();
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
        StoreDescription { kind: "mysql", location, created: self.created }
    }
}

/// The one place where MySQL's errors become the store's.
fn fold_error(server_name: &str, error: &mysql_async::Error) -> StoreError {
    let mysql_async::Error::Server(refusal) = error else {
        return StoreError::Unavailable(format!("{server_name}: {error}"));
    };
    let message = &refusal.message;
    match refusal.code {
        // Unknown table, or column.
        1146 | 1054 => StoreError::Broken(format!(
            "{server_name} lacks keymill's tables ({message}); run `keymill store migrate`"
        )),
        // Denied: a command, a table, a column.
        1142 | 1143 | 1227 => StoreError::Broken(format!(
            "{server_name}: {message}; grant this user the privilege, or run `keymill store migrate` as \
             a user who has it"
        )),
        // Denied: the database, the user; or there is no such database.
        1044 | 1045 | 1049 => StoreError::Broken(format!("{server_name}: {message}")),
        _ => StoreError::Unavailable(format!("{server_name}: {message}")),
    }
}
