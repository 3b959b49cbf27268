//! A keyspace that is moved into or out of etcd, row by row.
//!
//! Called by the store for `operations`, which has sealed the keyspace before. What belongs to one row is a
//! small transaction inside a large one, on condition that the row is not there yet. So many rows go into
//! one commit, and an import that was interrupted can begin again. Nothing here changes a keyspace that is
//! not importing.

use std::collections::HashSet;

use async_trait::async_trait;
use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};
use jiff::Timestamp;

use super::EtcdStore;
use super::docs::{InstanceDoc, LeaseDoc, NameDoc};
use super::key_paths::{KeyPaths, beyond, end_of};
use super::windows::WorkerDoc;
use crate::instance::Instance;
use crate::store::values::{from_json, json};
use crate::store::{
    Created, Floor, Mark, MovedLease, MovedRow, MovedSpace, Moves, NameRecord, Part, Purpose, Rows,
    RowsPage, SpaceRecord, StoreError,
};

/// How many small transactions one commit has. With the most writes of one of them, which is three,
/// and the two that move the space on, they must not be more than the 128 operations that etcd allows.
const COMMIT_MAX: usize = 120;

/// A key and its value.
type Pair = (String, String);

/// A row from the space that it is of, the end of its key, and its value.
type RowFrom = fn(&str, &str, &str) -> Result<MovedRow, StoreError>;

/// What is written with one commit.
#[derive(Default)]
struct Commit {
    writes: Vec<TxnOp>,
    /// A transaction of etcd may put a key only once.
    keys: HashSet<String>,
}

#[async_trait]
impl Moves for EtcdStore {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        let space = &page.space;
        let (all, row_from): (String, RowFrom) = match page.part {
            Part::Leases => (self.paths.leases(space), lease_from),
            Part::Workers => (self.paths.workers(space), worker_from),
            Part::Names => (self.paths.name(space, ""), name_from),
            Part::InUse => (self.paths.in_use_all(space), in_use_from),
            // etcd keeps no rows of keys.
            Part::PoolNames | Part::Available | Part::Used | Part::Digests => {
                return Ok(Rows::default());
            }
        };
        let after = page.after.as_deref().map(|after| beyond(&format!("{all}{after}")));
        let from = after.unwrap_or_else(|| all.clone());
        // To etcd, a limit of 0 is none.
        let limit = page.limit.max(1);
        let options = GetOptions::new().with_range(end_of(&all)).with_limit(i64::from(limit));
        let found = self.members.read(vec![TxnOp::get(from, Some(options))]).await?;
        let mut rows = Vec::with_capacity(found.count(0));
        for (key, value) in found.pairs(0) {
            rows.push(row_from(space, key.strip_prefix(all.as_str()).unwrap_or(key), value)?);
        }
        let last = found.last_key(0).filter(|_| found.count(0) >= limit as usize);
        let next = last.and_then(|last| last.strip_prefix(all.as_str())).map(str::to_owned);
        Ok(Rows { rows, next })
    }

    async fn begin_import(&self, moved: &MovedSpace) -> Result<Created, StoreError> {
        self.change(&moved.name, &[], &[], |draft| {
            let known = match draft.space() {
                Err(StoreError::UnknownSpace(_)) => None,
                found => Some(found?),
            };
            let created = moved.begun(known, draft.history);
            if let Created::Made(space) = &created {
                draft.move_to(space);
            }
            Ok(created)
        })
        .await
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let mut floor = floor.clone();
        for Commit { writes, .. } in commits(&self.paths, space, rows)? {
            let mark = self
                .change(space, &[], &[], |draft| {
                    let mut space = draft.space_above(&floor)?;
                    space.check_importing(importing)?;
                    draft.import(&writes);
                    space.mark.revision += 1;
                    draft.move_to(&space);
                    Ok(space.mark)
                })
                .await?;
            floor.mark = floor.mark.max(mark);
        }
        Ok(floor.mark)
    }

    async fn finish_import(
        &self,
        moved: &MovedSpace,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.change(&moved.name, &[], &[], |draft| {
            let space = moved.finished(&draft.space_above(floor)?)?;
            draft.move_to(&space);
            Ok(space)
        })
        .await
    }
}

impl Commit {
    /// Adds pairs that are written together, unless the first of them is there already.
    fn add(&mut self, pairs: Vec<Pair>) {
        let Some((first, _)) = pairs.first().filter(|(first, _)| !self.keys.contains(first)) else {
            return;
        };
        let absent = Compare::create_revision(first.as_str(), CompareOp::Equal, 0);
        let new = pairs.into_iter().filter(|(key, _)| self.keys.insert(key.clone()));
        let puts: Vec<TxnOp> = new.map(|(key, value)| TxnOp::put(key, value, None)).collect();
        self.writes.push(TxnOp::txn(Txn::new().when([absent]).and_then(puts)));
    }
}

/// What to write, in as few commits as there can be.
fn commits(paths: &KeyPaths, space: &str, rows: &[MovedRow]) -> Result<Vec<Commit>, StoreError> {
    let mut all: Vec<Commit> = Vec::new();
    for row in rows {
        for pairs in pairs_of(paths, space, row)? {
            match all.last_mut().filter(|last| last.writes.len() < COMMIT_MAX) {
                Some(last) => last.add(pairs),
                None => {
                    let mut next = Commit::default();
                    next.add(pairs);
                    all.push(next);
                }
            }
        }
    }
    Ok(all)
}

