//! Redis: the store for those who have nothing else. Always *best effort*: its replication can
//! lose what it has acknowledged.
//!
//! A lease is one script on the keys of one space, which share a hash tag, and one round trip.
//! Where the server has replicas, `WAIT` follows: a lease that too few of them have is burned.
//!
//! # Invariants
//!
//! - Ordinals and revisions are decimal strings on the server: Lua's numbers are doubles.
//! - A store has a stamp, so that one that was emptied is known for another; and a timeline,
//!   which moves on with every new replication ID, so that a server that was cut off is refused.

mod connection;
mod keys;
mod lists;
mod names;
mod pool;
mod rows;
mod scripts;
mod windows;

use std::ops::Range;

use async_trait::async_trait;
use deadpool::managed::{Object, Pool};
use redis::ScriptInvocation;

use connection::Server;
use keys::Keys;
use rows::{Fields, mark_from, reply, space_from};
use scripts::Scripts;

use super::pool as connections;
use super::values::json;
use super::{
    Beat, Created, ERA, Finding, GiveBack, Grant, InstancePage, InstanceRecord, KeyStore, LeaseAsk,
    LeaseId, LeasePage, LeaseRecord, NameBatch, NamePurpose, NameRecord, Named, NewName, NewSpace,
    Opening, Place, Pulse, SpaceRecord, Store, StoreError, Window, WindowAsk, WindowRelease,
    next_era,
};
use crate::floor::{Floor, History, Mark};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

/// A Redis server as a store.
#[derive(Debug)]
pub struct RedisStore {
    pool: Pool<Server>,
    scripts: Scripts,
    keys: Keys,
    created: bool,
}

impl RedisStore {
    /// Connects to the server, and gives it keymill's stamp where it has none if `create`.
    pub async fn open(url: &str, opening: Opening) -> Result<RedisStore, StoreError> {
        let server = Server::parse(url, opening)?;
        let keys = Keys::under(server.prefix());
        let created = server.prepare(opening).await?;
        Ok(RedisStore { pool: connections::new(server), scripts: Scripts::new(), keys, created })
    }

