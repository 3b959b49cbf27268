//! Spaces in Redis: made, tuned, grown, ended and advanced, and how far instances have seen them.

use deadpool::managed::Object;

use super::connection::Server;
use super::rows::{Fields, space_from};
use super::{RedisStore, guard};
use crate::instance::Instance;
use crate::space::Definition;
use crate::store::values::{from_json, json};
use crate::store::{Created, ERA, Floor, Mark, NewSpace, SpaceRecord, StoreError};

/// How often something is tried while others report sightings.
const TRIES: u32 = 20;

/// A field of a space to set.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) field: &'static str,
    pub(super) value: String,
    /// Whether setting it to what it is changes nothing.
    pub(super) once: bool,
}

impl RedisStore {
    pub(super) async fn create_over(
        &self,
        connection: &Object<Server>,
        new: &NewSpace,
        floor: &Floor,
    ) -> Result<Created, StoreError> {
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
        let (status, answer) = self.change(connection, &new.name, floor, &script).await?;
        let record = self.record_from(connection, &new.name, &answer)?;
        Ok(if status == "made" { Created::Made(record) } else { Created::Exists(record) })
    }

    pub(super) async fn set_over(
        &self,
        connection: &Object<Server>,
        space: &str,
        floor: &Floor,
        setting: &Setting,
    ) -> Result<SpaceRecord, StoreError> {
        let mut script = self.scripts.set.key(self.keys.space(space));
        guard(&mut script, floor, connection.history());
        script.arg(setting.field).arg(&setting.value).arg(u8::from(setting.once));
        let (_, answer) = self.change(connection, space, floor, &script).await?;
        self.record_from(connection, space, &answer)
    }

    pub(super) async fn grow_over(
        &self,
        connection: &Object<Server>,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let mut script = self.scripts.grow.key(self.keys.space(space));
        guard(&mut script, floor, connection.history());
        script.arg(json(definition)).arg(capacity.to_string());
        let (status, answer) = self.change(connection, space, floor, &script).await?;
        match status.as_str() {
            "sealed" => Err(StoreError::Sealed(space.to_owned())),
            "outdated" => Err(StoreError::Outdated(space.to_owned())),
            _ => self.record_from(connection, space, &answer),
        }
    }

    pub(super) async fn advance_over(
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

    /// Writes a sighting down. No replica has to confirm it: it only tells an advance how far to go,
    /// and one that is lost is as if it had not been reported yet.
    pub(super) async fn put_sighting(
        &self,
        connection: &Object<Server>,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let mut get = redis::cmd("HGET");
            get.arg(self.keys.of_space(space, "sightings")).arg(instance);
            let known: Option<String> = connection.ask(&get).await?;
            let known = known.unwrap_or_default();
            let seen = if known.is_empty() { seen } else { seen.max(from_json(&known)?) };
            let mut script = self.scripts.sighting.key(self.keys.space(space));
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

    pub(super) async fn highest_sighting(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        let mut list = redis::cmd("HVALS");
        list.arg(self.keys.of_space(space, "sightings"));
        let found: Vec<String> = self.connection().await?.ask(&list).await?;
        let mut highest: Option<Mark> = None;
        for text in &found {
            let seen: Mark = from_json(text)?;
            highest = Some(highest.map_or(seen, |known| known.max(seen)));
        }
        Ok(highest)
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
        pipe.atomic().cmd("HGETALL").arg(self.keys.space(space));
        pipe.cmd("HGETALL").arg(self.keys.of_space(space, "sightings"));
        let found: Vec<Fields> = connection.ask_all(&pipe).await?;
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
        let mut script = self.scripts.advance.key(self.keys.space(space));
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
        match status.as_str() {
            "sighted" => Ok(None),
            "outdated" => Err(StoreError::Outdated(space.to_owned())),
            _ => self.record_from(connection, space, &answer).map(Some),
        }
    }
}
