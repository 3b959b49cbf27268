//! The token list through the fence, and the record of acts.
//!
//! The floor of the list is kept among those of keyspaces, under a name that no keyspace can have. A list that
//! was rolled back can still be read: without it nobody could be let in to repair it. But it is reported as such.

use super::{Fence, FenceError, burned};
use crate::store::{
    Act, Floor, Mark, StoreError, TOKENS, TokenChange, TokenList, next_era, tokens_rolled_back,
};

/// The token list, compared with what was seen of it.
#[derive(Debug, Clone)]
pub(crate) struct SeenTokens {
    /// The list as the store has it.
    pub(crate) list: TokenList,
    /// Whether it lies below what was seen: tokens that were revoked since may be in it again.
    pub(crate) rolled_back: bool,
    /// Whether there ever was a list, here or in a store that this data directory knew before.
    pub(crate) ever: bool,
}

impl Fence {
    /// The token list. Where it has come further than was seen, that is remembered.
    pub(crate) async fn tokens(&self) -> Result<SeenTokens, StoreError> {
        let floor = self.floor(TOKENS).await?;
        let list = match self.store.tokens.tokens(&floor).await {
            Err(StoreError::RolledBack(_)) => {
                // As it is; but not that of another store.
                let unseen = Floor { mark: Mark::default(), ..floor.clone() };
                self.store.tokens.tokens(&unseen).await?
            }
            answer => answer?,
        };
        let mark = list.mark();
        let ever = list.revision > 0 || floor.mark.is_seen() || self.floors.had_other_tokens();
        // Another may have gone on beyond everything between both looks.
        let rolled_back = ever && !mark.has_reached(floor.mark);
        if list.revision > 0 && !rolled_back && !floor.mark.has_reached(mark) {
            self.raise(TOKENS, mark).await?;
        }
        Ok(SeenTokens { list, rolled_back, ever })
    }

    /// Replaces the list that was seen, and makes sure of it; whether it was still the same. One that was
    /// rolled back goes on in the next era, which is beyond what any instance has seen.
    pub(crate) async fn replace_tokens(
        &self,
        seen: &SeenTokens,
        text: String,
    ) -> Result<bool, FenceError> {
        let expected = seen.list.revision;
        if expected == 0 {
            self.check_store()?;
        }
        let floor = self.floor(TOKENS).await?;
        let revision = if seen.rolled_back {
            next_era(expected.max(floor.mark.revision))
        } else {
            expected + 1
        };
        let change = TokenChange { expected, revision, text };
        let Some(mark) = self.store.tokens.replace_tokens(&change, &floor).await? else {
            return Ok(false);
        };
        assert_eq!((mark.revision, mark.next), (revision, 0), "not what was asked for: {mark:?}");
        self.make_sure_of_tokens(change, mark).await?;
        Ok(true)
    }

    /// Puts an act on record.
    pub(crate) async fn record_act(&self, act: &Act) -> Result<(), StoreError> {
        self.store.tokens.record_act(act).await
    }

    /// Raises the floor to where a change has led, and reads the list once more. Others may have gone on.
    async fn make_sure_of_tokens(&self, change: TokenChange, mark: Mark) -> Result<(), StoreError> {
        self.raise(TOKENS, mark).await.map_err(burned)?;
        let reached = Floor { store: self.floors.store().to_owned(), mark };
        let list = self.store.tokens.tokens(&reached).await.map_err(burned)?;
        if list.revision == mark.revision && list.text != change.text {
            let lost = "the change of the token list is no longer on record".to_owned();
            return Err(tokens_rolled_back(lost));
        }
        Ok(())
    }
}
