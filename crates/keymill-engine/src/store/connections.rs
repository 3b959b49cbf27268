//! Connections to a store on the network: a few, each checked before its first use, and every
//! wait for one bounded.

use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Manager, Object, Pool, PoolError, TimeoutType};
use tokio::time::{Instant, timeout, timeout_at};

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
/// How long to wait for another process that makes the schema, and how long that may take in all.
pub(super) const MIGRATE_MAX: Duration = Duration::from_secs(30);
/// A connection that was checked longer ago is checked again before it is used: settings change,
/// and a primary becomes a standby.
pub(super) const CHECK_EVERY: Duration = Duration::from_secs(30);
/// How long to wait for a connection in all.
const GET_MAX: Duration = Duration::from_secs(15);

const CONNECTIONS_MAX: usize = 8;

/// The connections to a store, which are used again and again. deadpool calls that a pool; here a pool has keys.
pub(super) type Connections<M> = Pool<M>;

pub(super) fn new<M: Manager>(manager: M) -> Connections<M> {
    Pool::builder(manager)
        .max_size(CONNECTIONS_MAX)
        .wait_timeout(Some(CALL_MAX))
        // A manager bounds its own connecting, host by host.
        .create_timeout(None)
        .recycle_timeout(Some(CONNECT_MAX))
        .runtime(Runtime::Tokio1)
        .build()
        .expect("time limits have the runtime that they need")
}

/// A connection that was checked when it was made.
pub(super) async fn get<M: Manager<Error = StoreError>>(
    connections: &Connections<M>,
) -> Result<Object<M>, StoreError> {
    let late = |_| StoreError::Unavailable(format!("no connection within {GET_MAX:?}"));
    // Several that were idle may have to be given up before one answers.
    timeout(GET_MAX, connections.get()).await.map_err(late)?.map_err(|error| match error {
        PoolError::Backend(error) => error,
        PoolError::Timeout(TimeoutType::Wait) => {
            StoreError::Unavailable("too many requests are waiting for a connection".to_owned())
        }
        error => StoreError::Unavailable(error.to_string()),
    })
}

/// Gives up on an answer when the request that needs it has taken too long.
pub(super) async fn until<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout_at(deadline, work)
        .await
        .unwrap_or_else(|_| Err(StoreError::Unavailable(format!("no answer within {CALL_MAX:?}"))))
}

/// Gives up on an answer that takes longer than a request may.
pub(super) async fn within_call<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    until(Instant::now() + CALL_MAX, work).await
}

/// Gives up on a server that takes too long to connect to.
pub(super) async fn in_time<T>(
    server_name: &str,
    connect: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(CONNECT_MAX, connect).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable(format!("{server_name} did not answer within {CONNECT_MAX:?}")))
    })
}

/// What to say when none of several hosts can be used.
pub(super) fn none_of_them(mut problems: Vec<StoreError>) -> StoreError {
    if problems.len() == 1 {
        return problems.remove(0);
    }
    let waiting_helps = problems.iter().all(|it| matches!(it, StoreError::Unavailable(_)));
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let all = all.join("; ");
    if waiting_helps { StoreError::Unavailable(all) } else { StoreError::Broken(all) }
}

/// Gives up on changing a schema when it takes too long, whatever it waits for.
pub(super) async fn within_limit<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let time_max = 2 * MIGRATE_MAX;
    timeout(time_max, work).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable(format!("the schema was not up to date after {time_max:?}")))
    })
}

/// Refuses a connection to an unsafe store, unless that is allowed.
pub(super) fn refuse_unsafe(findings: &[Finding], allow_unsafe: bool) -> Result<(), StoreError> {
    match Finding::unsafe_ones(findings) {
        Some(reasons) if !allow_unsafe => Err(StoreError::unsafe_store(&reasons)),
        _ => Ok(()),
    }
}
