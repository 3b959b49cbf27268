//! Sightings in etcd: how far instances have seen a space that lies below that, for an advance to go
//! beyond.

use etcd_client::{Compare, CompareOp, GetOptions, TxnOp};

use super::EtcdStore;
use super::change::{Draft, Wanted};
use super::retry::Retries;
use crate::instance::Instance;
use crate::store::values::{from_json, json};
use crate::store::{Mark, Purpose, SpaceRecord, StoreError};

impl EtcdStore {
    /// Writes a sighting down, unless one as high is there: an instance may report the same with
    /// every heartbeat, and each write would leave history in etcd.
    pub(super) async fn put_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        let (of, key) = (self.paths.space(space), self.paths.sighting(space, instance));
        let mut retries = Retries::new();
        loop {
            let gets = vec![TxnOp::get(of.as_str(), None), TxnOp::get(key.as_str(), None)];
            let found = self.members.read(gets).await?;
            if found.revision(0) == 0 {
                return Ok(());
            }
            let known: Option<Mark> = found.value(1).map(from_json).transpose()?;
            let highest = known.map_or(seen, |known| known.max(seen));
            if known == Some(highest) {
                return Ok(());
            }
            let conditions = vec![
                Compare::create_revision(of.as_str(), CompareOp::Greater, 0),
                Compare::mod_revision(key.as_str(), CompareOp::Equal, found.revision(1)),
            ];
            let put = TxnOp::put(key.as_str(), json(&highest), None);
            if self.members.commit(conditions, vec![put], found.at.history).await? {
                return Ok(());
            }
            retries.another().await?;
        }
    }

    /// The highest sighting of a space, and the revision of etcd that it was read at.
    pub(super) async fn highest_sighting(
        &self,
        space: &str,
    ) -> Result<(Option<Mark>, i64), StoreError> {
        let all = GetOptions::new().with_prefix();
        let get = TxnOp::get(self.paths.sightings(space), Some(all));
        let found = self.members.read(vec![get]).await?;
        let mut highest: Option<Mark> = None;
        for (_, value) in found.pairs(0) {
            let seen: Mark = from_json(value)?;
            highest = Some(highest.map_or(seen, |highest| highest.max(seen)));
        }
        Ok((highest, found.at.revision))
    }

    /// Moves a space beyond what was seen of it, and drops the sightings with the same transaction: on
    /// condition that there are no others by then.
    pub(super) async fn advance_beyond(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let sightings = self.paths.sightings(space);
        let mut retries = Retries::new();
        loop {
            let wanted = Wanted { space, leases: &[], names: &[] };
            let mut draft = Draft::read(&self.members, &self.paths, wanted).await?;
            let mut record = draft.space()?;
            let (sighted, at) = self.highest_sighting(space).await?;
            let passed = record.advance(sighted.map_or(to, |sighted| to.max(sighted)))?;
            if !passed.is_empty() {
                draft.record_lease(&record, passed, Purpose::Advance, by);
            }
            draft.move_to(&record);
            draft.remove_all(&sightings, at);
            if draft.commit(&self.members).await? {
                return Ok(record);
            }
            retries.another().await?;
        }
    }
}
