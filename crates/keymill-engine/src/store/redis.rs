//! Redis: the store for those who have nothing else. Always *best effort*: its replication can
//! lose what it has acknowledged.
//!
//! A lease is one script on the keys of one space, which share a hash tag, and one round trip.
//! Where the server has replicas, `WAIT` follows: a lease that too few of them have is burned.
//!
//! # Invariants
//!
//! - Ordinals and revisions are decimal strings on the server: Lua's numbers are doubles.
//! - No script that changes a space, or confirms a change, answers on a server that follows another.
//! - That the store was rolled back is only said on the word of a connection that was made after the request
//!   began: older ones may lead to a server whose place another has taken.
//! - A store has a stamp, so that one that was emptied is known for another; and a timeline,
//!   which moves on with every new replication ID, so that a server that was cut off is refused.

mod claims;
mod confirm;
mod connection;
mod digests;
mod export;
mod heartbeat;
mod import;
mod key_paths;
mod key_rows;
mod leases;
mod lists;
mod met;
mod names;
mod rows;
mod safety;
mod scripts;
mod spaces;
mod tokens;
mod windows;

use std::collections::HashMap;
use std::time::Instant;

use async_trait::async_trait;
use deadpool::managed::{Object, Pool};
use redis::ScriptInvocation;

use connection::Server;
use key_paths::Keys;
use rows::{Fields, reply, space_from};
use scripts::Scripts;
use spaces::Setting;

use super::values::json;
use super::{
    Act, ActPage, Admin, Beat, Confirm, Confirmed, Created, ERA, Finding, Floor, GiveBack, Grant,
    History, InstancePage, InstanceRecord, Instances, LeaseAsk, LeaseId, LeasePage, LeaseRecord,
    Leases, Mark, MovedRow, MovedSpace, Moves, NameBatch, NamePage, NamePurpose, NameRecord, Named,
    Names, NewName, NewSpace, Opening, Place, Pulse, Rows, RowsPage, Snapshots, SpaceRecord,
    Spaces, StoreError, TokenChange, TokenList, Tokens, Window, WindowAsk, WindowRelease, Windows,
    connections, next_era,
};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

/// A Redis server as a store.
#[derive(Debug)]
pub(crate) struct RedisStore {
    pool: Pool<Server>,
    scripts: Scripts,
    keys: Keys,
    created: bool,
}

impl RedisStore {
    /// Connects to the server, and gives it keymill's stamp where it has none if `create`.
    pub(crate) async fn open(url: &str, opening: Opening) -> Result<RedisStore, StoreError> {
        let server = Server::parse(url, opening)?;
        let keys = Keys::under(server.prefix());
        let created = server.prepare(opening).await?;
        Ok(RedisStore { pool: connections::new(server), scripts: Scripts::new(), keys, created })
    }

    async fn connection(&self) -> Result<Object<Server>, StoreError> {
        connections::get(&self.pool).await
    }

    /// Does something over a connection that is at hand. Where that shows a store that was rolled back, or
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
            Err(StoreError::Unavailable(_)) => self.pool.manager().has_given_up(made_at),
            _ => false,
        }
    }

    /// Closes the connections that are older than a request, if the one that was made at `made_at`
    /// is. One that is not leads to where a new one would.
    fn connects_anew(&self, made_at: Instant, begun: Instant) -> bool {
        let is_older = made_at < begun;
        if is_older {
            self.pool.manager().give_up(begun);
        }
        is_older
    }

    async fn record_of(
        &self,
        connection: &Object<Server>,
        space: &str,
    ) -> Result<SpaceRecord, StoreError> {
        let fields: Fields =
            connection.ask(redis::cmd("HGETALL").arg(self.keys.space(space))).await?;
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
            "unknown" if floor.mark.is_seen() => Err(StoreError::gone(space, floor.mark)),
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

    async fn set(
        &self,
        space: &str,
        floor: &Floor,
        setting: &Setting,
    ) -> Result<SpaceRecord, StoreError> {
        self.with_connection(|connection| async move {
            self.set_over(&connection, space, floor, setting).await
        })
        .await
    }
}

#[async_trait]
impl Spaces for RedisStore {
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        self.with_connection(
            |connection| async move { self.create_over(&connection, new, floor).await },
        )
        .await
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let setting = Setting { field: "tuning", value: json(tuning), once: false };
        self.set(space, floor, &setting).await
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.with_connection(|connection| async move {
            self.grow_over(&connection, space, definition, capacity, floor).await
        })
        .await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        self.record_of(&self.connection().await?, space).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        self.all_spaces(&self.connection().await?).await
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        self.with_connection(|connection| async move {
            self.advance_over(&connection, space, to, by).await
        })
        .await
    }

    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        self.with_connection(|connection| async move {
            self.put_sighting(&connection, space, instance, seen).await
        })
        .await
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        self.highest_sighting(space).await
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let setting = Setting { field: "sealed", value: "1".to_owned(), once: true };
        self.set(space, floor, &setting).await
    }
}

