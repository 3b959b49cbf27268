//! Keys of inputs in Redis.

use async_trait::async_trait;
use deadpool::managed::Object;

use super::key_paths::digest_field;
use super::rows::{self, mark_from};
use super::server::Server;
use super::{RedisStore, check_status, guard, over};
use crate::store::{DigestBatch, DigestKey, Digested, Digests, Floor, StoreError};

#[async_trait]
impl Digests for RedisStore {
    async fn digest(&self, batch: &DigestBatch, floor: &Floor) -> Result<Digested, StoreError> {
        over!(self, |connection| self.digest_over(&connection, batch, floor))
    }
}

impl RedisStore {
    async fn digest_over(
        &self,
        connection: &Object<Server>,
        batch: &DigestBatch,
        floor: &Floor,
    ) -> Result<Digested, StoreError> {
        let history = connection.history();
        let mut script = self.scripts.digest.key(self.paths.space(&batch.space));
        guard(&mut script, floor, history);
        script.arg(batch.generations);
        for input in &batch.inputs {
            script.arg(digest_field(&input.hash)).arg(input.candidates.len());
            for key in &input.candidates {
                script.arg(key);
            }
        }
        let (status, answer) = self.change(connection, &batch.space, floor, &script).await?;
        check_status(&status, &batch.space)?;
        let mut keys = Vec::with_capacity(batch.inputs.len());
        for pair in answer.get(2..).unwrap_or_default().chunks_exact(2) {
            let made = pair.get(1).filter(|made| !made.is_empty());
            let made = made.map(|made| rows::number(Some(made))).transpose()?;
            let key = pair[0].clone();
            keys.push((!key.is_empty()).then_some(DigestKey { key, made }));
        }
        Ok(Digested { mark: mark_from(&answer, history)?, keys })
    }
}
