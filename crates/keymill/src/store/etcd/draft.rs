//! One change to an etcd store: what was read, and what is to be written if it still holds.

use std::collections::HashMap;
use std::ops::Range;

use etcd_client::{Compare, CompareOp, TxnOp};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::connection::Members;
use super::keys::Keys;
use crate::floor::{Floor, History, Lengths, Mark};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::values::{from_json, json, now, stamp, time};
use crate::store::{
    Grant, LeaseAsk, LeaseId, LeaseRecord, NameBatch, NamePurpose, NameRecord, Named, Naming,
    Purpose, Ranges, SpaceRecord, StoreError,
};

/// The stamp of a store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoreDoc {
    pub(super) identity: String,
    created_at: Timestamp,
}

/// A space, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SpaceDoc {
    definition: Definition,
    tuning: Tuning,
    fingerprint: Option<String>,
    capacity: u64,
    next: u64,
    #[serde(default)]
    base: u64,
    returned: Ranges,
    revision: u64,
    sealed: bool,
    created_at: Timestamp,
}

/// A lease, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LeaseDoc {
    start: u64,
    end: u64,
    closed_at_ordinal: Option<u64>,
    purpose: String,
    holder: Instance,
    granted_at: Timestamp,
    closed_at: Option<Timestamp>,
}

/// A name, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NameDoc {
    ordinal: Option<u64>,
    purpose: NamePurpose,
    pub(super) owner: String,
    created_at: Timestamp,
    pub(super) removed_at: Option<Timestamp>,
}

/// What was read of a space, and what is to be written.
pub(super) struct Draft<'a> {
    pub(super) identity: String,
    pub(super) history: History,
    keys: &'a Keys,
    name: &'a str,
    space: Option<SpaceDoc>,
    leases: HashMap<LeaseId, LeaseDoc>,
    names: HashMap<String, NameRecord>,
    conditions: Vec<Compare>,
    writes: Vec<TxnOp>,
}

impl StoreDoc {
    pub(super) fn new() -> StoreDoc {
        StoreDoc { identity: stamp(), created_at: time(now()) }
    }
}

impl SpaceDoc {
    pub(super) fn record(self, name: &str, history: History) -> SpaceRecord {
        SpaceRecord {
            name: name.to_owned(),
            tuning: self.tuning,
            fingerprint: self.fingerprint,
            capacity: self.capacity,
            mark: Mark {
                revision: self.revision,
                next: self.next,
                history,
                grown: Lengths::of(&self.definition.grown),
            },
            base: self.base,
            returned: self.returned,
            sealed: self.sealed,
            created_at: self.created_at,
            definition: self.definition,
        }
    }

    fn of(space: &SpaceRecord) -> SpaceDoc {
        SpaceDoc {
            definition: space.definition.clone(),
            tuning: space.tuning.clone(),
            fingerprint: space.fingerprint.clone(),
            capacity: space.capacity,
            next: space.mark.next,
            base: space.base,
            returned: space.returned.clone(),
            revision: space.mark.revision,
            sealed: space.sealed,
            created_at: space.created_at,
        }
    }
}

impl LeaseDoc {
    pub(super) fn record(self, space: &str, lease: LeaseId) -> LeaseRecord {
        LeaseRecord {
            space: space.to_owned(),
            lease,
            ordinals: self.start..self.end,
            closed_at_ordinal: self.closed_at_ordinal,
            purpose: Purpose::from_name(&self.purpose),
            holder: self.holder,
            granted_at: self.granted_at,
            closed_at: self.closed_at,
        }
    }
}

impl NameDoc {
    pub(super) fn record(self, space: &str, key: &str) -> NameRecord {
        NameRecord {
            space: space.to_owned(),
            key: key.to_owned(),
            ordinal: self.ordinal,
            purpose: self.purpose,
            owner: self.owner,
            created_at: self.created_at,
            removed_at: self.removed_at,
        }
    }

    fn of(record: &NameRecord) -> NameDoc {
        NameDoc {
            ordinal: record.ordinal,
            purpose: record.purpose,
            owner: record.owner.clone(),
            created_at: record.created_at,
            removed_at: record.removed_at,
        }
    }
}

