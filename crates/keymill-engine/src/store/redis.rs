//! Redis: the store for those who have nothing else. Always *best effort*: its replication can
//! lose what it has acknowledged.
//!
//! A lease is one script on the keys of one space, which share a hash tag, and one round trip.
//! Where the server has replicas, `WAIT` follows: a lease that too few of them have is burned.
//!
//! Each part of the store is a file of its own, which has what it asks of `connection`, and in `scripts`
//! what the server does. Here is what they share: over which connection a request goes, and what a refusal means.
//!
//! # Invariants
//!
//! - Ordinals and revisions are decimal strings on the server: Lua's numbers are doubles.
//! - No script that changes a space, or confirms a change, answers on a server that follows another.
//! - That the store was rolled back is only said on the word of a connection that was made after the request
//!   began: older ones may lead to a server whose place another has taken.
//! - A store has a stamp, so that one that was emptied is recognized as another one; and a timeline,
//!   which moves on with every new replication ID, so that a server that was cut off is refused.

mod confirm;
mod connection;
mod digests;
mod instances;
mod key_paths;
mod leases;
mod met;
mod moves;
mod names;
mod pools;
mod rows;
mod safety;
mod scripts;
mod server;
mod spaces;
mod tokens;
mod use_log;
mod windows;

use std::time::Instant;

use async_trait::async_trait;
use deadpool::managed::Object;
use redis::ScriptInvocation;

use key_paths::KeyPaths;
use rows::{FieldMap, reply, space_from};
use scripts::Scripts;
use server::Server;

use super::connections::{self, Connections};
use super::{
    Admin, ERA, Finding, Floor, History, LeaseId, Mark, Opening, SpaceRecord, StoreDescription,
    StoreError, next_era,
};

/// A Redis server as a store.
#[derive(Debug)]
pub(crate) struct RedisStore {
    connections: Connections<Server>,
    scripts: Scripts,
    paths: KeyPaths,
    created: bool,
}

/// Asks over a connection, and once more over a new one where the first answer does not count: see
/// [`RedisStore::with_connection`].
macro_rules! over {
    ($store:ident, |$connection:ident| $asked:expr) => {
        $store.with_connection(|$connection| async move { $asked.await }).await
    };
}
pub(in crate::store::redis) use over;

impl RedisStore {
    /// Connects to the server, and gives it keymill's stamp where it has none if `create`.
    pub(crate) async fn open(url: &str, opening: Opening) -> Result<RedisStore, StoreError> {
        let server = Server::parse(url, opening)?;
        let paths = KeyPaths::under(server.prefix());
        let created = server.prepare(opening).await?;
        let connections = connections::new(server);
        Ok(RedisStore { connections, scripts: Scripts::new(), paths, created })
    }

    async fn connection(&self) -> Result<Object<Server>, StoreError> {
        connections::get(&self.connections).await
    }

    /// Does something over a connection that is open. Where that shows a store that was rolled back, or
    /// leads to a server that has become a replica, the old connections are closed, and it is done
    /// once more over a new one: nothing was changed, and what the new one says counts.
    async fn with_connection<T, F>(
        &self,
        job: impl Fn(Object<Server>) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let begun = Instant::now();
        loop {
            let connection = self.connection().await?;
            let made_at = connection.made_at();
            let answer = job(connection).await;
            let counts = !self.is_doubtful(&answer, made_at);
            if counts || !self.connects_anew(made_at, begun) {
                return answer;
            }
        }
    }

    /// Whether an answer may be that of a server whose place another has taken.
    fn is_doubtful<T>(&self, answer: &Result<T, StoreError>, made_at: Instant) -> bool {
        match answer {
            Err(StoreError::RolledBack(_)) => true,
            Err(StoreError::Unavailable(_)) => self.connections.manager().has_given_up(made_at),
            _ => false,
        }
    }

    /// Closes the connections that are older than a request, if the one that was made at `made_at`
    /// is. One that is not leads to where a new one would.
    fn connects_anew(&self, made_at: Instant, begun: Instant) -> bool {
        let is_older = made_at < begun;
        if is_older {
            self.connections.manager().give_up(begun);
        }
        is_older
    }

    async fn record_of(
        &self,
        connection: &Object<Server>,
        space: &str,
    ) -> Result<SpaceRecord, StoreError> {
        let fields: FieldMap =
            connection.ask(redis::cmd("HGETALL").arg(self.paths.space(space))).await?;
        space_from(space, &fields, connection.history())
            .unwrap_or_else(|| Err(StoreError::UnknownSpace(space.to_owned())))
    }

    /// Runs a script that changes a space, and has its replicas confirm it. The space's fields
    /// come back with the status.
    async fn change(
        &self,
        connection: &Object<Server>,
        space: &str,
        floor: &Floor,
        script: &ScriptInvocation<'_>,
    ) -> Result<(String, Vec<String>), StoreError> {
        let answer = connection.change(script).await?;
        self.judge(connection, space, floor, answer).await
    }

