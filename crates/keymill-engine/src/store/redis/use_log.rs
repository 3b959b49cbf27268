//! Used keys in Redis: how they are retired, and listed. They are used when they are claimed (`pools`): no single
//! key is put on record before it is handed out.

use async_trait::async_trait;
use deadpool::managed::Object;
use jiff::Timestamp;

use super::rows::{mark_from, used_from, whole_from};
use super::server::Server;
use super::{RedisStore, guard, over};
use crate::store::{
    Floor, KeyId, KeyRef, Mark, Noted, Retire, StoreError, UseLog, UsedKey, UsedPage, Uses,
};

/// How many used keys are read at once.
const CHUNK: usize = 1_000;

/// A used key among the times of its space.
#[derive(Debug)]
struct Use {
    at: i64,
    place: KeyId,
    key: String,
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
        over!(self, |connection| self.retire_over(&connection, retire, floor))
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

impl RedisStore {
    async fn retire_over(
        &self,
        connection: &Object<Server>,
        retire: &Retire,
        floor: &Floor,
    ) -> Result<(Mark, UsedKey), StoreError> {
        let history = connection.history();
        let KeyRef { space, id, key } = &retire.at;
        let mut script = self.scripts.retire.key(self.paths.space(space));
        guard(&mut script, floor, history);
        script.arg(key).arg(retire.used_at.as_millisecond()).arg(&retire.instance);
        script.arg(id.to_string());
        let (_, answer) = self.change(connection, space, floor, &script).await?;
        let record = answer.get(2).map(String::as_str).unwrap_or_default();
        Ok((mark_from(&answer, history)?, used_from(key, record)?))
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
        list.arg(self.paths.of_space(&page.space, "used_times"));
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
        get.arg(self.paths.of_space(space, "used"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_key_may_have_a_colon() {
        let it = Use::from("00000000000000000042:a:b", "7").unwrap();
        assert_eq!((it.at, it.place, it.key.as_str()), (7, 42, "a:b"));
    }
}
