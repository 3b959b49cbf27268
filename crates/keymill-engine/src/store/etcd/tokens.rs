//! The token list and the record of acts in etcd: a key for the list, one for each act, and one that counts
//! them.

use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, SortOrder, SortTarget, TxnOp};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::EtcdStore;
use super::connection::Found;
use super::docs::StoreDoc;
use super::key_paths::end_of;
use super::retry::Turns;
use crate::store::tokens::check_tokens;
use crate::store::values::{from_json, json};
use crate::store::{ACTS_KEPT, Act, ActPage, Floor, Mark, StoreError, TokenChange, TokenList};

/// The token list, as it is written.
#[derive(Serialize, Deserialize)]
struct TokensDoc {
    revision: u64,
    text: String,
}

/// An act, as it is written under its id.
#[derive(Serialize, Deserialize)]
struct ActDoc {
    at: Timestamp,
    by: String,
    from: String,
    what: String,
}

impl EtcdStore {
    pub(super) async fn token_list(&self, floor: &Floor) -> Result<TokenList, StoreError> {
        let answer = self.look_at_tokens(floor).await;
        if self.asks_again(&answer) {
            return self.look_at_tokens(floor).await;
        }
        answer
    }

    pub(super) async fn put_tokens(
        &self,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        let mut turns = Turns::new();
        loop {
            let (found, store, list) = self.read_tokens().await?;
            let Some(mark) = change.judge(&store, list.mark(), floor)? else { return Ok(None) };
            let keys = [self.keys.store(), self.keys.tokens()];
            let unchanged = |(number, key): (usize, String)| {
                Compare::mod_revision(key, CompareOp::Equal, found.revision(number))
            };
            let conditions = keys.into_iter().enumerate().map(unchanged).collect();
            let doc = TokensDoc { revision: mark.revision, text: change.text.clone() };
            let put = TxnOp::put(self.keys.tokens(), json(&doc), None);
            if self.members.commit(conditions, vec![put], found.at.history).await? {
                return Ok(Some(mark));
            }
            turns.another().await?;
        }
    }

    pub(super) async fn add_act(&self, act: &Act) -> Result<(), StoreError> {
        let Act { at, by, from, what, .. } = act.clone();
        let doc = json(&ActDoc { at, by, from, what });
        let count = self.keys.acts_made();
        let mut turns = Turns::new();
        loop {
            let found = self.members.read(vec![TxnOp::get(count.as_str(), None)]).await?;
            let made: u64 = found.value(0).map(from_json).transpose()?.unwrap_or(0);
            let id = made + 1;
            let unchanged =
                Compare::mod_revision(count.as_str(), CompareOp::Equal, found.revision(0));
            let mut writes = vec![
                TxnOp::put(count.as_str(), id.to_string(), None),
                TxnOp::put(self.keys.act(id), doc.as_str(), None),
            ];
            if let Some(oldest) = id.checked_sub(ACTS_KEPT) {
                let older = DeleteOptions::new().with_range(self.keys.act(oldest + 1));
                writes.push(TxnOp::delete(self.keys.act(0), Some(older)));
            }
            if self.members.commit(vec![unchanged], writes, found.at.history).await? {
                return Ok(());
            }
            turns.another().await?;
        }
    }

    pub(super) async fn act_page(&self, page: &ActPage) -> Result<Vec<Act>, StoreError> {
        let all = self.keys.acts();
        let options = GetOptions::new()
            .with_range(end_of(&all))
            .with_sort(SortTarget::Key, SortOrder::Ascend)
            .with_limit(i64::from(page.limit));
        let first = page.after.map_or(0, |after| after.saturating_add(1));
        let get = TxnOp::get(self.keys.act(first), Some(options));
        let found = self.members.read(vec![get]).await?;
        let mut acts = Vec::with_capacity(found.count(0));
        for (key, value) in found.pairs(0) {
            let id = key.strip_prefix(all.as_str()).and_then(|id| id.parse().ok()).unwrap_or(0);
            let ActDoc { at, by, from, what } = from_json(value)?;
            acts.push(Act { id, at, by, from, what });
        }
        Ok(acts)
    }

    async fn look_at_tokens(&self, floor: &Floor) -> Result<TokenList, StoreError> {
        let (_, store, list) = self.read_tokens().await?;
        check_tokens(floor, &store, list.mark())?;
        Ok(list)
    }

    /// The store's stamp and the token list, as of one moment.
    async fn read_tokens(&self) -> Result<(Found, String, TokenList), StoreError> {
        let keys = [self.keys.store(), self.keys.tokens()];
        let gets = keys.into_iter().map(|key| TxnOp::get(key, None)).collect();
        let found = self.members.read(gets).await?;
        let stamp: Option<StoreDoc> = found.value(0).map(from_json).transpose()?;
        let store = stamp.map(|stamp| stamp.identity).unwrap_or_default();
        let doc: Option<TokensDoc> = found.value(1).map(from_json).transpose()?;
        let (revision, text) = doc.map(|doc| (doc.revision, doc.text)).unwrap_or_default();
        let list = TokenList { revision, text, history: found.at.history };
        Ok((found, store, list))
    }
}
