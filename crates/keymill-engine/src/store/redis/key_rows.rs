//! Keys in Redis: pools, used keys, digests.
//!
//! Each change is one script, as on the rest of a space. A key is found by itself rather than by an
//! id; what is called its id here is its place: a number that it gets when it comes into the pool,
//! and keeps for as long as it is known. Keys are claimed by their places.
//!
//! A script cannot make keys. A fill therefore looks at the space, makes the keys of what it would
//! be granted, and is granted that if nothing has changed meanwhile.

use async_trait::async_trait;
use deadpool::managed::Object;
use jiff::Timestamp;

use super::connection::Server;
use super::rows::{self, field, fields, used_from};
use super::{RedisStore, guard};
use crate::store::values::json;
use crate::store::{
    AvailablePage, Claim, ClaimAsk, Claimed, DigestBatch, Digested, Digests, Fill, Filled, Floor,
    Found, KeyId, KeyPlace, Mark, NamePurpose, Names, NewName, Noted, Pools, Release, Retire,
    StoreError, UseLog, UsedKey, UsedPage, Uses,
};

/// The most keys of one script: others wait for as long as it runs.
pub(super) const KEYS_MAX: usize = 5_000;
/// How often a fill is tried while others change the space.
const FILL_TRIES: u32 = 20;
/// How many used keys are read at once.
const CHUNK: usize = 1_000;

#[async_trait]
impl Pools for RedisStore {
    async fn fill(&self, fill: &Fill, floor: &Floor) -> Result<Filled, StoreError> {
        self.with_connection(
            |connection| async move { self.fill_over(&connection, fill, floor).await },
        )
        .await
    }

    /// Keys are always used at once: none is ever reserved.
    async fn claim(&self, ask: &ClaimAsk, floor: &Floor) -> Result<Claim, StoreError> {
        self.with_connection(
            |connection| async move { self.claim_over(&connection, ask, floor).await },
        )
        .await
    }

    async fn release(&self, back: &Release, floor: &Floor) -> Result<Mark, StoreError> {
        self.with_connection(|connection| async move {
            self.release_over(&connection, back, floor).await
        })
        .await
    }

    async fn available(&self, space: &str) -> Result<u64, StoreError> {
        let connection = self.connection().await?;
        connection.ask(redis::cmd("ZCARD").arg(self.keys.of_space(space, "pool"))).await
    }

    async fn find(&self, at: &KeyPlace) -> Result<Option<Found>, StoreError> {
        let connection = self.connection().await?;
        let mut script = self.scripts.find.key(self.keys.space(&at.space));
        script.arg(&at.key);
        let answer: Vec<String> = connection.run(&script).await?;
        match answer.as_slice() {
            [_, record] => Ok(Some(Found::Used(used_from(&at.key, record)?))),
            [_] => Ok(Some(Found::Available)),
            _ => Ok(None),
        }
    }

    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyPlace>, StoreError> {
        let name = self.named(space, &NewName { key: key.to_owned(), ordinal: None }).await?;
        let name = name.filter(|name| name.purpose == NamePurpose::Pool);
        Ok(name.map(|name| KeyPlace { space: name.space, id: 0, key: name.key }))
    }

    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError> {
        let after = page.after.as_ref().map(|after| format!("({}", after.id));
        let from = after.unwrap_or_else(|| "-inf".to_owned());
        let mut list = redis::cmd("ZRANGEBYSCORE");
        list.arg(self.keys.of_space(&page.space, "pool")).arg(from).arg("+inf");
        list.arg("WITHSCORES").arg("LIMIT").arg(0).arg(page.limit);
        let answer: Vec<String> = self.connection().await?.ask(&list).await?;
        answer.chunks_exact(2).map(|pair| claimed_from(&pair[1], &pair[0])).collect()
    }

    fn fill_max(&self) -> u64 {
        KEYS_MAX as u64
    }
}

#[async_trait]
impl UseLog for RedisStore {
    async fn note(&self, uses: &Uses, _floor: &Floor) -> Result<Noted, StoreError> {
        Err(StoreError::Broken(format!(
            "Redis does not record single keys before they are handed out, which `{}` needs; use \
             SQLite, PostgreSQL or MySQL",
            uses.space
        )))
    }

    async fn retire(&self, retire: &Retire, floor: &Floor) -> Result<(Mark, UsedKey), StoreError> {
        self.with_connection(|connection| async move {
            self.retire_over(&connection, retire, floor).await
        })
        .await
    }

