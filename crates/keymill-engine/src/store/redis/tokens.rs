//! The token list and the record of acts in Redis. Their keys share a hash tag, like those of a keyspace.
//!
//! A script cannot know whether its server is still the master for everybody else: see `confirm`.

use async_trait::async_trait;
use deadpool::managed::Object;

use super::connection::Witness;
use super::rows::{self, reply};
use super::server::Server;
use super::{RedisStore, guard, over};
use crate::store::tokens::{ActDoc, check_tokens};
use crate::store::values::{from_json, json};
use crate::store::{
    ACTS_KEPT, Act, ActPage, Floor, Mark, StoreError, TOKENS, TokenChange, TokenList, Tokens,
};

/// How often to look while the server moves from one history to the next.
const TRIES: u32 = 5;

#[async_trait]
impl Tokens for RedisStore {
    async fn tokens(&self, floor: &Floor) -> Result<TokenList, StoreError> {
        over!(self, |connection| self.tokens_over(&connection, floor))
    }

    async fn replace_tokens(
        &self,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        over!(self, |connection| self.replace_tokens_over(&connection, change, floor))
    }

    async fn record_act(&self, act: &Act) -> Result<(), StoreError> {
        over!(self, |connection| self.record_act_over(&connection, act))
    }

    async fn acts(&self, page: &ActPage) -> Result<Vec<Act>, StoreError> {
        let from = format!("({}", page.after.unwrap_or(0));
        let mut list = redis::cmd("ZRANGEBYSCORE");
        list.arg(self.paths.of_space(TOKENS, "acts")).arg(from).arg("+inf");
        list.arg("LIMIT").arg(0).arg(page.limit);
        let found: Vec<String> = self.connection().await?.ask(&list).await?;
        found.iter().map(|member| act_from(member)).collect()
    }
}

impl RedisStore {
    async fn tokens_over(
        &self,
        connection: &Object<Server>,
        floor: &Floor,
    ) -> Result<TokenList, StoreError> {
        for _ in 0..TRIES {
            let here = connection.witness().await?;
            let mut script = self.scripts.tokens.key(self.paths.space(TOKENS));
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
        let server_name = connection.server_name();
        Err(StoreError::Unavailable(format!("{server_name} kept changing its replication ID")))
    }

    async fn replace_tokens_over(
        &self,
        connection: &Object<Server>,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        let here = connection.witness().await?;
        if floor.store != here.identity {
            return Err(StoreError::other_store(TOKENS, floor, &here.identity));
        }
        let mut script = self.scripts.replace_tokens.key(self.paths.space(TOKENS));
        guard(&mut script, floor, here.history());
        script.arg(change.expected.to_string()).arg(change.revision.to_string()).arg(&change.text);
        let (status, answer) = reply(connection.change(&script).await?)?;
        match status.as_str() {
            "ok" => Ok(Some(change.mark(here.history()))),
            "changed" => Ok(None),
            _ => Err(refusal(connection, &here, floor, &answer).await?),
        }
    }

    async fn record_act_over(
        &self,
        connection: &Object<Server>,
        act: &Act,
    ) -> Result<(), StoreError> {
        let mut script = self.scripts.record_act.key(self.paths.space(TOKENS));
        script.arg(json(&ActDoc::of(act))).arg(ACTS_KEPT);
        connection.change(&script).await.map(drop)
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
    Ok(from_json::<ActDoc>(doc)?.act(rows::number(Some(&id.to_owned()))?))
}

fn cut_short() -> StoreError {
    StoreError::Broken("a script's answer is cut short".to_owned())
}
