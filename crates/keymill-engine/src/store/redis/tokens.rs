//! The token list and the record of acts in Redis. Their keys share a hash tag, like those of a keyspace.
//!
//! That a server is the master for everybody else it cannot know: see `confirm`.

use deadpool::managed::Object;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::connection::{Server, Witness};
use super::rows::{self, reply};
use super::{RedisStore, guard};
use crate::store::tokens::check_tokens;
use crate::store::values::{from_json, json};
use crate::store::{
    ACTS_KEPT, Act, ActPage, Floor, Mark, StoreError, TOKENS, TokenChange, TokenList,
};

/// How often to look while the server moves from one history to the next.
const TRIES: u32 = 5;

/// An act, as it is written behind its id.
#[derive(Serialize, Deserialize)]
struct ActDoc {
    at: Timestamp,
    by: String,
    from: String,
    what: String,
}

impl RedisStore {
    pub(super) async fn tokens_over(
        &self,
        connection: &Object<Server>,
        floor: &Floor,
    ) -> Result<TokenList, StoreError> {
        for _ in 0..TRIES {
            let here = connection.witness().await?;
            let mut script = self.scripts.tokens.key(self.keys.space(TOKENS));
            script.arg(connection.replication_id());
            let (status, answer) = reply(connection.run(&script).await?)?;
            if status == "moved" {
                continue;
            }
            let [store, revision, text] = answer.as_slice() else { return Err(cut_short()) };
            let (revision, text) = (rows::number(Some(revision))?, text.clone());
            let list = TokenList { revision, text, history: here.history() };
            let store = if store.is_empty() { &here.identity } else { store };
            check_tokens(floor, store, list.mark())?;
            return Ok(list);
        }
        let place = connection.place();
        Err(StoreError::Unavailable(format!("{place} kept changing its replication ID")))
    }

    pub(super) async fn replace_tokens_over(
        &self,
        connection: &Object<Server>,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        let here = connection.witness().await?;
        if floor.store != here.identity {
            return Err(StoreError::other_store(TOKENS, floor, &here.identity));
        }
        let mut script = self.scripts.replace_tokens.key(self.keys.space(TOKENS));
        guard(&mut script, floor, here.history());
        script.arg(change.expected.to_string()).arg(change.revision.to_string()).arg(&change.text);
        let (status, answer) = reply(connection.change(&script).await?)?;
        match status.as_str() {
            "ok" => Ok(Some(change.mark(here.history()))),
            "changed" => Ok(None),
            _ => Err(refusal(connection, &here, floor, &answer).await?),
        }
    }

    pub(super) async fn record_act_over(
        &self,
        connection: &Object<Server>,
        act: &Act,
    ) -> Result<(), StoreError> {
        let Act { at, by, from, what, .. } = act.clone();
        let mut script = self.scripts.record_act.key(self.keys.space(TOKENS));
        script.arg(json(&ActDoc { at, by, from, what })).arg(ACTS_KEPT);
        connection.change(&script).await.map(drop)
    }

    pub(super) async fn act_page(&self, page: &ActPage) -> Result<Vec<Act>, StoreError> {
        let from = format!("({}", page.after.unwrap_or(0));
        let mut list = redis::cmd("ZRANGEBYSCORE");
        list.arg(self.keys.of_space(TOKENS, "acts")).arg(from).arg("+inf");
        list.arg("LIMIT").arg(0).arg(page.limit);
        let found: Vec<String> = self.connection().await?.ask(&list).await?;
        found.iter().map(|member| act_from(member)).collect()
    }
}

/// Why a script has refused to replace the list.
async fn refusal(
    connection: &Object<Server>,
    before: &Witness,
    floor: &Floor,
    answer: &[String],
) -> Result<StoreError, StoreError> {
    // The server may have begun a new history on this connection.
    if connection.witness().await?.history() != before.history() {
        connection.give_up();
        return Err(StoreError::Unavailable("the server's replication ID has changed".to_owned()));
    }
    let [store, revision] = answer else { return Err(cut_short()) };
    let revision = rows::number(Some(revision))?;
    let found = Mark { revision, history: before.history(), ..Mark::default() };
    check_tokens(floor, store, found)?;
    Ok(StoreError::Broken("redis refused the token list without a reason".to_owned()))
}

/// From its id, a space, and the rest in JSON.
fn act_from(member: &str) -> Result<Act, StoreError> {
    let (id, doc) = member.split_once(' ').unwrap_or_default();
    let ActDoc { at, by, from, what } = from_json(doc)?;
    Ok(Act { id: rows::number(Some(&id.to_owned()))?, at, by, from, what })
}

fn cut_short() -> StoreError {
    StoreError::Broken("a script's answer is cut short".to_owned())
}
