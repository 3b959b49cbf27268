//! Connections to a store on the network: a few, each checked before its first use, and every
//! wait for one bounded.

use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Manager, Object, Pool, PoolError, TimeoutType};

use super::{Finding, StoreError};

/// How long one server may take to accept a connection and to answer the safety checks.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long a request may take from its first statement to its commit.
pub(super) const CALL_MAX: Duration = Duration::from_secs(5);
/// How long a server lets a transaction wait for a lock.
pub(super) const LOCK_MAX: Duration = Duration::from_secs(3);
/// How long a server lets a transaction lie idle. Less than others wait for its locks: an
/// instance that is paused half-way stops nobody for longer.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(2);
/// How long to wait for another process that makes the schema.
pub(super) const MIGRATE_MAX: Duration = Duration::from_secs(30);

const CONNECTIONS_MAX: usize = 8;

pub(super) fn new<M: Manager>(manager: M) -> Pool<M> {
    Pool::builder(manager)
        .max_size(CONNECTIONS_MAX)
        .wait_timeout(Some(CALL_MAX))
        // A manager bounds its own connecting, host by host.
        .create_timeout(None)
        .recycle_timeout(Some(CONNECT_MAX))
        .runtime(Runtime::Tokio1)
        .build()
        .expect("a pool with timeouts has a runtime")
}

/// A connection that was checked when it was made.
pub(super) async fn get<M: Manager<Error = StoreError>>(
    pool: &Pool<M>,
) -> Result<Object<M>, StoreError> {
    pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => error,
        PoolError::Timeout(TimeoutType::Wait) => {
            StoreError::Unavailable("too many requests wait for it".to_owned())
        }
        error => StoreError::Unavailable(error.to_string()),
    })
}

/// Refuses a connection to an unsafe store, unless that is allowed.
pub(super) fn refuse_unsafe(findings: &[Finding], allow_unsafe: bool) -> Result<(), StoreError> {
    match Finding::unsafe_ones(findings) {
        Some(reasons) if !allow_unsafe => Err(StoreError::unsafe_store(&reasons)),
        _ => Ok(()),
    }
}
