//! Spaces in Redis: made, tuned, grown, ended, advanced and listed; and how far instances have seen them.

use async_trait::async_trait;
use deadpool::managed::Object;

use super::rows::{FieldMap, space_from};
use super::server::Server;
use super::{RedisStore, check_status, guard, over};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::values::{from_json, json};
use crate::store::{Created, ERA, Floor, Mark, NewSpace, SpaceRecord, Spaces, StoreError};

/// How often something is tried while others report sightings.
const TRIES: u32 = 20;

/// A field of a space to set.
#[derive(Debug)]
struct Setting {
    field: &'static str,
    value: String,
    /// Whether setting it to what it is changes nothing.
    once: bool,
}

#[async_trait]
impl Spaces for RedisStore {
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        over!(self, |connection| self.create_over(&connection, new, floor))
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
        over!(self, |connection| self.grow_over(&connection, space, definition, capacity, floor))
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        self.record_of(&self.connection().await?, space).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        let connection = self.connection().await?;
        let names = self.space_names(&connection).await?;
        self.records_of(&connection, &names).await
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        over!(self, |connection| self.advance_over(&connection, space, to, by))
    }

    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        over!(self, |connection| self.put_sighting(&connection, space, instance, seen))
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        let mut list = redis::cmd("HVALS");
        list.arg(self.paths.of_space(space, "sightings"));
        let found: Vec<String> = self.connection().await?.ask(&list).await?;
        let mut highest: Option<Mark> = None;
        for text in &found {
            let seen: Mark = from_json(text)?;
            highest = Some(highest.map_or(seen, |known| known.max(seen)));
        }
        Ok(highest)
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let setting = Setting { field: "sealed", value: "1".to_owned(), once: true };
        self.set(space, floor, &setting).await
    }
}

impl RedisStore {
    /// The names of all spaces, by their bytes. There may be some whose space was not made.
    pub(super) async fn space_names(
        &self,
        connection: &Object<Server>,
    ) -> Result<Vec<String>, StoreError> {
        let names = redis::cmd("SMEMBERS").arg(self.paths.spaces()).to_owned();
        let mut names: Vec<String> = connection.ask(&names).await?;
        names.sort_unstable();
        Ok(names)
    }

    /// The spaces of these names, as far as there are any.
    pub(super) async fn records_of(
        &self,
        connection: &Object<Server>,
        names: &[impl AsRef<str> + Sync],
    ) -> Result<Vec<SpaceRecord>, StoreError> {
        let mut pipe = redis::pipe();
        for name in names {
            pipe.cmd("HGETALL").arg(self.paths.space(name.as_ref()));
        }
        let all: Vec<FieldMap> = connection.ask_all(&pipe).await?;
        let history = connection.history();
        let records = names.iter().zip(&all);
        records.filter_map(|(name, fields)| space_from(name.as_ref(), fields, history)).collect()
    }

    /// Keeps the name of a space that is about to be made: one whose space is not made then is passed over.
    pub(super) async fn keep_name(
        &self,
        connection: &Object<Server>,
        space: &str,
    ) -> Result<(), StoreError> {
        let keep = redis::cmd("SADD").arg(self.paths.spaces()).arg(space).to_owned();
        connection.ask::<i64>(&keep).await.map(drop)
    }

    async fn create_over(
        &self,
        connection: &Object<Server>,
        new: &NewSpace,
        floor: &Floor,
    ) -> Result<Created, StoreError> {
        let here = connection.witness().await?;
        if !floor.mark.is_seen() {
            floor.check_new(&new.name, &here.identity, here.history())?;
        }
        self.keep_name(connection, &new.name).await?;
        let mut script = self.scripts.create.key(self.paths.space(&new.name));
        guard(&mut script, floor, here.history());
        script.arg("definition").arg(json(&new.definition)).arg("tuning").arg(json(&new.tuning));
        script.arg("capacity").arg(new.capacity.to_string()).arg("next").arg(new.start.to_string());
        if let Some(fingerprint) = &new.fingerprint {
            script.arg("fingerprint").arg(fingerprint);
        }
        let (status, answer) = self.change(connection, &new.name, floor, &script).await?;
        let record = self.record_from(connection, &new.name, &answer)?;
        Ok(if status == "made" { Created::Made(record) } else { Created::Exists(record) })
    }

