//! One change to an etcd store: what was read, and what is to be written if it still holds.
//!
//! A change concerns one space, or several that are read and written together.

use std::collections::HashMap;
use std::ops::Range;

use etcd_client::{Compare, CompareOp, DeleteOptions, TxnOp};
use serde::Serialize;

use super::connection::Members;
use super::docs::{LeaseDoc, NameDoc, SpaceDoc, StoreDoc};
use super::key_paths::KeyPaths;
use super::names::{keys_of, name_at};
use crate::instance::Instance;
use crate::store::values::{from_json, json, now, time};
use crate::store::{
    Floor, GiveBack, Grant, History, LeaseAsk, LeaseId, Mark, NameBatch, NameRecord, Named, Naming,
    NewName, Purpose, SpaceRecord, StoreError,
};

/// What a change has to know of one space.
pub(super) struct Wanted<'a> {
    pub(super) space: &'a str,
    pub(super) leases: &'a [LeaseId],
    pub(super) names: &'a [NewName],
}

/// What was read of a space, and what is to be written.
pub(super) struct Draft<'a> {
    pub(super) identity: String,
    pub(super) history: History,
    paths: &'a KeyPaths,
    name: &'a str,
    /// The space as it was read, or as it has moved since.
    space: Option<SpaceDoc>,
    has_moved: bool,
    leases: HashMap<LeaseId, LeaseDoc>,
    names: HashMap<String, NameRecord>,
    conditions: Vec<Compare>,
    writes: Vec<TxnOp>,
}

