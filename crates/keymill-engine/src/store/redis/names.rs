//! Names in Redis: records by key in one hash, and a list of them by purpose and key beside it.

use std::collections::HashMap;
use std::ops::Range;

use async_trait::async_trait;
use deadpool::managed::Object;

use super::rows::{self, mark_from, name_from, reply};
use super::server::Server;
use super::{RedisStore, check_status, guard, over};
use crate::store::values::time;
use crate::store::{
    Floor, Mark, NameBatch, NamePage, NamePurpose, NameRecord, Named, Names, Naming, NewName,
    StoreError,
};

/// The most names that one script reads or lists: others wait for as long as it runs.
const CHUNK: usize = 1_000;

#[async_trait]
impl Names for RedisStore {
    async fn add_names(&self, batch: &NameBatch, floor: &Floor) -> Result<Named, StoreError> {
        over!(self, |connection| self.put_names(&connection, batch, floor))
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        over!(self, |connection| self.mark_removed(&connection, space, key, owner, floor))
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        let connection = self.connection().await?;
        let mut get = redis::cmd("HGET");
        get.arg(self.paths.of_space(space, "names")).arg(&name.key);
        let text: Option<String> = connection.ask(&get).await?;
        if let Some(text) = text {
            return name_from(space, &name.key, &text).map(Some);
        }
        let Some(ordinal) = name.ordinal else { return Ok(None) };
        // One that came from a store which keeps mere ordinals of keys in use.
        let mut get = redis::cmd("HGET");
        get.arg(self.paths.of_space(space, "in_use")).arg(ordinal.to_string());
        let imported_at: Option<i64> = connection.ask(&get).await?;
        Ok(imported_at.map(|at| name.imported(space, time(at))))
    }

    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        let connection = self.connection().await?;
        let mut names = self.listed(&connection, page, page.purpose.name()).await?;
        if page.removed {
            names.extend(self.listed(&connection, page, "removed").await?);
            names.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            names.truncate(usize::try_from(page.limit).unwrap_or(usize::MAX));
        }
        Ok(names)
    }

    // No script may keep the server for long.
    fn names_max(&self, _: NamePurpose) -> usize {
        1_000
    }

    /// Names that were removed by a version of keymill that knew no list are counted until they are listed.
    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        let connection = self.connection().await?;
        let names = match space {
            Some(space) => vec![space.to_owned()],
            None => self.space_names(&connection).await?,
        };
        let mut pipe = redis::pipe();
        for name in &names {
            pipe.cmd("HLEN").arg(self.paths.of_space(name, "names"));
            pipe.cmd("HLEN").arg(self.paths.of_space(name, "in_use"));
            // The character after the colon.
            pipe.cmd("ZLEXCOUNT").arg(self.paths.of_space(name, "listed"));
            pipe.arg("[removed:").arg("(removed;");
        }
        let found: Vec<u64> = connection.ask_all(&pipe).await?;
        let counts = found.chunks_exact(3).map(|it| (it[0] + it[1]).saturating_sub(it[2]));
        Ok(names.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect())
    }
}

impl RedisStore {
    async fn put_names(
        &self,
        connection: &Object<Server>,
        batch: &NameBatch,
        floor: &Floor,
    ) -> Result<Named, StoreError> {
        let history = connection.history();
        let mut script = self.scripts.names.key(self.paths.space(&batch.space));
        guard(&mut script, floor, history);
        script.arg(batch.purpose.name()).arg(&batch.owner).arg(batch.generations);
        for new in &batch.names {
            script.arg(&new.key).arg(new.ordinal.map_or(String::new(), |it| it.to_string()));
        }
        let (status, answer) = self.change(connection, &batch.space, floor, &script).await?;
        check_status(&status, &batch.space)?;
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

    async fn mark_removed(
        &self,
        connection: &Object<Server>,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        let history = connection.history();
        let mut script = self.scripts.remove_name.key(self.paths.space(space));
        guard(&mut script, floor, history);
        script.arg(key).arg(owner);
        let (_, answer) = self.change(connection, space, floor, &script).await?;
        let name = answer.get(2).map(|text| name_from(space, key, text)).transpose()?;
        Ok((mark_from(&answer, history)?, name))
    }

    /// The ordinals of a range that names occupy.
    pub(super) async fn skips_on(
        &self,
        connection: &Object<Server>,
        space: &str,
        ordinals: &Range<u64>,
    ) -> Result<Vec<u64>, StoreError> {
        let mut list = redis::cmd("ZRANGEBYLEX");
        list.arg(self.paths.of_space(space, "skips"));
        list.arg(format!("[{:020}", ordinals.start)).arg(format!("({:020}", ordinals.end));
        let found: Vec<String> = connection.ask(&list).await?;
        found.iter().map(|ordinal| rows::number(Some(ordinal))).collect()
    }

    /// What a page wants of one list: as many names as it may have.
    async fn listed(
        &self,
        connection: &Object<Server>,
        page: &NamePage,
        list: &str,
    ) -> Result<Vec<NameRecord>, StoreError> {
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let (mut names, mut after, mut was_completed) = (Vec::new(), page.after.clone(), false);
        while names.len() < limit {
            let count = CHUNK.min(limit - names.len());
            let from = match &after {
                Some(after) => format!("({list}:{after}"),
                None => format!("[{list}:"),
            };
            let mut script = self.scripts.names_page.key(self.paths.space(&page.space));
            // The character after the colon.
            script.arg(u8::from(was_completed)).arg(from).arg(format!("({list};")).arg(count);
            let (status, found) = reply(connection.run(&script).await?)?;
            if status == "incomplete" {
                self.complete_list(connection, &page.space).await?;
                was_completed = true;
                continue;
            }
            for pair in found.chunks_exact(2).filter(|pair| !pair[1].is_empty()) {
                let name = name_from(&page.space, &pair[0], &pair[1])?;
                if name.purpose == page.purpose && (page.removed || name.removed_at.is_none()) {
                    names.push(name);
                }
            }
            match found.chunks_exact(2).next_back() {
                Some(last) if found.len() == 2 * count => after = Some(last[0].clone()),
                _ => break,
            }
        }
        Ok(names)
    }

    /// Lists the names that a version of keymill has made which knew no list.
    async fn complete_list(
        &self,
        connection: &Object<Server>,
        space: &str,
    ) -> Result<(), StoreError> {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(self.paths.of_space(space, "names")).arg(&cursor).arg("COUNT").arg(CHUNK);
            let (next, found): (String, Vec<String>) = connection.ask(&scan).await?;
            for some in found.chunks(2 * CHUNK) {
                let mut script = self.scripts.list_names.key(self.paths.space(space));
                for pair in some.chunks_exact(2) {
                    script.arg(&pair[0]);
                }
                let _: String = connection.run(&script).await?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}