/// What a row is in etcd: pairs that are written together, where the first of them is not there.
fn pairs_of(paths: &KeyPaths, space: &str, row: &MovedRow) -> Result<Vec<Vec<Pair>>, StoreError> {
    Ok(match row {
        MovedRow::Lease(moved) => {
            let MovedLease { lease, start, end, purpose, holder, granted_at, closed_at, .. } =
                moved;
            let doc = LeaseDoc::of(moved);
            let by_start = paths.start(space, *start, *lease);
            let mut pairs =
                vec![(paths.lease(space, *lease), json(&doc)), (by_start, String::new())];
            if closed_at.is_none() && *purpose == Purpose::Lease {
                let open = format!("{} {}", holder.id, end.saturating_sub(*start));
                pairs.push((paths.open(space, *lease), open));
            }
            vec![pairs, pairs_of_holder(paths, holder, *granted_at)]
        }
        MovedRow::Worker { worker, instance, lease, end } => {
            let doc = WorkerDoc { lease: *lease, end: *end, instance: instance.clone() };
            vec![vec![(paths.worker(space, u64::from(*worker)), json(&doc))]]
        }
        MovedRow::Name { key, ordinal, purpose, owner, created_at, removed_at } => {
            let record = NameRecord {
                space: space.to_owned(),
                key: key.clone(),
                ordinal: *ordinal,
                purpose: *purpose,
                owner: owner.clone(),
                created_at: *created_at,
                removed_at: *removed_at,
            };
            let by_ordinal = match ordinal {
                Some(ordinal) => paths.skip(space, *ordinal),
                None => paths.without_ordinal(space, key),
            };
            let name = (paths.name(space, key), json(&NameDoc::of(&record)));
            vec![vec![name, (by_ordinal, String::new())]]
        }
        MovedRow::InUse { ordinal, imported_at } => {
            let skip = (paths.skip(space, *ordinal), String::new());
            vec![vec![(paths.in_use(space, *ordinal), json(imported_at)), skip]]
        }
        MovedRow::PoolName { .. }
        | MovedRow::Available { .. }
        | MovedRow::Used { .. }
        | MovedRow::Digest { .. } => return Err(StoreError::no_keys(space)),
    })
}

/// Who held a lease, so that the list of instances has it.
fn pairs_of_holder(paths: &KeyPaths, holder: &Instance, seen_at: Timestamp) -> Vec<Pair> {
    let started = holder.started_at.as_millisecond().unsigned_abs();
    let doc = InstanceDoc { instance: holder.clone(), address: None, seen_at, stopped_at: None };
    let age = (paths.age(&holder.id), started.to_string());
    vec![(paths.instance(started, &holder.id), json(&doc)), age]
}

fn lease_from(space: &str, key_end: &str, value: &str) -> Result<MovedRow, StoreError> {
    let lease = number_in(key_end)?;
    Ok(from_json::<LeaseDoc>(value)?.record(space, lease).into())
}

fn worker_from(_: &str, key_end: &str, value: &str) -> Result<MovedRow, StoreError> {
    let worker = number_in(key_end)?;
    let WorkerDoc { lease, end, instance } = from_json(value)?;
    Ok(MovedRow::Worker { worker, instance, lease, end })
}

fn name_from(space: &str, key_end: &str, value: &str) -> Result<MovedRow, StoreError> {
    Ok(from_json::<NameDoc>(value)?.record(space, key_end).into())
}

fn in_use_from(_: &str, key_end: &str, value: &str) -> Result<MovedRow, StoreError> {
    Ok(MovedRow::InUse { ordinal: number_in(key_end)?, imported_at: from_json(value)? })
}

/// The number that a key ends with: a row that cannot be read must not be left out.
fn number_in<T: std::str::FromStr>(key_end: &str) -> Result<T, StoreError> {
    let broken =
        |_| StoreError::Broken(format!("etcd holds a row at {key_end:?}, not at a number"));
    key_end.parse().map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_no_more_operations_than_etcd_allows_and_no_key_twice() {
        let paths = KeyPaths::under("test");
        let holder = Instance::this_process();
        let lease = |lease: u64| {
            MovedRow::Lease(MovedLease {
                lease,
                start: lease,
                end: lease + 1,
                closed_at_ordinal: None,
                purpose: Purpose::Lease,
                holder: holder.clone(),
                granted_at: Timestamp::UNIX_EPOCH,
                closed_at: None,
            })
        };
        let rows: Vec<MovedRow> = (0..250).chain(240..250).map(lease).collect();
        let commits = commits(&paths, "links", &rows).unwrap();
        let sizes: Vec<usize> = commits.iter().map(|commit| commit.writes.len()).collect();
        // 119 leases and their holder, twice; then 12 leases, the holder again, and no lease twice.
        assert_eq!(sizes, [120, 120, 13]);
        assert_eq!(commits[0].keys.len(), 119 * 3 + 2);
    }

    #[test]
    fn rows_of_keys_are_refused_rather_than_left_out() {
        let row = MovedRow::Available { id: 1, key: "k".to_owned() };
        let refusal = commits(&KeyPaths::under("test"), "links", &[row]);
        assert!(matches!(refusal, Err(StoreError::Broken(_))));
    }
}