impl<'a> Draft<'a> {
    /// Reads the store's stamp, a space, and those of its leases and names that matter, as of one
    /// moment.
    pub(super) async fn read(
        members: &Members,
        paths: &'a KeyPaths,
        wanted: Wanted<'a>,
    ) -> Result<Draft<'a>, StoreError> {
        let mut drafts = Draft::read_all(members, paths, &[wanted]).await?;
        Ok(drafts.pop().expect("there is a draft for each that is wanted"))
    }

    /// The same of several spaces, all as of one moment: a draft for each, in their order.
    pub(super) async fn read_all(
        members: &Members,
        paths: &'a KeyPaths,
        wanted: &[Wanted<'a>],
    ) -> Result<Vec<Draft<'a>>, StoreError> {
        let mut read = vec![paths.store()];
        for Wanted { space, leases, names } in wanted {
            read.push(paths.space(space));
            read.extend(leases.iter().map(|lease| paths.lease(space, *lease)));
            read.extend(names.iter().flat_map(|name| keys_of(paths, space, name)));
        }
        let gets = read.iter().map(|key| TxnOp::get(key.as_str(), None)).collect();
        let found = members.read(gets).await?;
        let unchanged = |number: usize| {
            let revision = found.revision(number);
            Compare::mod_revision(read[number].as_str(), CompareOp::Equal, revision)
        };
        let stamp: Option<StoreDoc> = found.value(0).map(from_json).transpose()?;
        let identity = stamp.map(|stamp| stamp.identity).unwrap_or_default();
        let mut drafts = Vec::with_capacity(wanted.len());
        let mut first = 1;
        for Wanted { space, leases, names } in wanted {
            let (leases_from, names_from) = (first + 1, first + 1 + leases.len());
            let mut docs = HashMap::new();
            for (number, lease) in (leases_from..).zip(leases.iter()) {
                if let Some(value) = found.value(number) {
                    docs.insert(*lease, from_json(value)?);
                }
            }
            let (mut known, mut end) = (HashMap::new(), names_from);
            for name in names.iter() {
                if let Some(record) = name_at(&found, end, space, name)? {
                    known.insert(name.key.clone(), record);
                }
                end += keys_of(paths, space, name).count();
            }
            drafts.push(Draft {
                identity: identity.clone(),
                history: found.at.history,
                paths,
                name: space,
                space: found.value(first).map(from_json).transpose()?,
                has_moved: false,
                leases: docs,
                names: known,
                conditions: std::iter::once(0).chain(first..end).map(unchanged).collect(),
                writes: Vec::new(),
            });
            first = end;
        }
        Ok(drafts)
    }

    /// Writes it, if all that was read still holds; whether it did.
    pub(super) async fn commit(self, members: &Members) -> Result<bool, StoreError> {
        Draft::commit_all(vec![self], members).await
    }

    /// Writes several that were read together, in one transaction.
    pub(super) async fn commit_all(
        drafts: Vec<Draft<'_>>,
        members: &Members,
    ) -> Result<bool, StoreError> {
        let (mut conditions, mut writes) = (Vec::new(), Vec::new());
        let mut history = History::default();
        for mut draft in drafts {
            draft.write_space();
            // What a draft has only read decides nothing once it is answered.
            if !draft.writes.is_empty() {
                history = draft.history;
                conditions.append(&mut draft.conditions);
                writes.append(&mut draft.writes);
            }
        }
        if writes.is_empty() {
            return Ok(true);
        }
        members.commit(conditions, writes, history).await
    }

    pub(super) fn space(&self) -> Result<SpaceRecord, StoreError> {
        let record = self.space.clone().map(|doc| doc.record(self.name, self.history));
        record.ok_or_else(|| StoreError::UnknownSpace(self.name.to_owned()))
    }

    /// The space, unless it lies below its floor.
    pub(super) fn space_above(&self, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let space = match self.space() {
            Err(StoreError::UnknownSpace(_)) if floor.mark.is_seen() => {
                return Err(StoreError::gone(self.name));
            }
            found => found?,
        };
        space.check_floor(&self.identity, floor)?;
        Ok(space)
    }

    pub(super) fn lease(&mut self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        let mut space = self.space_above(floor)?;
        let instance = &ask.instance.id;
        if let Some(last) = ask.expected_lease(space.mark.revision)
            && !self.is_on_record(last, instance)
        {
            return Err(ask.lost_lease(last, floor));
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

    pub(super) fn add_names(
        &mut self,
        batch: &NameBatch,
        floor: &Floor,
    ) -> Result<Named, StoreError> {
        let mut space = self.space_above(floor)?;
        if space.sealed {
            return Err(StoreError::Sealed(batch.space.clone()));
        }
        batch.check_generations(&space)?;
        let mut outcomes = Vec::with_capacity(batch.names.len());
        for new in &batch.names {
            let outcome = batch.judge(&space, new, self.names.get(&new.key));
            if outcome == Naming::Made {
                let mut record = batch.record(new, time(now()));
                // One that was removed keeps the ordinal that it was made with.
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
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        let mut space = self.space_above(floor)?;
        let known = self.names.get(key).filter(|known| known.removed_at.is_none()).cloned();
        let Some(mut known) = known else { return Ok((space.mark, None)) };
        if known.is_alias_of(owner) {
            known.removed_at = Some(time(now()));
            self.put_name(known.clone());
            space.mark.revision += 1;
            self.move_to(&space);
        }
        Ok((space.mark, Some(known)))
    }

    fn put_name(&mut self, record: NameRecord) {
        let key = self.paths.name(self.name, &record.key);
        self.writes.push(TxnOp::put(key, json(&NameDoc::of(&record)), None));
        // Written once: a transaction may put a key only once, and a name keeps its ordinal for ever.
        if !self.names.contains_key(&record.key) {
            let by_ordinal = match record.ordinal {
                Some(ordinal) => self.paths.skip(self.name, ordinal),
                None => self.paths.without_ordinal(self.name, &record.key),
            };
            self.writes.push(TxnOp::put(by_ordinal, "", None));
        }
        self.names.insert(record.key.clone(), record);
    }

    /// Closes a lease where drawing ended, if it is open and ends where its holder says, and takes
    /// back what was not drawn of it.
    pub(super) fn give_back(
        &mut self,
        (back, floor): &(GiveBack, Floor),
    ) -> Result<Mark, StoreError> {
        let mut space = self.space_above(floor)?;
        if self.close(back.lease, &back.instance, Some(&(back.closed_at..back.end))) {
            space.take_back(&back.returned);
            self.move_to(&space);
        }
        Ok(space.mark)
    }

    /// Notes how far a space has come, to be written down with the rest.
    pub(super) fn move_to(&mut self, space: &SpaceRecord) {
        self.space = Some(SpaceDoc::of(space));
        self.has_moved = true;
    }

    /// Writes down how far the space has come, once: a transaction may put a key only once.
    fn write_space(&mut self) {
        if let Some(doc) = self.space.as_ref().filter(|_| self.has_moved) {
            // Together, so that etcd gives both the same revision: that tells a mark from one that
            // a version which knows of no marks has left behind.
            let (space, mark) = (self.paths.space(self.name), self.paths.mark(self.name));
            let writes = [TxnOp::put(space, json(doc), None), TxnOp::put(mark, doc.mark(), None)];
            self.writes.extend(writes);
        }
    }

    /// Removes all keys that begin so, on condition that none of them was written since etcd's
    /// revision `at`.
    pub(super) fn remove_all(&mut self, begin: &str, at: i64) {
        let unchanged = Compare::mod_revision(begin, CompareOp::Less, at + 1).with_prefix();
        self.conditions.push(unchanged);
        let all = DeleteOptions::new().with_prefix();
        self.writes.push(TxnOp::delete(begin, Some(all)));
    }

    /// Writes rows of a keyspace that is moved here.
    pub(super) fn import(&mut self, rows: &[TxnOp]) {
        self.writes.extend_from_slice(rows);
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
        self.writes.push(TxnOp::put(self.paths.lease(name, lease), json(&doc), None));
        self.writes.push(TxnOp::put(self.paths.start(name, start, lease), "", None));
        if purpose == Purpose::Lease {
            let open = format!("{} {}", holder.id, end - start);
            self.writes.push(TxnOp::put(self.paths.open(name, lease), open, None));
        }
    }

    /// Moves the end of an open lease; where it starts stays.
    pub(super) fn extend(&mut self, lease: LeaseId, instance: &str, end: u64) {
        if let Some(doc) = self.open_lease(lease, instance) {
            let extended = LeaseDoc { end, ..doc.clone() };
            self.put(self.paths.lease(self.name, lease), &extended);
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
        self.writes.push(TxnOp::put(self.paths.lease(self.name, lease), json(&closed), None));
        self.writes.push(TxnOp::delete(self.paths.open(self.name, lease), None));
        // So that it is not closed twice in one transaction.
        self.leases.insert(lease, closed);
        true
    }

    fn open_lease(&self, lease: LeaseId, instance: &str) -> Option<&LeaseDoc> {
        let is_open = |doc: &&LeaseDoc| doc.holder.id == instance && doc.closed_at.is_none();
        self.leases.get(&lease).filter(is_open)
    }
}
