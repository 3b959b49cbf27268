//! Keys of inputs through the fence.

use super::Fence;
use crate::store::{DigestBatch, Digested, Evidence, StoreError};

impl Fence {
    /// Finds or makes the keys of inputs, and makes sure of those that were made. An input that has its key
    /// already was found in a store that is not below what was seen of it.
    pub(crate) async fn digest(&self, batch: &DigestBatch) -> Result<Digested, StoreError> {
        let digests = &self.store.rows_of(&batch.space)?.digests;
        let floor = self.floor(&batch.space).await?;
        let digested = digests.digest(batch, &floor).await?;
        let made = batch.inputs.iter().zip(&digested.keys).find_map(|(input, key)| {
            let key = key.as_ref().filter(|key| key.made.is_some())?;
            Some(Evidence::Digest { hash: input.hash, key: key.key.clone() })
        });
        let evidence = made.unwrap_or(Evidence::Mark);
        self.make_sure_or_burn(&batch.space, digested.mark, evidence).await?;
        Ok(digested)
    }
}