    async fn set(
        &self,
        space: &str,
        floor: &Floor,
        setting: &Setting,
    ) -> Result<SpaceRecord, StoreError> {
        self.with_connection(|connection| async move {
            let mut script = self.scripts.set.key(self.paths.space(space));
            guard(&mut script, floor, connection.history());
            script.arg(setting.field).arg(&setting.value).arg(u8::from(setting.once));
            let (_, answer) = self.change(&connection, space, floor, &script).await?;
            self.record_from(&connection, space, &answer)
        })
        .await
    }

    async fn grow_over(
        &self,
        connection: &Object<Server>,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let mut script = self.scripts.grow.key(self.paths.space(space));
        guard(&mut script, floor, connection.history());
        script.arg(json(definition)).arg(capacity.to_string());
        let (status, answer) = self.change(connection, space, floor, &script).await?;
        check_status(&status, space)?;
        self.record_from(connection, space, &answer)
    }

    async fn advance_over(
        &self,
        connection: &Object<Server>,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        for _ in 0..TRIES {
            if let Some(record) = self.try_advance(connection, space, to, by).await? {
                return Ok(record);
            }
        }
        Err(StoreError::Unavailable(format!(
            "gave up advancing `{space}` because instances kept reporting how far they have seen it"
        )))
    }

    /// Advances once, beyond all sightings that are on record; `None` where there are others by then.
    async fn try_advance(
        &self,
        connection: &Object<Server>,
        space: &str,
        mut to: Mark,
        by: &Instance,
    ) -> Result<Option<SpaceRecord>, StoreError> {
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("HGETALL").arg(self.paths.space(space));
        pipe.cmd("HGETALL").arg(self.paths.of_space(space, "sightings"));
        let found: Vec<FieldMap> = connection.ask_all(&pipe).await?;
        let [fields, sightings] = found.as_slice() else {
            return Err(StoreError::Broken("redis answered one of two questions".to_owned()));
        };
        let before = space_from(space, fields, connection.history())
            .unwrap_or_else(|| Err(StoreError::UnknownSpace(space.to_owned())))?;
        for seen in sightings.values() {
            to = to.max(from_json(seen)?);
        }
        // Growths that were lost, made again.
        let mut after = before.clone();
        let passed = after.advance(to)?;
        let mut script = self.scripts.advance.key(self.paths.space(space));
        script.arg(to.revision.to_string()).arg(to.next.to_string()).arg(ERA.to_string());
        script.arg(&by.id).arg(json(by));
        script.arg(json(&before.definition.grown));
        script.arg(json(&after.definition)).arg(after.capacity.to_string());
        script.arg(u8::from(!passed.is_empty()));
        for (instance, seen) in sightings {
            script.arg(instance).arg(seen);
        }
        let nothing_seen = Floor { store: String::new(), mark: Mark::default() };
        let (status, answer) = self.change(connection, space, &nothing_seen, &script).await?;
        if status == "sighted" {
            return Ok(None);
        }
        check_status(&status, space)?;
        self.record_from(connection, space, &answer).map(Some)
    }

    /// Writes a sighting down. No replica has to confirm it: it only tells an advance how far to go,
    /// and one that is lost is as if it had not been reported yet.
    async fn put_sighting(
        &self,
        connection: &Object<Server>,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let mut get = redis::cmd("HGET");
            get.arg(self.paths.of_space(space, "sightings")).arg(instance);
            let known: Option<String> = connection.ask(&get).await?;
            let known = known.unwrap_or_default();
            let seen = if known.is_empty() { seen } else { seen.max(from_json(&known)?) };
            let mut script = self.scripts.sighting.key(self.paths.space(space));
            script.arg(instance).arg(known).arg(json(&seen));
            let status: String = connection.run(&script).await?;
            if status != "changed" {
                return Ok(());
            }
        }
        Err(StoreError::Unavailable(format!(
            "gave up reporting for {instance} because of conflicting writes"
        )))
    }
}
