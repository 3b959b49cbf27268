//! Used keys in a MySQL transaction: how they are put on record, and retired. In which order rows
//! are locked is told in `key_rows`.

use std::collections::HashSet;
use std::time::Duration;

use mysql_async::params;

use super::bulk::{hex, removal};
use super::rows::used_from;
use super::statements::now;
use super::transaction::Tx;
use crate::store::values::millis;
use crate::store::{
    Floor, KeyId, KeyPlace, KeyUse, LastUse, Noted, Retire, SpaceRecord, StoreError, UsedKey, Uses,
    first_id,
};

const KEY_REMOVE: &str =
    "DELETE FROM available_keys WHERE space = :space AND id = :id AND `key` = :key";
const KEY_REMOVE_FRESH: &str = "DELETE FROM available_keys
    WHERE space = :space AND id = :id AND `key` = :key AND reserved_by IS NULL";
const USED_ADD: &str =
    "INSERT INTO used_keys (id, space, `key`, used_at, caller, instance, expires_at) VALUES ";
const USED_RETIRE: &str = concat!(
    "INSERT INTO used_keys (id, space, `key`, used_at, caller, instance, retired_at)
    VALUES (:id, :space, :key, :used_at, '', :instance, ",
    now!(),
    ") ON DUPLICATE KEY UPDATE retired_at = COALESCE(retired_at, VALUES(retired_at))"
);
const USED: &str = "SELECT id, `key`, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = :space AND id = :id";

impl Tx {
    pub(super) async fn note(&mut self, uses: &Uses) -> Result<Noted, StoreError> {
        let read = self.look_above(&uses.space, &uses.floor).await?;
        self.check_last(&read, uses.last.as_ref(), &uses.instance, &uses.floor).await?;
        let (_, now) = self.pool(&uses.space).await?;
        let (space, instance) = (hex(uses.space.as_bytes()), hex(uses.instance.as_bytes()));
        let mut ids: Vec<KeyId> = uses.keys.iter().map(|used| used.id).collect();
        ids.sort_unstable();
        if uses.pooled {
            let first = first_id(read.mark.revision);
            ids.retain(|id| *id >= first);
            let ours = format!(
                "SELECT id FROM available_keys FORCE INDEX (PRIMARY)
                WHERE space = {space} AND reserved_by = {instance}"
            );
            ids = self.lock_ids(&ours, &ids).await?;
            self.on_ids(&removal("available_keys", &space), &ids).await?;
        }
        // One that was retired before it was handed out is not handed out.
        let retired = self.used_among(&space, &ids).await?;
        let mut free: HashSet<KeyId> = ids.into_iter().filter(|id| !retired.contains(id)).collect();
        let expires_at = expiry(now, uses.ttl);
        let (mut rows, mut may_go) = (Vec::new(), Vec::with_capacity(uses.keys.len()));
        for KeyUse { id, key, caller } in &uses.keys {
            let goes = free.remove(id);
            if goes {
                let (key, caller) = (hex(key.as_bytes()), hex(caller.as_bytes()));
                rows.push(format!("({id},{space},{key},{now},{caller},{instance},{expires_at})"));
            }
            may_go.push(goes);
        }
        self.insert(USED_ADD, &rows, "").await?;
        let after = self.step(&read).await?;
        if after.sealed {
            return Err(StoreError::Sealed(uses.space.clone()));
        }
        Ok(Noted { mark: after.mark, may_go })
    }

    pub(super) async fn retire(&mut self, retire: &Retire) -> Result<UsedKey, StoreError> {
        let KeyPlace { space, id, key } = &retire.at;
        let read = self.look_above(space, &retire.floor).await?;
        let (used_at, instance) = (retire.used_at.as_millisecond(), &retire.instance);
        // One that came back to the pool meanwhile does not stay there.
        let fresh = self.execute(KEY_REMOVE_FRESH, params! { space, id, key }).await?;
        self.execute(KEY_REMOVE, params! { space, id, key }).await?;
        self.execute(USED_RETIRE, params! { id, space, key, used_at, instance }).await?;
        self.step(&read).await?;
        if fresh > 0 && *id >= first_id(read.mark.revision) {
            self.pool_add(space, -1).await?;
        }
        let rows = self.query(USED, params! { space, id }).await?;
        Ok(used_from(&rows[0]))
    }

    /// Refuses where the last use is not on record any more.
    pub(super) async fn check_last(
        &mut self,
        space: &SpaceRecord,
        last: Option<&LastUse>,
        instance: &str,
        floor: &Floor,
    ) -> Result<(), StoreError> {
        let Some(last) = last.filter(|last| last.is_expected(space.mark.revision)) else {
            return Ok(());
        };
        let params = params! { "space" => &space.name, "id" => last.key.id };
        let rows = self.query(USED, params).await?;
        match rows.first().map(used_from) {
            Some(used) if used.instance == instance && used.key == last.key.key => Ok(()),
            _ => Err(last.lost(&space.name, floor)),
        }
    }

    /// The ids that are used ones, locked from here on.
    pub(super) async fn used_among(
        &mut self,
        space: &str,
        ids: &[KeyId],
    ) -> Result<HashSet<KeyId>, StoreError> {
        let used = format!("SELECT id FROM used_keys FORCE INDEX (PRIMARY) WHERE space = {space}");
        Ok(self.lock_ids(&used, ids).await?.into_iter().collect())
    }
}

pub(super) fn expiry(now: i64, ttl: Option<Duration>) -> String {
    ttl.map_or("NULL".to_owned(), |ttl| now.saturating_add(millis(ttl)).to_string())
}
