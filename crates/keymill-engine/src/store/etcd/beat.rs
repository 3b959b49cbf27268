//! What a heartbeat is told: how far all spaces have come, and what the instance does not know yet or
//! has lost.
//!
//! A space is written with its mark beside it. Marks are small, so thousands of spaces take one
//! request; whole documents are read only of those that have changed. A version that knows of no
//! marks writes the space alone: then etcd's revisions of both differ, and the space is read instead.

use std::collections::HashMap;

use etcd_client::{GetOptions, KeyValue, TxnOp};

use super::EtcdStore;
use super::connection::GETS_MAX;
use super::docs::{LeaseDoc, StoreDoc, mark_in};
use super::key_paths::{beyond, end_of};
use crate::store::values::from_json;
use crate::store::{Beat, Lengths, Mark, Pulse, StoreError};

/// How many marks one request asks for.
const MARKS_MAX: usize = 10_000;

impl EtcdStore {
    /// The answer to a heartbeat.
    pub(super) async fn beat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let (store, marks) = self.marks().await?;
        let changed = self.space_records(&pulse.outdated(&marks)).await?;
        let lost = self.lost(pulse, &marks).await?;
        Ok(Beat { store, marks, changed, lost })
    }

    /// The identity of the store, and how far its spaces have come, by name.
    async fn marks(&self) -> Result<(String, Vec<(String, Mark)>), StoreError> {
        let (spaces, marks) = (self.paths.spaces(), self.paths.marks());
        let mut store = String::new();
        let (mut all, mut unmarked) = (Vec::new(), Vec::new());
        // Where a page begins, behind `spaces` and behind `marks`. Every mark is that of a space, so
        // a page of marks reaches at least as far as the page of spaces.
        let mut from = String::new();
        loop {
            let page = GetOptions::new().with_limit(MARKS_MAX as i64);
            let names = page.clone().with_keys_only().with_range(end_of(&spaces));
            let gets = vec![
                TxnOp::get(self.paths.store(), None),
                TxnOp::get(format!("{spaces}{from}"), Some(names)),
                TxnOp::get(format!("{marks}{from}"), Some(page.with_range(end_of(&marks)))),
            ];
            let found = self.members.read(gets).await?;
            if let Some(stamp) = found.value(0) {
                store = from_json::<StoreDoc>(stamp)?.identity;
            }
            let by_name = found.rows(2).iter().filter_map(|row| Some((name_in(row, &marks)?, row)));
            let by_name: HashMap<&str, &KeyValue> = by_name.collect();
            for row in found.rows(1) {
                let Some(name) = name_in(row, &spaces) else { continue };
                let mark = by_name.get(name).and_then(|mark| {
                    let is_of_it = mark.mod_revision() == row.mod_revision();
                    mark_in(mark.value_str().ok()?, found.at.history).filter(|_| is_of_it)
                });
                match mark {
                    Some(mark) => all.push((name.to_owned(), mark)),
                    None => unmarked.push(name.to_owned()),
                }
            }
            match found.rows(1).last().and_then(|row| name_in(row, &spaces)) {
                Some(last) if found.count(1) == MARKS_MAX => from = beyond(last),
                _ => break,
            }
        }
        if !unmarked.is_empty() {
            let unmarked: Vec<&str> = unmarked.iter().map(String::as_str).collect();
            for record in self.space_records(&unmarked).await? {
                all.push((record.name, Mark { grown: Lengths::NONE, ..record.mark }));
            }
            all.sort_unstable_by(|one: &(String, Mark), other| one.0.cmp(&other.0));
        }
        Ok((store, all))
    }

    /// The spaces whose last lease is not on record as the instance's, though it has to be.
    async fn lost(
        &self,
        pulse: &Pulse,
        marks: &[(String, Mark)],
    ) -> Result<Vec<String>, StoreError> {
        let mut lost = Vec::new();
        for batch in pulse.expected(marks).chunks(GETS_MAX) {
            let key = |(space, lease): &(&str, u64)| self.paths.lease(space, *lease);
            let gets = batch.iter().map(|it| TxnOp::get(key(it), None)).collect();
            let found = self.members.read(gets).await?;
            for (number, (space, _)) in batch.iter().enumerate() {
                let doc = found.value(number).map(from_json::<LeaseDoc>).transpose()?;
                if doc.is_none_or(|doc| doc.holder.id != pulse.instance.id) {
                    lost.push((*space).to_owned());
                }
            }
        }
        Ok(lost)
    }
}

/// The name of a space, in a key that begins so.
fn name_in<'a>(row: &'a KeyValue, begin: &str) -> Option<&'a str> {
    row.key_str().ok()?.strip_prefix(begin)
}
