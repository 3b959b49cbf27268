//! Spaces in etcd: made, tuned, grown, ended and listed. How they are advanced is in `sightings`.

use async_trait::async_trait;
use etcd_client::{GetOptions, TxnOp};

use super::EtcdStore;
use super::connection::GETS_MAX;
use super::docs::SpaceDoc;
use super::key_paths::{beyond, end_of};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::values::{from_json, now, time};
use crate::store::{Created, Floor, Lengths, Mark, NewSpace, SpaceRecord, Spaces, StoreError};

/// How many spaces one request asks for.
const SPACES_MAX: usize = 1_000;

#[async_trait]
impl Spaces for EtcdStore {
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        self.change(&new.name, &[], &[], |draft| {
            match draft.space_above(floor) {
                Err(StoreError::UnknownSpace(_)) => {
                    floor.check_new(&new.name, &draft.identity, draft.history)?;
                }
                found => return found.map(Created::Exists),
            }
            let space = SpaceRecord {
                name: new.name.clone(),
                definition: new.definition.clone(),
                tuning: new.tuning.clone(),
                fingerprint: new.fingerprint.clone(),
                capacity: new.capacity,
                mark: Mark {
                    revision: 1,
                    next: new.start,
                    history: draft.history,
                    grown: Lengths::default(),
                },
                base: 0,
                returned: Default::default(),
                sealed: false,
                created_at: time(now()),
            };
            draft.move_to(&space);
            Ok(Created::Made(space))
        })
        .await
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.change(space, &[], &[], |draft| {
            let mut space = draft.space_above(floor)?;
            space.tuning = space.tuned(tuning);
            space.mark.revision += 1;
            draft.move_to(&space);
            Ok(space)
        })
        .await
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.change(space, &[], &[], |draft| {
            let mut space = draft.space_above(floor)?;
            if space.grow(definition, capacity)? {
                draft.move_to(&space);
            }
            Ok(space)
        })
        .await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let found = self.members.read(vec![TxnOp::get(self.paths.space(space), None)]).await?;
        let doc = found.value(0).map(from_json::<SpaceDoc>).transpose()?;
        let record = doc.map(|doc| doc.record(space, found.at.history));
        record.ok_or_else(|| StoreError::UnknownSpace(space.to_owned()))
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        let all = self.paths.spaces();
        let mut from = all.clone();
        let mut spaces = Vec::new();
        loop {
            let options = GetOptions::new().with_range(end_of(&all)).with_limit(SPACES_MAX as i64);
            let found = self.members.read(vec![TxnOp::get(from, Some(options))]).await?;
            for (key, value) in found.pairs(0) {
                let name = key.strip_prefix(all.as_str()).unwrap_or(key);
                spaces.push(from_json::<SpaceDoc>(value)?.record(name, found.at.history));
            }
            match found.last_key(0) {
                Some(last) if found.count(0) == SPACES_MAX => from = beyond(last),
                _ => return Ok(spaces),
            }
        }
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        self.advance_beyond(space, to, by).await
    }

    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        self.put_sighting(space, instance, seen).await
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        Ok(self.highest_sighting(space).await?.0)
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        self.change(space, &[], &[], |draft| {
            let mut space = draft.space_above(floor)?;
            if !space.sealed {
                space.sealed = true;
                space.mark.revision += 1;
                draft.move_to(&space);
            }
            Ok(space)
        })
        .await
    }
}

impl EtcdStore {
    /// The spaces of these names, as far as there are any.
    pub(super) async fn space_records(
        &self,
        names: &[&str],
    ) -> Result<Vec<SpaceRecord>, StoreError> {
        let mut records = Vec::with_capacity(names.len());
        for batch in names.chunks(GETS_MAX) {
            let gets = batch.iter().map(|name| TxnOp::get(self.paths.space(name), None));
            let found = self.members.read(gets.collect()).await?;
            for (number, name) in batch.iter().enumerate() {
                if let Some(value) = found.value(number) {
                    records.push(from_json::<SpaceDoc>(value)?.record(name, found.at.history));
                }
            }
        }
        Ok(records)
    }

    /// The names of all spaces.
    pub(super) async fn space_names(&self) -> Result<Vec<String>, StoreError> {
        let all = self.paths.spaces();
        let options = GetOptions::new().with_prefix().with_keys_only();
        let found = self.members.read(vec![TxnOp::get(all.as_str(), Some(options))]).await?;
        let names = found.pairs(0).filter_map(|(key, _)| key.strip_prefix(all.as_str()));
        Ok(names.map(str::to_owned).collect())
    }
}
