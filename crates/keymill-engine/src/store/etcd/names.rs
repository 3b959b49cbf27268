//! Names in etcd. What a change of them writes is in `change`.

use std::collections::HashMap;
use std::ops::Range;

use async_trait::async_trait;
use etcd_client::{GetOptions, TxnOp};
use jiff::Timestamp;

use super::EtcdStore;
use super::connection::{Answers, Moment};
use super::docs::NameDoc;
use super::key_paths::{KeyPaths, beyond, end_of};
use crate::store::values::from_json;
use crate::store::{
    Floor, Mark, NameBatch, NamePage, NamePurpose, NameRecord, Named, Names, NewName, StoreError,
};

/// How many skips one request asks for.
const SKIPS_MAX: usize = 10_000;
/// How many names one request asks for.
const NAMES_MAX: usize = 5_000;

#[async_trait]
impl Names for EtcdStore {
    async fn add_names(&self, batch: &NameBatch, floor: &Floor) -> Result<Named, StoreError> {
        self.change(&batch.space, &[], &batch.names, |draft| draft.add_names(batch, floor)).await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        let name = [NewName { key: key.to_owned(), ordinal: None }];
        self.change(space, &[], &name, |draft| draft.remove_name(key, owner, floor)).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        let gets = keys_of(&self.paths, space, name).map(|key| TxnOp::get(key, None));
        let found = self.members.read(gets.collect()).await?;
        name_at(&found, 0, space, name)
    }

    /// Those of other purposes are read too and passed over, because etcd tells keys apart by their bytes alone: a
    /// page among many names of another purpose takes several requests, of growing size.
    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        let all = self.paths.name(&page.space, "");
        let wanted = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut count = wanted.clamp(1, NAMES_MAX);
        let after = page.after.as_deref().map(|key| beyond(&self.paths.name(&page.space, key)));
        let mut from = after.unwrap_or_else(|| all.clone());
        let mut names = Vec::new();
        loop {
            let options = GetOptions::new().with_range(end_of(&all)).with_limit(count as i64);
            let found = self.members.read(vec![TxnOp::get(from, Some(options))]).await?;
            for (key, value) in found.pairs(0) {
                let key = key.strip_prefix(all.as_str()).unwrap_or(key);
                let name = from_json::<NameDoc>(value)?.record(&page.space, key);
                if name.purpose == page.purpose && (page.removed || name.removed_at.is_none()) {
                    names.push(name);
                }
            }
            names.truncate(wanted);
            let there_may_be_more = names.len() < wanted && found.count(0) == count;
            match found.last_key(0) {
                Some(last) if there_may_be_more => from = beyond(last),
                _ => return Ok(names),
            }
            count = (count * 2).min(NAMES_MAX);
        }
    }

    // A transaction of etcd has at most 128 operations, and a name takes two of them.
    fn names_max(&self, _: NamePurpose) -> usize {
        50
    }

    /// The keys in use that are mere ordinals count too.
    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        let mut counts = HashMap::new();
        self.count_under(&self.paths.names(), space, is_kept, &mut counts).await?;
        self.count_under(&self.paths.in_use_everywhere(), space, |_| Ok(true), &mut counts).await?;
        Ok(counts)
    }
}

impl EtcdStore {
    /// Counts keys by the space that follows `root` in them: those whose values count.
    async fn count_under(
        &self,
        root: &str,
        space: Option<&str>,
        counts_value: impl Fn(&str) -> Result<bool, StoreError> + Send,
        counts: &mut HashMap<String, u64>,
    ) -> Result<(), StoreError> {
        let all = space.map_or_else(|| root.to_owned(), |space| format!("{root}{space}/"));
        let mut from = all.clone();
        loop {
            let options = GetOptions::new().with_range(end_of(&all)).with_limit(NAMES_MAX as i64);
            let found = self.members.read(vec![TxnOp::get(from, Some(options))]).await?;
            for (key, value) in found.pairs(0) {
                let of = key.strip_prefix(root).and_then(|rest| rest.split_once('/'));
                if let Some((space, _)) = of
                    && counts_value(value)?
                {
                    *counts.entry(space.to_owned()).or_default() += 1;
                }
            }
            match found.last_key(0) {
                Some(last) if found.count(0) == NAMES_MAX => from = beyond(last),
                _ => return Ok(()),
            }
        }
    }

    /// The ordinals of a range that names occupy, at one moment.
    pub(super) async fn skips_in(
        &self,
        space: &str,
        ordinals: &Range<u64>,
        at: Moment,
    ) -> Result<Vec<u64>, StoreError> {
        let end = self.paths.skip(space, ordinals.end);
        let mut from = ordinals.start;
        let mut skips: Vec<u64> = Vec::new();
        while from < ordinals.end {
            let options = GetOptions::new()
                .with_range(end.as_str())
                .with_revision(at.revision)
                .with_limit(SKIPS_MAX as i64);
            let get = TxnOp::get(self.paths.skip(space, from), Some(options));
            let found = self.members.read_of(at.history, vec![get]).await?;
            let numbers =
                found.pairs(0).filter_map(|(key, _)| key.rsplit('/').next()?.parse::<u64>().ok());
            skips.extend(numbers);
            match skips.last() {
                Some(last) if found.count(0) == SKIPS_MAX => from = last + 1,
                _ => break,
            }
        }
        Ok(skips)
    }

    /// What to ask for names without an ordinal, by key and after a given one.
    pub(super) fn get_names_without_ordinal(
        &self,
        space: &str,
        after: Option<&str>,
        limit: u32,
    ) -> TxnOp {
        let all = self.paths.without_ordinal(space, "");
        let options = GetOptions::new().with_range(end_of(&all)).with_limit(i64::from(limit));
        let from = after.map_or(all, |after| beyond(&self.paths.without_ordinal(space, after)));
        TxnOp::get(from, Some(options))
    }
}

fn is_kept(value: &str) -> Result<bool, StoreError> {
    Ok(from_json::<NameDoc>(value)?.removed_at.is_none())
}

/// What to read of a name: its own key and, where it could be generated, whether its ordinal is in use.
pub(super) fn keys_of(
    paths: &KeyPaths,
    space: &str,
    name: &NewName,
) -> impl Iterator<Item = String> {
    let in_use = name.ordinal.map(|ordinal| paths.in_use(space, ordinal));
    std::iter::once(paths.name(space, &name.key)).chain(in_use)
}

/// What was found of a name, from the `number`-th of what [`keys_of`] has asked for.
pub(super) fn name_at(
    found: &Answers,
    number: usize,
    space: &str,
    name: &NewName,
) -> Result<Option<NameRecord>, StoreError> {
    if let Some(value) = found.value(number) {
        return Ok(Some(from_json::<NameDoc>(value)?.record(space, &name.key)));
    }
    let in_use = name.ordinal.and_then(|_| found.value(number + 1));
    let imported_at: Option<Timestamp> = in_use.map(from_json).transpose()?;
    Ok(imported_at.map(|at| name.imported(space, at)))
}