#[async_trait]
impl Leases for RedisStore {
    async fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        self.with_connection(
            |connection| async move { self.lease_over(&connection, ask, floor).await },
        )
        .await
    }

    async fn give_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        self.close_leases(backs).await
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        self.lease_at(space, ordinal).await
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        self.lease_page(page).await
    }
}

#[async_trait]
impl Windows for RedisStore {
    async fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        self.with_connection(
            |connection| async move { self.window_over(&connection, ask, floor).await },
        )
        .await
    }

    async fn clock_ms(&self, _own_ms: i64) -> Result<i64, StoreError> {
        self.clock().await
    }

    async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        self.with_connection(|connection| async move {
            self.free_worker(&connection, release, floor).await
        })
        .await
    }
}

#[async_trait]
impl Names for RedisStore {
    async fn add_names(&self, batch: &NameBatch, floor: &Floor) -> Result<Named, StoreError> {
        self.with_connection(
            |connection| async move { self.put_names(&connection, batch, floor).await },
        )
        .await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        self.with_connection(|connection| async move {
            self.mark_removed(&connection, space, key, owner, floor).await
        })
        .await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        self.find_name(space, name).await
    }

    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        self.name_page(page).await
    }

    // No script may keep the server for long.
    fn names_max(&self, _: NamePurpose) -> usize {
        1_000
    }

    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        self.name_counts(space).await
    }
}

#[async_trait]
impl Snapshots for RedisStore {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        self.with_connection(|connection| async move { self.confirm_over(&connection, what).await })
            .await
    }

    async fn unplaced(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.with_connection(|connection| async move {
            self.unplaced_over(&connection, space, reached, after, limit).await
        })
        .await
    }
}

#[async_trait]
impl Moves for RedisStore {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        self.with_connection(|connection| async move { self.rows_over(&connection, page).await })
            .await
    }

    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        self.with_connection(|connection| async move { self.begin_over(&connection, space).await })
            .await
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        self.with_connection(|connection| async move {
            self.import_over(&connection, space, importing, rows).await
        })
        .await
    }

    async fn finish_import(&self, space: &MovedSpace) -> Result<SpaceRecord, StoreError> {
        self.with_connection(|connection| async move { self.finish_over(&connection, space).await })
            .await
    }
}

#[async_trait]
impl Instances for RedisStore {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        self.beat(pulse).await
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        self.instance_page(page).await
    }
}

#[async_trait]
impl Tokens for RedisStore {
    async fn tokens(&self, floor: &Floor) -> Result<TokenList, StoreError> {
        self.with_connection(|connection| async move { self.tokens_over(&connection, floor).await })
            .await
    }

    async fn replace_tokens(
        &self,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        self.with_connection(|connection| async move {
            self.replace_tokens_over(&connection, change, floor).await
        })
        .await
    }

    async fn record_act(&self, act: &Act) -> Result<(), StoreError> {
        self.with_connection(
            |connection| async move { self.record_act_over(&connection, act).await },
        )
        .await
    }

    async fn acts(&self, page: &ActPage) -> Result<Vec<Act>, StoreError> {
        self.act_page(page).await
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
            make.arg(self.keys.secret()).arg(candidate);
            connection.change_by(&make).await?;
        }
        connection.ask(redis::cmd("GET").arg(self.keys.secret())).await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        let connection = self.connection().await?;
        connection.change_by(redis::cmd("DEL").arg(self.keys.secret())).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.connection().await?.findings().await
    }

    fn place(&self) -> Place {
        let location = self.pool.manager().shown();
        Place { kind: "redis", location, created: self.created }
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
fn fold_error(place: &str, error: &redis::RedisError) -> StoreError {
    use redis::{ErrorKind, ServerErrorKind};
    match error.kind() {
        ErrorKind::AuthenticationFailed => StoreError::Broken(format!("{place}: {error}")),
        ErrorKind::Server(ServerErrorKind::NoPerm) => StoreError::Broken(format!(
            "{place}: {error}; let this user run scripts and all commands on keymill's keys"
        )),
        ErrorKind::Server(_) | ErrorKind::Extension => {
            StoreError::Unavailable(format!("{place}: {error}"))
        }
        _ => StoreError::InDoubt(format!("{place}: {error}")),
    }
}