    async fn connection(&self) -> Result<Object<Server>, StoreError> {
        connections::get(&self.pool).await
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
        let (status, answer) = reply(connection.change(script).await?)?;
        match status.as_str() {
            "unknown" if floor.mark.is_seen() => Err(StoreError::gone(space, floor.mark)),
            "unknown" => Err(StoreError::UnknownSpace(space.to_owned())),
            "below" => {
                // The server may have begun a new history on this connection.
                let before = connection.history();
                if connection.witness().await?.history() != before {
                    return Err(StoreError::Unavailable(
                        "the server's replication ID has changed".to_owned(),
                    ));
                }
                let record = self.record_from(connection, space, &answer)?;
                let store = rows::field(&rows::fields(&answer), "store")?;
                record.check_floor(&store, floor)?;
                Err(StoreError::Broken(format!("redis refused `{space}` for no reason")))
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
        field: &str,
        value: &str,
        once: bool,
    ) -> Result<SpaceRecord, StoreError> {
        let connection = self.connection().await?;
        let mut script = self.scripts.set.key(self.keys.space(space));
        guard(&mut script, floor, connection.history());
        script.arg(field).arg(value).arg(u8::from(once));
        let (_, answer) = self.change(&connection, space, floor, &script).await?;
        self.record_from(&connection, space, &answer)
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn identity(&self) -> Result<String, StoreError> {
        Ok(self.connection().await?.witness().await?.identity)
    }

    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        let connection = self.connection().await?;
        let here = connection.witness().await?;
        if !floor.mark.is_seen() {
            floor.check_new(&new.name, &here.identity, here.history())?;
        }
        // The name first: one whose space was not made is passed over.
        let note = redis::cmd("SADD").arg(self.keys.spaces()).arg(&new.name).to_owned();
        let _: i64 = connection.ask(&note).await?;
        let mut script = self.scripts.create.key(self.keys.space(&new.name));
        guard(&mut script, floor, here.history());
        script.arg("definition").arg(json(&new.definition)).arg("tuning").arg(json(&new.tuning));
        script.arg("capacity").arg(new.capacity.to_string()).arg("next").arg(new.start.to_string());
        if let Some(fingerprint) = &new.fingerprint {
            script.arg("fingerprint").arg(fingerprint);
        }
        let (status, answer) = self.change(&connection, &new.name, floor, &script).await?;
        let record = self.record_from(&connection, &new.name, &answer)?;
        Ok(if status == "made" { Created::Made(record) } else { Created::Exists(record) })
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.set(space, floor, "tuning", &json(tuning), false).await
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let connection = self.connection().await?;
        let mut script = self.scripts.grow.key(self.keys.space(space));
        guard(&mut script, floor, connection.history());
        script.arg(json(definition)).arg(capacity.to_string());
        let (status, answer) = self.change(&connection, space, floor, &script).await?;
        match status.as_str() {
            "sealed" => Err(StoreError::Sealed(space.to_owned())),
            "outdated" => Err(StoreError::Outdated(space.to_owned())),
            _ => self.record_from(&connection, space, &answer),
        }
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        self.record_of(&self.connection().await?, space).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        self.all_spaces(&self.connection().await?).await
    }

    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let connection = self.connection().await?;
        let history = connection.history();
        let mut script = self.scripts.lease.key(self.keys.space(&ask.space));
        guard(&mut script, &ask.floor, history);
        // Beyond this a number is not exact in a script, and no lease is that large.
        let size = ask.size.min(1 << 52);
        script.arg(&ask.instance.id).arg(json(&ask.instance)).arg(size).arg(ask.share.max(1));
        expect_lease(&mut script, ask.last_lease);
        for spent in &ask.spent {
            script.arg(spent.to_string());
        }
        let (status, answer) = self.change(&connection, &ask.space, &ask.floor, &script).await?;
        let number = |index: usize| rows::number(answer.get(index));
        let space = ask.space.clone();
        match status.as_str() {
            "lost" => Err(ask.lost_lease(ask.last_lease.unwrap_or_default())),
            "sealed" => Err(StoreError::Sealed(space)),
            "exhausted" => Err(StoreError::Exhausted { space, held_elsewhere: number(0)? }),
            _ => Ok(Grant {
                lease: number(0)?,
                ordinals: number(1)?..number(2)?,
                mark: Mark { revision: number(0)?, next: number(3)?, history, ..Mark::default() },
                left: number(4)?,
            }),
        }
    }

    async fn give_back(&self, back: &GiveBack) -> Result<Mark, StoreError> {
        let connection = self.connection().await?;
        let history = connection.history();
        let mut script = self.scripts.give_back.key(self.keys.space(&back.space));
        guard(&mut script, &back.floor, history);
        script.arg(&back.instance).arg(back.lease.to_string());
        script.arg(back.rest.start.to_string()).arg(back.rest.end.to_string());
        let (_, answer) = self.change(&connection, &back.space, &back.floor, &script).await?;
        mark_from(&answer, history)
    }

    async fn window(&self, ask: &WindowAsk) -> Result<Window, StoreError> {
        self.window_for(ask).await
    }

    async fn clock_ms(&self, _own_ms: i64) -> Result<i64, StoreError> {
        self.clock().await
    }

    async fn release_window(&self, release: &WindowRelease) -> Result<Mark, StoreError> {
        self.free_worker(release).await
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let connection = self.connection().await?;
        let before = self.record_of(&connection, space).await?;
        // Growths that were lost, made again.
        let mut after = before.clone();
        let passed = after.advance(to)?;
        let mut script = self.scripts.advance.key(self.keys.space(space));
        script.arg(to.revision.to_string()).arg(to.next.to_string()).arg(ERA.to_string());
        script.arg(&by.id).arg(json(by));
        script.arg(json(&before.definition.grown));
        script.arg(json(&after.definition)).arg(after.capacity.to_string());
        script.arg(u8::from(!passed.is_empty()));
        let nothing_seen = Floor { store: String::new(), mark: Mark::default() };
        let (status, answer) = self.change(&connection, space, &nothing_seen, &script).await?;
        match status.as_str() {
            "outdated" => Err(StoreError::Outdated(space.to_owned())),
            _ => self.record_from(&connection, space, &answer),
        }
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        self.set(space, floor, "sealed", "1", true).await
    }

    async fn add_names(&self, batch: &NameBatch) -> Result<Named, StoreError> {
        self.put_names(batch).await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<Option<NameRecord>, StoreError> {
        self.mark_removed(space, key, owner, floor).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        self.find_name(space, name).await
    }

    async fn skips(&self, space: &str, ordinals: Range<u64>) -> Result<Vec<u64>, StoreError> {
        self.skips_on(&self.connection().await?, space, &ordinals).await
    }

    async fn unplaced(
        &self,
        space: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.unplaced_page(space, after, limit).await
    }

    // No script may keep the server for long.
    fn names_max(&self, _: NamePurpose) -> usize {
        1_000
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        self.lease_at(space, ordinal).await
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        self.lease_page(page).await
    }

    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let connection = self.connection().await?;
        let here = connection.witness().await?;
        let Instance { id, host, pid, version, started_at } = &pulse.instance;
        let started_at = started_at.as_millisecond();
        let mut script = self.scripts.beat.key(self.keys.instance(id));
        script.key(self.keys.instances()).arg(format!("{started_at:020}:{id}"));
        script.arg(pulse.address.as_deref().unwrap_or_default()).arg(u8::from(pulse.stopping));
        script.arg("id").arg(id).arg("host").arg(host).arg("pid").arg(pid);
        script.arg("version").arg(version).arg("started_at").arg(started_at);
        let _: String = connection.run(&script).await?;
        let spaces = self.all_spaces(&connection).await?;
        let mut lost = Vec::new();
        for (space, lease) in pulse.expected(&spaces) {
            let mut holder = redis::cmd("HGET");
            holder.arg(self.keys.of_space(space, &format!("lease:{lease}"))).arg("instance");
            let holder: Option<String> = connection.ask(&holder).await?;
            if holder.as_ref() != Some(id) {
                lost.push(space.to_owned());
            }
        }
        Ok(Beat { store: here.identity, spaces, lost })
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        self.instance_page(page).await
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

    fn keys(&self) -> Option<&dyn KeyStore> {
        Some(self)
    }

    fn place(&self) -> Place {
        let location = self.pool.manager().shown();
        Place { kind: "redis", location, created: self.created }
    }
}

/// What every script on a space is first asked: whether the space has reached the floor.
fn guard(script: &mut ScriptInvocation<'_>, floor: &Floor, history: History) {
    let here = Mark { history, ..floor.mark };
    // The lengths that were seen are rarely any, and go with the name of the store.
    let grown: Vec<String> = floor.mark.grown.list().iter().map(u8::to_string).collect();
    let store = format!("{} {}", floor.store, grown.join(","));
    script.arg(store.trim_end());
    script.arg(floor.mark.revision.to_string()).arg(floor.mark.next.to_string());
    script.arg(u8::from(here.continues(floor.mark))).arg(next_era(floor.mark.revision).to_string());
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
