//! Pools in Redis: how keys come into one, are claimed, and come back.
//!
//! Each change is one script, as on the rest of a space. A key is found by itself rather than by an
//! id; what is called its id here is its place: a number that it gets when it comes into the pool,
//! and keeps for as long as it is known. Keys are claimed by their places.
//!
//! A script cannot make keys. A fill therefore looks at the space, makes the keys of what it would
//! be granted, and is granted that if nothing has changed meanwhile.

use async_trait::async_trait;
use deadpool::managed::Object;

use super::rows::{self, claimed_from, field, fields, mark_from, used_from};
use super::server::Server;
use super::{RedisStore, check_status, guard, over};
use crate::store::values::{json, millis};
use crate::store::{
    AvailablePage, Claim, ClaimAsk, Claimed, ERA, Fill, Filled, Floor, Found, KeyRef, Mark,
    NamePurpose, Names, NewName, Pools, Release, StoreError, next_era,
};

/// The most keys of one script: others wait for as long as it runs.
const KEYS_MAX: usize = 5_000;
/// How often a fill is tried while others change the space.
const FILL_TRIES: u32 = 20;

#[async_trait]
impl Pools for RedisStore {
    async fn fill(&self, fill: &Fill, floor: &Floor) -> Result<Filled, StoreError> {
        over!(self, |connection| self.fill_over(&connection, fill, floor))
    }

    /// Keys are always used at once: none is ever reserved.
    async fn claim(&self, ask: &ClaimAsk, floor: &Floor) -> Result<Claim, StoreError> {
        over!(self, |connection| self.claim_over(&connection, ask, floor))
    }

    async fn release(&self, back: &Release, floor: &Floor) -> Result<Mark, StoreError> {
        over!(self, |connection| self.release_over(&connection, back, floor))
    }

    async fn available(&self, space: &str) -> Result<u64, StoreError> {
        let connection = self.connection().await?;
        connection.ask(redis::cmd("ZCARD").arg(self.paths.of_space(space, "pool"))).await
    }

    async fn find(&self, at: &KeyRef) -> Result<Option<Found>, StoreError> {
        let connection = self.connection().await?;
        let mut script = self.scripts.find.key(self.paths.space(&at.space));
        script.arg(&at.key);
        let answer: Vec<String> = connection.run(&script).await?;
        match answer.as_slice() {
            [_, record] => Ok(Some(Found::Used(used_from(&at.key, record)?))),
            [_] => Ok(Some(Found::Available)),
            _ => Ok(None),
        }
    }

    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyRef>, StoreError> {
        let name = self.named(space, &NewName { key: key.to_owned(), ordinal: None }).await?;
        let name = name.filter(|name| name.purpose == NamePurpose::Pool);
        Ok(name.map(|name| KeyRef { space: name.space, id: 0, key: name.key }))
    }

    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError> {
        let after = page.after.as_ref().map(|after| format!("({}", after.id));
        let from = after.unwrap_or_else(|| "-inf".to_owned());
        let mut list = redis::cmd("ZRANGEBYSCORE");
        list.arg(self.paths.of_space(&page.space, "pool")).arg(from).arg("+inf");
        list.arg("WITHSCORES").arg("LIMIT").arg(0).arg(page.limit);
        let answer: Vec<String> = self.connection().await?.ask(&list).await?;
        answer.chunks_exact(2).map(|pair| claimed_from(&pair[1], &pair[0])).collect()
    }

    fn fill_max(&self) -> u64 {
        KEYS_MAX as u64
    }
}

impl RedisStore {
    async fn fill_over(
        &self,
        connection: &Object<Server>,
        fill: &Fill,
        floor: &Floor,
    ) -> Result<Filled, StoreError> {
        for _ in 0..FILL_TRIES {
            if let Some(filled) = self.try_fill(connection, fill, floor).await? {
                return Ok(filled);
            }
        }
        let space = &fill.space;
        Err(StoreError::Unavailable(format!(
            "gave up filling `{space}` because of conflicting writes"
        )))
    }