    async fn used_page(&self, page: &UsedPage) -> Result<Vec<UsedKey>, StoreError> {
        let connection = self.connection().await?;
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut after = page.after.map(|(at, id)| (at.as_millisecond(), id));
        let from = page.from.map(Timestamp::as_millisecond);
        let mut from = from.max(after.map(|(at, _)| at));
        // Among those of one time, how many were passed over.
        let mut offset = 0;
        let mut found = Vec::new();
        loop {
            let uses = self.uses(&connection, page, from, offset).await?;
            let next = uses.iter().filter(|it| Some((it.at, it.place)) > after);
            let next: Vec<&Use> = next.collect();
            for used in self.records(&connection, &page.space, &next).await? {
                if page.caller.as_ref().is_none_or(|caller| *caller == used.caller) {
                    found.push(used);
                }
            }
            let Some(last) = uses.last().filter(|_| uses.len() == CHUNK && found.len() < limit)
            else {
                found.truncate(limit);
                return Ok(found);
            };
            offset = if from == Some(last.at) { offset + CHUNK } else { 0 };
            from = Some(last.at);
            after = Some((last.at, last.place));
        }
    }

    fn notes_keys(&self) -> bool {
        false
    }
}

#[async_trait]
impl Digests for RedisStore {
    async fn digest(&self, batch: &DigestBatch, floor: &Floor) -> Result<Digested, StoreError> {
        self.with_connection(|connection| async move {
            self.digest_over(&connection, batch, floor).await
        })
        .await
    }
}

/// A used key among the times of its space.
#[derive(Debug)]
struct Use {
    at: i64,
    place: KeyId,
    key: String,
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
        let mut script = self.scripts.look.key(self.keys.space(name));
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
        let mut script = self.scripts.fill.key(self.keys.space(name));
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

    /// Used keys of a page from a time on, by time and by place.
    async fn uses(
        &self,
        connection: &Object<Server>,
        page: &UsedPage,
        from: Option<i64>,
        offset: usize,
    ) -> Result<Vec<Use>, StoreError> {
        let to = page.to.map(|to| format!("({}", to.as_millisecond()));
        let mut list = redis::cmd("ZRANGEBYSCORE");
        list.arg(self.keys.of_space(&page.space, "used_times"));
        list.arg(from.map_or_else(|| "-inf".to_owned(), |from| from.to_string()));
        list.arg(to.unwrap_or_else(|| "+inf".to_owned()));
        list.arg("WITHSCORES").arg("LIMIT").arg(offset).arg(CHUNK);
        let answer: Vec<String> = connection.ask(&list).await?;
        answer.chunks_exact(2).map(|pair| Use::from(&pair[0], &pair[1])).collect()
    }

    /// The records of used keys; without those that were given back, or used anew, since.
    async fn records(
        &self,
        connection: &Object<Server>,
        space: &str,
        uses: &[&Use],
    ) -> Result<Vec<UsedKey>, StoreError> {
        if uses.is_empty() {
            return Ok(Vec::new());
        }
        let mut get = redis::cmd("HMGET");
        get.arg(self.keys.of_space(space, "used"));
        for it in uses {
            get.arg(&it.key);
        }
        let records: Vec<Option<String>> = connection.ask(&get).await?;
        let mut found = Vec::with_capacity(records.len());
        for (it, record) in uses.iter().zip(records) {
            let Some(record) = record else { continue };
            let used = used_from(&it.key, &record)?;
            if used.used_at.as_millisecond() == it.at {
                found.push(used);
            }
        }
        Ok(found)
    }
}

impl Use {
    fn from(member: &str, score: &str) -> Result<Use, StoreError> {
        let broken = || StoreError::Broken(format!("redis holds {member:?}, not a used key"));
        let (place, key) = member.split_once(':').ok_or_else(broken)?;
        let place = place.parse().map_err(|_| broken())?;
        Ok(Use { at: whole_from(score)?, place, key: key.to_owned() })
    }
}

pub(super) fn claimed_from(place: &str, key: &str) -> Result<Claimed, StoreError> {
    Ok(Claimed { id: whole_from(place)?, key: key.to_owned() })
}

/// A score, which the server may write as `1e+12`.
fn whole_from(score: &str) -> Result<i64, StoreError> {
    let whole = score.parse::<f64>().ok().and_then(|score| format!("{score:.0}").parse().ok());
    whole.ok_or_else(|| StoreError::Broken(format!("redis holds {score:?}, not a whole number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_however_they_are_written() {
        for (score, expected) in [
            ("0", 0),
            ("1e+12", 1_000_000_000_000),
            ("1763251200123", 1_763_251_200_123),
            ("9007199254740991", 9_007_199_254_740_991),
        ] {
            assert_eq!(whole_from(score).unwrap(), expected, "{score}");
        }
        assert!(whole_from("soon").is_err());
    }

    #[test]
    fn a_used_key_may_have_a_colon() {
        let it = Use::from("00000000000000000042:a:b", "7").unwrap();
        assert_eq!((it.at, it.place, it.key.as_str()), (7, 42, "a:b"));
    }
}
