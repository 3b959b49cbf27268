//! Names in Redis.

use std::ops::Range;

use deadpool::managed::Object;

use super::connection::Server;
use super::rows::{self, mark_from, name_from};
use super::{RedisStore, guard};
use crate::floor::Floor;
use crate::store::{NameBatch, NameRecord, Named, Naming, NewName, StoreError};

impl RedisStore {
    pub(super) async fn put_names(&self, batch: &NameBatch) -> Result<Named, StoreError> {
        let connection = self.connection().await?;
        let history = connection.history();
        let mut script = self.scripts.names.key(self.keys.space(&batch.space));
        guard(&mut script, &batch.floor, history);
        script.arg(batch.purpose.name()).arg(&batch.owner).arg(batch.generations);
        for new in &batch.names {
            script.arg(&new.key).arg(new.ordinal.map_or(String::new(), |it| it.to_string()));
        }
        let answer = self.change(&connection, &batch.space, &batch.floor, &script).await?;
        let (status, answer) = answer;
        match status.as_str() {
            "sealed" => return Err(StoreError::Sealed(batch.space.clone())),
            "outdated" => return Err(StoreError::Outdated(batch.space.clone())),
            _ => {}
        }
        let outcome = |word: &String| match word.as_str() {
            "made" => Naming::Made,
            "mine" => Naming::Mine,
            _ => Naming::Taken,
        };
        Ok(Named {
            mark: mark_from(&answer, history)?,
            outcomes: answer.iter().skip(2).map(outcome).collect(),
        })
    }

    pub(super) async fn mark_removed(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<Option<NameRecord>, StoreError> {
        let connection = self.connection().await?;
        let mut script = self.scripts.remove_name.key(self.keys.space(space));
        guard(&mut script, floor, connection.history());
        script.arg(key).arg(owner);
        let (_, answer) = self.change(&connection, space, floor, &script).await?;
        answer.first().map(|text| name_from(space, key, text)).transpose()
    }

    pub(super) async fn find_name(
        &self,
        space: &str,
        name: &NewName,
    ) -> Result<Option<NameRecord>, StoreError> {
        let connection = self.connection().await?;
        let mut get = redis::cmd("HGET");
        get.arg(self.keys.of_space(space, "names")).arg(&name.key);
        let text: Option<String> = connection.ask(&get).await?;
        text.map(|text| name_from(space, &name.key, &text)).transpose()
    }

    pub(super) async fn skips_on(
        &self,
        connection: &Object<Server>,
        space: &str,
        ordinals: &Range<u64>,
    ) -> Result<Vec<u64>, StoreError> {
        let mut list = redis::cmd("ZRANGEBYLEX");
        list.arg(self.keys.of_space(space, "skips"));
        list.arg(format!("[{:020}", ordinals.start)).arg(format!("({:020}", ordinals.end));
        let found: Vec<String> = connection.ask(&list).await?;
        found.iter().map(|ordinal| rows::number(Some(ordinal))).collect()
    }

    pub(super) async fn unplaced_page(
        &self,
        space: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let from = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
        let mut list = redis::cmd("ZRANGEBYLEX");
        list.arg(self.keys.of_space(space, "unplaced")).arg(from).arg("+");
        list.arg("LIMIT").arg(0).arg(limit);
        self.connection().await?.ask(&list).await
    }
}