    /// Fills the pool once; `None` where the space has changed meanwhile.
    async fn try_fill(
        &self,
        connection: &Object<Server>,
        fill: &Fill,
        floor: &Floor,
    ) -> Result<Option<Filled>, StoreError> {
        let name = &fill.space;
        let mut script = self.scripts.look.key(self.paths.space(name));
        guard(&mut script, floor, connection.history());
        let (_, answer) = self.change(connection, name, floor, &script).await?;
        let mut space = self.record_from(connection, name, &answer)?;
        let available = field(&fields(&answer), "available")?;
        let available: u64 = rows::number(Some(&available))?;
        if space.sealed {
            return Err(StoreError::Sealed(name.clone()));
        }
        if fill.enough.is_some_and(|enough| available >= enough) {
            return Ok(Some(Filled { mark: space.mark, added: 0, available }));
        }
        if space.returned.count() > 0 {
            return Err(StoreError::Broken(format!(
                "the record of `{name}` is inconsistent: it has ordinals returned from leases, but \
                 a pool has no leases"
            )));
        }
        let seen = space.mark.revision;
        let grant = fill.grant(&mut space)?;
        let skips = self.skips_on(connection, name, &grant.ordinals).await?;
        let keys = fill.keys(grant.ordinals.clone(), &skips);
        let mut script = self.scripts.fill.key(self.paths.space(name));
        guard(&mut script, floor, connection.history());
        script.arg(seen.to_string()).arg(grant.ordinals.end.to_string());
        script.arg(&fill.instance.id).arg(json(&fill.instance));
        for (_, key) in &keys {
            script.arg(key);
        }
        let (status, answer) = self.change(connection, name, floor, &script).await?;
        if status == "changed" {
            return Ok(None);
        }
        let (added, available) = (keys.len() as u64, rows::number(answer.first())?);
        Ok(Some(Filled { mark: grant.mark, added, available }))
    }

    async fn claim_over(
        &self,
        connection: &Object<Server>,
        ask: &ClaimAsk,
        floor: &Floor,
    ) -> Result<Claim, StoreError> {
        let history = connection.history();
        let mut script = self.scripts.claim.key(self.paths.space(&ask.space));
        guard(&mut script, floor, history);
        let size = ask.size.min(2 * KEYS_MAX as u64);
        // So far ahead that no clock gets there, and still a time that can be added to.
        let ttl = ask.ttl.map(|ttl| millis(ttl).min(i64::MAX / 2).to_string());
        script.arg(&ask.instance.id).arg(size).arg(ask.share.max(1)).arg(ttl.unwrap_or_default());
        if let Some(last) = &ask.last {
            script.arg(&last.key.key).arg((last.revision / ERA * ERA).to_string());
            script.arg(next_era(last.revision).to_string());
        }
        let (status, answer) = self.change(connection, &ask.space, floor, &script).await?;
        check_status(&status, &ask.space)?;
        if let Some(last) = ask.last.as_ref().filter(|_| status == "lost") {
            return Err(last.lost(&ask.space, floor));
        }
        let mut keys = Vec::new();
        for pair in answer.get(3..).unwrap_or_default().chunks_exact(2) {
            keys.push(claimed_from(&pair[0], &pair[1])?);
        }
        let available = rows::number(answer.get(2))?;
        Ok(Claim { mark: mark_from(&answer, history)?, keys, available })
    }

    async fn release_over(
        &self,
        connection: &Object<Server>,
        back: &Release,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let history = connection.history();
        let mut rest = back.keys.as_slice();
        loop {
            let (keys, later) = rest.split_at(rest.len().min(KEYS_MAX));
            let mut script = self.scripts.release.key(self.paths.space(&back.space));
            guard(&mut script, floor, history);
            script.arg(&back.instance).arg(ERA.to_string());
            for claimed in keys {
                script.arg(&claimed.key);
            }
            let (_, answer) = self.change(connection, &back.space, floor, &script).await?;
            if later.is_empty() {
                return mark_from(&answer, history);
            }
            rest = later;
        }
    }
}