    /// What a script has answered that changes a space, but for a refusal: that is an error.
    async fn judge(
        &self,
        connection: &Object<Server>,
        space: &str,
        floor: &Floor,
        answer: Vec<String>,
    ) -> Result<(String, Vec<String>), StoreError> {
        let (status, answer) = reply(answer)?;
        match status.as_str() {
            "unknown" if floor.mark.is_seen() => Err(StoreError::gone(space)),
            "unknown" => Err(StoreError::UnknownSpace(space.to_owned())),
            "below" => {
                // The server may have begun a new history on this connection.
                let before = connection.history();
                if connection.witness().await?.history() != before {
                    connection.give_up();
                    return Err(StoreError::Unavailable(
                        "the server's replication ID has changed".to_owned(),
                    ));
                }
                let record = self.record_from(connection, space, &answer)?;
                let store = rows::field(&rows::fields(&answer), "store")?;
                record.check_floor(&store, floor)?;
                Err(StoreError::Broken(format!("redis refused `{space}` without a reason")))
            }
            _ => Ok((status, answer)),
        }
    }

    fn record_from(
        &self,
        connection: &Object<Server>,
        space: &str,
        answer: &[String],
    ) -> Result<SpaceRecord, StoreError> {
        space_from(space, &rows::fields(answer), connection.history())
            .unwrap_or_else(|| Err(StoreError::UnknownSpace(space.to_owned())))
    }
}

#[async_trait]
impl Admin for RedisStore {
    async fn identity(&self) -> Result<String, StoreError> {
        Ok(self.connection().await?.witness().await?.identity)
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        let connection = self.connection().await?;
        if let Some(candidate) = candidate {
            let mut make = redis::cmd("SETNX");
            make.arg(self.paths.secret()).arg(candidate);
            connection.change_by(&make).await?;
        }
        connection.ask(redis::cmd("GET").arg(self.paths.secret())).await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        let connection = self.connection().await?;
        connection.change_by(redis::cmd("DEL").arg(self.paths.secret())).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.connection().await?.findings().await
    }

    fn describe(&self) -> StoreDescription {
        let location = self.connections.manager().shown();
        StoreDescription { kind: "redis", location, created: self.created }
    }
}

/// What every script on a space is first asked: whether the space has reached the floor.
fn guard(script: &mut ScriptInvocation<'_>, floor: &Floor, history: History) {
    script.arg(&floor_in(floor, history));
}

/// A floor as scripts read it, on a server that is on this course of history.
fn floor_in(floor: &Floor, history: History) -> [String; 5] {
    let here = Mark { history, ..floor.mark };
    // The lengths that were seen are rarely any, and go with the name of the store.
    let grown: Vec<String> = floor.mark.grown.list().iter().map(u8::to_string).collect();
    let store = format!("{} {}", floor.store, grown.join(","));
    let continues = u8::from(here.continues(floor.mark));
    [
        store.trim_end().to_owned(),
        floor.mark.revision.to_string(),
        floor.mark.next.to_string(),
        continues.to_string(),
        next_era(floor.mark.revision).to_string(),
    ]
}

/// Refuses what a script has refused because the space was ended, or has changed since it was looked at.
fn check_status(status: &str, space: &str) -> Result<(), StoreError> {
    match status {
        "sealed" => Err(StoreError::Sealed(space.to_owned())),
        "outdated" => Err(StoreError::Outdated(space.to_owned())),
        _ => Ok(()),
    }
}

/// The last lease of an instance, and the era in which it must be on record.
fn expect_lease(script: &mut ScriptInvocation<'_>, last: Option<LeaseId>) {
    let (last, era) = match last {
        Some(last) => (last.to_string(), [next_era(last) - ERA, next_era(last)]),
        None => (String::new(), [0, 0]),
    };
    script.arg(last).arg(era[0].to_string()).arg(era[1].to_string());
}

/// The one place where Redis' errors become the store's. What the server itself refuses, it has
/// not done; what failed on the way may have been done.
fn fold_error(server_name: &str, error: &redis::RedisError) -> StoreError {
    use redis::{ErrorKind, ServerErrorKind};
    match error.kind() {
        ErrorKind::AuthenticationFailed => StoreError::Broken(format!("{server_name}: {error}")),
        ErrorKind::Server(ServerErrorKind::NoPerm) => StoreError::Broken(format!(
            "{server_name}: {error}; let this user run scripts and all commands on keymill's keys"
        )),
        ErrorKind::Server(_) | ErrorKind::Extension => {
            StoreError::Unavailable(format!("{server_name}: {error}"))
        }
        _ => StoreError::InDoubt(format!("{server_name}: {error}")),
    }
}
