//! The token list and the record of acts in etcd: a key for the list, one for each act, and one that counts
//! them.

use async_trait::async_trait;
use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, SortOrder, SortTarget, TxnOp};
use serde::{Deserialize, Serialize};

use super::EtcdStore;
use super::connection::Answers;
use super::docs::StoreDoc;
use super::key_paths::end_of;
use super::retry::Retries;
use crate::store::tokens::{ActDoc, check_tokens};
use crate::store::values::{from_json, json};
use crate::store::{
    ACTS_KEPT, Act, ActPage, Floor, Mark, StoreError, TokenChange, TokenList, Tokens,
};

/// The token list, as it is written.
#[derive(Serialize, Deserialize)]
struct TokensDoc {
    revision: u64,
    text: String,
}

#[async_trait]
impl Tokens for EtcdStore {
    async fn tokens(&self, floor: &Floor) -> Result<TokenList, StoreError> {
        let answer = self.look_at_tokens(floor).await;
        if self.asks_again(&answer) {
            return self.look_at_tokens(floor).await;
        }
        answer
    }

    async fn replace_tokens(
        &self,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        let mut retries = Retries::new();
        loop {
            let (found, store, list) = self.read_tokens().await?;
            let Some(mark) = change.judge(&store, list.mark(), floor)? else { return Ok(None) };
            let keys = [self.paths.store(), self.paths.tokens()];
            let unchanged = |(number, key): (usize, String)| {
                Compare::mod_revision(key, CompareOp::Equal, found.revision(number))
            };
            let conditions = keys.into_iter().enumerate().map(unchanged).collect();
            let doc = TokensDoc { revision: mark.revision, text: change.text.clone() };
            let put = TxnOp::put(self.paths.tokens(), json(&doc), None);
            if self.members.commit(conditions, vec![put], found.at.history).await? {
                return Ok(Some(mark));
            }
            retries.another().await?;
        }
    }

    async fn record_act(&self, act: &Act) -> Result<(), StoreError> {
        let doc = json(&ActDoc::of(act));
        let count = self.paths.acts_made();
        let mut retries = Retries::new();
        loop {
            let found = self.members.read(vec![TxnOp::get(count.as_str(), None)]).await?;
            let made: u64 = found.value(0).map(from_json).transpose()?.unwrap_or(0);
            let id = made + 1;
            let unchanged =
                Compare::mod_revision(count.as_str(), CompareOp::Equal, found.revision(0));
            let mut writes = vec![
                TxnOp::put(count.as_str(), id.to_string(), None),
                TxnOp::put(self.paths.act(id), doc.as_str(), None),
            ];
            if let Some(oldest) = id.checked_sub(ACTS_KEPT) {
                let older = DeleteOptions::new().with_range(self.paths.act(oldest + 1));
                writes.push(TxnOp::delete(self.paths.act(0), Some(older)));
            }
            if self.members.commit(vec![unchanged], writes, found.at.history).await? {
                return Ok(());
            }
            retries.another().await?;
        }
    }

    async fn acts(&self, page: &ActPage) -> Result<Vec<Act>, StoreError> {
        let all = self.paths.acts();
        let options = GetOptions::new()
            .with_range(end_of(&all))
            .with_sort(SortTarget::Key, SortOrder::Ascend)
            .with_limit(i64::from(page.limit));
        let first = page.after.map_or(0, |after| after.saturating_add(1));
        let get = TxnOp::get(self.paths.act(first), Some(options));
        let found = self.members.read(vec![get]).await?;
        let mut acts = Vec::with_capacity(found.count(0));
        for (key, value) in found.pairs(0) {
            let id = key.strip_prefix(all.as_str()).and_then(|id| id.parse().ok()).unwrap_or(0);
            acts.push(from_json::<ActDoc>(value)?.act(id));
        }
        Ok(acts)
    }
}

impl EtcdStore {
    async fn look_at_tokens(&self, floor: &Floor) -> Result<TokenList, StoreError> {
        let (_, store, list) = self.read_tokens().await?;
        check_tokens(floor, &store, list.mark())?;
        Ok(list)
    }

    /// The store's stamp and the token list, as of one moment.
    async fn read_tokens(&self) -> Result<(Answers, String, TokenList), StoreError> {
        let keys = [self.paths.store(), self.paths.tokens()];
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
