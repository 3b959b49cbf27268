//! Names in etcd, as they are found. What changes them is in `draft`.

use std::ops::Range;

use etcd_client::{GetOptions, SortOrder, SortTarget, TxnOp};

use super::EtcdStore;
use super::draft::NameDoc;
use crate::store::values::from_json;
use crate::store::{NameRecord, NewName, StoreError};

/// How many skips one request asks for.
const SKIPS_MAX: i64 = 10_000;

impl EtcdStore {
    pub(super) async fn find_name(
        &self,
        space: &str,
        name: &NewName,
    ) -> Result<Option<NameRecord>, StoreError> {
        let found =
            self.members.read(vec![TxnOp::get(self.keys.name(space, &name.key), None)]).await?;
        let doc = found.value(0).map(from_json::<NameDoc>).transpose()?;
        Ok(doc.map(|doc| doc.record(space, &name.key)))
    }

    pub(super) async fn skips_in(
        &self,
        space: &str,
        ordinals: Range<u64>,
    ) -> Result<Vec<u64>, StoreError> {
        let mut from = ordinals.start;
        let mut skips = Vec::new();
        loop {
            let options = GetOptions::new()
                .with_range(self.keys.skip(space, ordinals.end))
                .with_sort(SortTarget::Key, SortOrder::Ascend)
                .with_limit(SKIPS_MAX);
            let get = TxnOp::get(self.keys.skip(space, from), Some(options));
            let found = self.members.read(vec![get]).await?;
            let before = skips.len();
            let numbers =
                found.pairs(0).filter_map(|(key, _)| key.rsplit('/').next()?.parse::<u64>().ok());
            skips.extend(numbers);
            match skips.last() {
                Some(last) if skips.len() > before => from = last + 1,
                _ => return Ok(skips),
            }
        }
    }

    pub(super) async fn unplaced_page(
        &self,
        space: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let all = self.keys.unplaced(space, "");
        // The first key beyond that one.
        let from = after.map_or_else(|| all.clone(), |after| format!("{all}{after}\0"));
        let options = GetOptions::new()
            .with_range(self.keys.unplaced_end(space))
            .with_sort(SortTarget::Key, SortOrder::Ascend)
            .with_limit(i64::from(limit));
        let found = self.members.read(vec![TxnOp::get(from, Some(options))]).await?;
        let names = found.pairs(0).filter_map(|(key, _)| key.strip_prefix(all.as_str()));
        Ok(names.map(str::to_owned).collect())
    }
}