impl<'a> Draft<'a> {
    /// Reads the store's stamp, a space, and those of its leases and names that matter, as of one
    /// moment.
    pub(super) async fn read(
        members: &Members,
        keys: &'a Keys,
        name: &'a str,
        leases: &[LeaseId],
        named: &[&str],
    ) -> Result<Draft<'a>, StoreError> {
        let mut names = vec![keys.store(), keys.space(name)];
        names.extend(leases.iter().map(|lease| keys.lease(name, *lease)));
        names.extend(named.iter().map(|key| keys.name(name, key)));
        let gets = names.iter().map(|key| TxnOp::get(key.as_str(), None)).collect();
        let found = members.read(gets).await?;
        let unchanged = |(number, key): (usize, &String)| {
            Compare::mod_revision(key.as_str(), CompareOp::Equal, found.revision(number))
        };
        let stamp: Option<StoreDoc> = found.value(0).map(from_json).transpose()?;
        let mut docs = HashMap::new();
        for (number, lease) in leases.iter().enumerate() {
            if let Some(value) = found.value(number + 2) {
                docs.insert(*lease, from_json(value)?);
            }
        }
        let mut known = HashMap::new();
        for (number, key) in named.iter().enumerate() {
            if let Some(value) = found.value(number + 2 + leases.len()) {
                let doc: NameDoc = from_json(value)?;
                known.insert((*key).to_owned(), doc.record(name, key));
            }
        }
        Ok(Draft {
            identity: stamp.map(|stamp| stamp.identity).unwrap_or_default(),
            history: found.history,
            keys,
            name,
            space: found.value(1).map(from_json).transpose()?,
            leases: docs,
            names: known,
            conditions: names.iter().enumerate().map(unchanged).collect(),
            writes: Vec::new(),
        })
    }

    /// Writes it, if all that was read still holds; whether it did.
    pub(super) async fn commit(self, members: &Members) -> Result<bool, StoreError> {
        if self.writes.is_empty() {
            return Ok(true);
        }
        members.commit(self.conditions, self.writes, self.history).await
    }

    pub(super) fn space(&self) -> Result<SpaceRecord, StoreError> {
        let record = self.space.clone().map(|doc| doc.record(self.name, self.history));
        record.ok_or_else(|| StoreError::UnknownSpace(self.name.to_owned()))
    }

    /// The space, unless it lies below its floor.
    pub(super) fn space_above(&self, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let space = match self.space() {
            Err(StoreError::UnknownSpace(_)) if floor.mark.is_seen() => {
                return Err(StoreError::gone(self.name, floor.mark));
            }
            found => found?,
        };
        space.check_floor(&self.identity, floor)?;
        Ok(space)
    }

    pub(super) fn lease(&mut self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let mut space = self.space_above(&ask.floor)?;
        let instance = &ask.instance.id;
        if let Some(last) = ask.expected_lease(space.mark.revision)
            && !self.is_on_record(last, instance)
        {
            return Err(ask.lost_lease(last));
        }
        for &spent in &ask.spent {
            self.close(spent, instance, None);
        }
        if space.sealed {
            return Err(StoreError::Sealed(ask.space.clone()));
        }
        let Some(grant) = space.grant(ask) else {
            return Err(StoreError::Exhausted { space: ask.space.clone(), held_elsewhere: 0 });
        };
        self.record_lease(&space, grant.ordinals.clone(), Purpose::Lease, &ask.instance);
        self.move_to(&space);
        Ok(grant)
    }

    pub(super) fn add_names(&mut self, batch: &NameBatch) -> Result<Named, StoreError> {
        let mut space = self.space_above(&batch.floor)?;
        if space.sealed {
            return Err(StoreError::Sealed(batch.space.clone()));
        }
        batch.check_generations(&space)?;
        let mut outcomes = Vec::with_capacity(batch.names.len());
        for new in &batch.names {
            let outcome = batch.judge(&space, new, self.names.get(&new.key));
            if outcome == Naming::Made {
                let mut record = batch.record(new, time(now()));
                // One that was removed keeps the place that it was made with.
                if let Some(known) = self.names.get(&new.key) {
                    record.ordinal = known.ordinal;
                }
                self.put_name(record);
            }
            outcomes.push(outcome);
        }
        if outcomes.contains(&Naming::Made) {
            space.mark.revision += 1;
            self.move_to(&space);
        }
        Ok(Named { mark: space.mark, outcomes })
    }

    pub(super) fn remove_name(
        &mut self,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<Option<NameRecord>, StoreError> {
        let mut space = self.space_above(floor)?;
        let known = self.names.get(key).filter(|known| known.removed_at.is_none()).cloned();
        let Some(mut known) = known else { return Ok(None) };
        if known.is_alias_of(owner) {
            known.removed_at = Some(time(now()));
            self.put_name(known.clone());
            space.mark.revision += 1;
            self.move_to(&space);
        }
        Ok(Some(known))
    }

    fn put_name(&mut self, record: NameRecord) {
        let key = self.keys.name(self.name, &record.key);
        self.writes.push(TxnOp::put(key, json(&NameDoc::of(&record)), None));
        // Written once: a transaction may put a key only once, and a name keeps its place for ever.
        if !self.names.contains_key(&record.key) {
            let place = match record.ordinal {
                Some(ordinal) => self.keys.skip(self.name, ordinal),
                None => self.keys.unplaced(self.name, &record.key),
            };
            self.writes.push(TxnOp::put(place, "", None));
        }
        self.names.insert(record.key.clone(), record);
    }

    /// Writes down how far a space has come.
    pub(super) fn move_to(&mut self, space: &SpaceRecord) {
        let doc = json(&SpaceDoc::of(space));
        self.writes.push(TxnOp::put(self.keys.space(self.name), doc, None));
    }

    /// Writes anything else that belongs to the space.
    pub(super) fn put(&mut self, key: String, doc: &impl Serialize) {
        self.writes.push(TxnOp::put(key, json(doc), None));
    }

    /// Whether a lease is on record as this instance's.
    pub(super) fn is_on_record(&self, lease: LeaseId, instance: &str) -> bool {
        self.leases.get(&lease).is_some_and(|doc| doc.holder.id == instance)
    }

    /// Where a lease of this instance starts, while it is not closed.
    pub(super) fn open_start(&self, lease: LeaseId, instance: &str) -> Option<u64> {
        self.open_lease(lease, instance).map(|doc| doc.start)
    }

    /// Records a range under the revision that the space has moved to.
    pub(super) fn record_lease(
        &mut self,
        space: &SpaceRecord,
        ordinals: Range<u64>,
        purpose: Purpose,
        holder: &Instance,
    ) {
        let (lease, name) = (space.mark.revision, self.name);
        let Range { start, end } = ordinals;
        let doc = LeaseDoc {
            start,
            end,
            closed_at_ordinal: None,
            purpose: purpose.name().to_owned(),
            holder: holder.clone(),
            granted_at: time(now()),
            closed_at: None,
        };
        self.writes.push(TxnOp::put(self.keys.lease(name, lease), json(&doc), None));
        self.writes.push(TxnOp::put(self.keys.start(name, start, lease), "", None));
        if purpose == Purpose::Lease {
            let open = format!("{} {}", holder.id, end - start);
            self.writes.push(TxnOp::put(self.keys.open(name, lease), open, None));
        }
    }

    /// Moves the end of an open lease; where it starts stays.
    pub(super) fn extend(&mut self, lease: LeaseId, instance: &str, end: u64) {
        if let Some(doc) = self.open_lease(lease, instance) {
            let extended = LeaseDoc { end, ..doc.clone() };
            self.put(self.keys.lease(self.name, lease), &extended);
        }
    }

    /// Closes a lease, at its end or where its rest begins; whether it was open.
    pub(super) fn close(
        &mut self,
        lease: LeaseId,
        instance: &str,
        rest: Option<&Range<u64>>,
    ) -> bool {
        let Some(doc) = self.open_lease(lease, instance) else { return false };
        if rest.is_some_and(|rest| rest.end != doc.end) {
            return false;
        }
        let closed = LeaseDoc {
            closed_at_ordinal: Some(rest.map_or(doc.end, |rest| rest.start)),
            closed_at: Some(time(now())),
            ..doc.clone()
        };
        self.writes.push(TxnOp::put(self.keys.lease(self.name, lease), json(&closed), None));
        self.writes.push(TxnOp::delete(self.keys.open(self.name, lease), None));
        true
    }

    fn open_lease(&self, lease: LeaseId, instance: &str) -> Option<&LeaseDoc> {
        let is_open = |doc: &&LeaseDoc| doc.holder.id == instance && doc.closed_at.is_none();
        self.leases.get(&lease).filter(is_open)
    }
}
