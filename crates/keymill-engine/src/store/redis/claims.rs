//! Keys of pools in Redis that are claimed, given back and retired.

use deadpool::managed::Object;

use super::connection::Server;
use super::key_rows::{KEYS_MAX, claimed_from};
use super::rows::{self, mark_from, used_from};
use super::{RedisStore, guard};
use crate::store::values::millis;
use crate::store::{
    Claim, ClaimAsk, ERA, KeyPlace, Mark, Release, Retire, StoreError, UsedKey, next_era,
};

impl RedisStore {
    pub(super) async fn claim_over(
        &self,
        connection: &Object<Server>,
        ask: &ClaimAsk,
    ) -> Result<Claim, StoreError> {
        let history = connection.history();
        let mut script = self.scripts.claim.key(self.keys.space(&ask.space));
        guard(&mut script, &ask.floor, history);
        let size = ask.size.min(2 * KEYS_MAX as u64);
        // So far ahead that no clock gets there, and still a time that can be added to.
        let ttl = ask.ttl.map(|ttl| millis(ttl).min(i64::MAX / 2).to_string());
        script.arg(&ask.instance.id).arg(size).arg(ask.share.max(1)).arg(ttl.unwrap_or_default());
        if let Some(last) = &ask.last {
            script.arg(&last.key.key).arg((last.revision / ERA * ERA).to_string());
            script.arg(next_era(last.revision).to_string());
        }
        let (status, answer) = self.change(connection, &ask.space, &ask.floor, &script).await?;
        match (status.as_str(), &ask.last) {
            ("sealed", _) => return Err(StoreError::Sealed(ask.space.clone())),
            ("lost", Some(last)) => return Err(last.lost(&ask.space, &ask.floor)),
            _ => {}
        }
        let mut keys = Vec::new();
        for pair in answer.get(3..).unwrap_or_default().chunks_exact(2) {
            keys.push(claimed_from(&pair[0], &pair[1])?);
        }
        let available = rows::number(answer.get(2))?;
        Ok(Claim { mark: mark_from(&answer, history)?, keys, available })
    }

    pub(super) async fn release_over(
        &self,
        connection: &Object<Server>,
        back: &Release,
    ) -> Result<Mark, StoreError> {
        let history = connection.history();
        let mut rest = back.keys.as_slice();
        loop {
            let (keys, later) = rest.split_at(rest.len().min(KEYS_MAX));
            let mut script = self.scripts.release.key(self.keys.space(&back.space));
            guard(&mut script, &back.floor, history);
            script.arg(&back.instance).arg(ERA.to_string());
            for claimed in keys {
                script.arg(&claimed.key);
            }
            let (_, answer) = self.change(connection, &back.space, &back.floor, &script).await?;
            if later.is_empty() {
                return mark_from(&answer, history);
            }
            rest = later;
        }
    }

    pub(super) async fn retire_over(
        &self,
        connection: &Object<Server>,
        retire: &Retire,
    ) -> Result<UsedKey, StoreError> {
        let KeyPlace { space, id, key } = &retire.at;
        let mut script = self.scripts.retire.key(self.keys.space(space));
        guard(&mut script, &retire.floor, connection.history());
        script.arg(key).arg(retire.used_at.as_millisecond()).arg(&retire.instance);
        script.arg(id.to_string());
        let (_, answer) = self.change(connection, space, &retire.floor, &script).await?;
        let record = answer.first().map(String::as_str).unwrap_or_default();
        used_from(key, record)
    }
}
