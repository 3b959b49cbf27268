//! Keys of inputs in Redis.

use deadpool::managed::Object;

use super::connection::Server;
use super::key_paths::digest_field;
use super::rows::{self, mark_from};
use super::{RedisStore, guard};
use crate::store::{DigestBatch, DigestKey, Digested, StoreError};

impl RedisStore {
    pub(super) async fn digest_over(
        &self,
        connection: &Object<Server>,
        batch: &DigestBatch,
    ) -> Result<Digested, StoreError> {
        let history = connection.history();
        let mut script = self.scripts.digest.key(self.keys.space(&batch.space));
        guard(&mut script, &batch.floor, history);
        script.arg(batch.generations);
        for input in &batch.inputs {
            script.arg(digest_field(&input.hash)).arg(input.candidates.len());
            for key in &input.candidates {
                script.arg(key);
            }
        }
        let answer = self.change(connection, &batch.space, &batch.floor, &script).await?;
        let (status, answer) = answer;
        match status.as_str() {
            "sealed" => return Err(StoreError::Sealed(batch.space.clone())),
            "outdated" => return Err(StoreError::Outdated(batch.space.clone())),
            _ => {}
        }
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
