//! A keyspace that leaves Redis for another store, row by row.
//!
//! Called by the store for `operations`, which has sealed the keyspace before. Leases and keys that wait in
//! a pool are read in their order; everything else is a hash without one, and is scanned: a field that is
//! there all the time is met at least once, and one that is met twice is imported once. Nothing here
//! changes anything.
//!
//! Redis finds a key by itself, and the stores with tables find it by its id, which of a generated key is
//! made of its ordinal. Nothing here tells that. So each key of a pool leaves together with its id as that
//! of an imported key.

use deadpool::managed::Object;

use crate::space::Kind;
use crate::store::redis::RedisStore;
use crate::store::redis::rows::{self, FieldMap, claimed_from, name_from, used_from};
use crate::store::redis::server::Server;
use crate::store::redis::windows::worker_from;
use crate::store::values::{from_json, time};
use crate::store::{
    Claimed, KeyId, MovedRow, Part, Rows, RowsPage, SpaceRecord, StoreError, UsedKey, first_id,
};

/// Where the ids of a pool's keys begin within their era, once the keyspace was advanced. Places go on
/// from one era to the next and ids do not; another store gets there after 2^39 changes.
const PLACES_START: KeyId = 1 << 55;

impl RedisStore {
    pub(super) async fn rows_over(
        &self,
        connection: &Object<Server>,
        page: &RowsPage,
    ) -> Result<Rows, StoreError> {
        let space = self.record_of(connection, &page.space).await?;
        let hash = match page.part {
            Part::Leases => return self.moved_leases(connection, page).await,
            Part::Available => return self.available_after(connection, page, &space).await,
            // They leave with the keys that they are of.
            Part::PoolNames => return Ok(Rows::default()),
            Part::Workers => "workers",
            Part::Names => "names",
            Part::InUse => "in_use",
            Part::Used => "used",
            Part::Digests => "digests",
        };
        let (found, next) = self.scan(connection, page, hash).await?;
        let mut rows = Vec::with_capacity(found.len() / 2);
        for pair in found.chunks_exact(2) {
            match page.part {
                Part::Workers => rows.push(moved_worker(&pair[0], &pair[1])?),
                Part::Names => rows.push(name_from(&space.name, &pair[0], &pair[1])?.into()),
                Part::InUse => rows.push(MovedRow::InUse {
                    ordinal: rows::number(pair.first())?,
                    imported_at: time(rows::number(pair.get(1))?),
                }),
                Part::Used => rows.extend(moved_used(&space, &pair[0], &pair[1])?),
                _ => rows.push(MovedRow::Digest {
                    input: pair[0].clone(),
                    key: pair[1].clone(),
                    created_at: space.created_at,
                }),
            }
        }
        self.date_digests(connection, &space.name, &mut rows).await?;
        Ok(Rows { rows, next })
    }

    /// Leases by their numbers.
    async fn moved_leases(
        &self,
        connection: &Object<Server>,
        page: &RowsPage,
    ) -> Result<Rows, StoreError> {
        let (after, limit) = (page.after.as_deref(), page.limit.max(1) as usize);
        let (leases, next) = self.leases_after(connection, &page.space, after, limit).await?;
        // The last page is empty, because a page may have fewer rows than numbers.
        Ok(Rows { rows: leases.into_iter().map(MovedRow::from).collect(), next })
    }

    /// Keys that wait in the pool, by their places.
    async fn available_after(
        &self,
        connection: &Object<Server>,
        page: &RowsPage,
        space: &SpaceRecord,
    ) -> Result<Rows, StoreError> {
        let from =
            page.after.as_ref().map_or_else(|| "-inf".to_owned(), |after| format!("({after}"));
        let mut list = redis::cmd("ZRANGEBYSCORE");
        list.arg(self.paths.of_space(&page.space, "pool")).arg(from).arg("+inf");
        list.arg("WITHSCORES").arg("LIMIT").arg(0).arg(page.limit.max(1));
        let found: Vec<String> = connection.ask(&list).await?;
        let (mut rows, mut next) = (Vec::with_capacity(found.len()), None);
        for pair in found.chunks_exact(2) {
            let Claimed { id: place, key } = claimed_from(&pair[1], &pair[0])?;
            let id = id_in_pool(space, place);
            rows.push(MovedRow::PoolName { key: key.clone(), id });
            rows.push(MovedRow::Available { id, key });
            next = Some(place.to_string());
        }
        Ok(Rows { rows, next })
    }

    /// Fills in since when inputs have their keys, which the names of these keys tell.
    async fn date_digests(
        &self,
        connection: &Object<Server>,
        space: &str,
        rows: &mut [MovedRow],
    ) -> Result<(), StoreError> {
        let mut digests = Vec::new();
        for row in rows {
            if let MovedRow::Digest { key, created_at, .. } = row {
                digests.push((&*key, created_at));
            }
        }
        if digests.is_empty() {
            return Ok(());
        }
        let mut get = redis::cmd("HMGET");
        get.arg(self.paths.of_space(space, "names"));
        for (key, _) in &digests {
            get.arg(key);
        }
        let names: Vec<Option<String>> = connection.ask(&get).await?;
        for ((key, created_at), name) in digests.into_iter().zip(names) {
            if let Some(name) = name {
                *created_at = name_from(space, key, &name)?.created_at;
            }
        }
        Ok(())
    }

    /// Some fields of a hash of a space, names and values, and where to go on: a cursor, and the server
    /// that it is of. On another one it would pass fields over.
    async fn scan(
        &self,
        connection: &Object<Server>,
        page: &RowsPage,
        hash: &str,
    ) -> Result<(Vec<String>, Option<String>), StoreError> {
        let after = page.after.as_deref().and_then(|after| after.split_once(' '));
        let (server, cursor) = after.unwrap_or(("", "0"));
        let mut script = self.scripts.scan.key(self.paths.space(&page.space));
        script.arg(server).arg(hash).arg(cursor).arg(page.limit.max(1));
        let (server, cursor, found): (String, String, Vec<String>) =
            connection.run(&script).await?;
        if server.is_empty() {
            return Err(StoreError::Unavailable(format!(
                "{} was restarted, or another server has taken its place, while `{}` was read; \
                 start the export again",
                connection.server_name(),
                page.space
            )));
        }
        Ok((found, (cursor != "0").then(|| format!("{server} {cursor}"))))
    }
}

/// The id of a pool's key, which stores with tables can claim: none that an advance has passed.
fn id_in_pool(space: &SpaceRecord, place: KeyId) -> KeyId {
    match first_id(space.mark.revision) {
        0 => place,
        first => first + PLACES_START + place,
    }
}

fn moved_worker(worker: &str, row: &str) -> Result<MovedRow, StoreError> {
    let found = worker_from(worker, row)?;
    let instance = row.splitn(3, ' ').nth(2).unwrap_or_default().to_owned();
    Ok(MovedRow::Worker { worker: found.worker, instance, lease: found.lease, end: found.end })
}

/// A used key; of a pool with its id, by which it is found. Elsewhere that is its ordinal: one that
/// was retired before keymill kept it here gets an id that no ordinal is.
fn moved_used(space: &SpaceRecord, key: &str, text: &str) -> Result<Vec<MovedRow>, StoreError> {
    let UsedKey { id: place, key, used_at, caller, instance, expires_at, retired_at } =
        used_from(key, text)?;
    let kept: FieldMap = from_json(text)?;
    let is_pooled = space.definition.kind == Kind::Pooled;
    let id = match kept.get("id") {
        _ if is_pooled => id_in_pool(space, place),
        Some(id) => rows::number(Some(id))?,
        None => -place,
    };
    let mut moved = Vec::with_capacity(2);
    if is_pooled {
        moved.push(MovedRow::PoolName { key: key.clone(), id });
    }
    moved.push(MovedRow::Used { id, key, used_at, caller, instance, expires_at, retired_at });
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::super::import::era_of;
    use super::*;
    use jiff::Timestamp;

    use crate::space::{Definition, Tuning};
    use crate::store::redis::windows::row;
    use crate::store::{ERA, Mark, Ranges};
    use crate::store::{FILL_MAX, key_id};

    #[test]
    fn an_id_lies_in_the_era_of_its_space_and_is_that_of_no_later_fill() {
        for (revision, place) in [(7, 1), (7, 30_000), (ERA + 1, 5_000_000), (9 * ERA, 1 << 52)] {
            let space = space(Kind::Pooled, revision);
            let id = id_in_pool(&space, place);
            assert!(id >= first_id(revision), "{revision} {place}");
            assert_eq!(era_of(id), revision / ERA, "{revision} {place}");
            assert_ne!(id, id_in_pool(&space, place + 1));
            for later in 2..100 {
                let fill = key_id(revision + later, 0)..=key_id(revision + later, FILL_MAX - 1);
                assert!(!fill.contains(&id), "{revision} {place} {later}");
            }
        }
        assert_eq!(era_of(first_id(3 * ERA) - 1), 2);
        assert_eq!(era_of(-1), 0);
    }

    #[test]
    fn a_used_key_leaves_with_the_id_by_which_it_is_found() {
        let text = r#"{"place":"3","used_at":"1","caller":"","instance":"i","id":"42"}"#;
        let without = r#"{"place":"3","used_at":"1","caller":"","instance":"i"}"#;
        let ids = |kind, text| {
            let rows = moved_used(&space(kind, 5), "k", text).unwrap();
            let id_of = |row: &MovedRow| match row {
                MovedRow::Used { id, .. } | MovedRow::PoolName { id, .. } => *id,
                other => panic!("{other:?}"),
            };
            rows.iter().map(id_of).collect::<Vec<_>>()
        };
        assert_eq!(ids(Kind::Shuffled, text), [42]);
        assert_eq!(ids(Kind::Shuffled, without), [-3]);
        // Its name leads there, and an id of another store would be another key's here.
        assert_eq!(ids(Kind::Pooled, text), [3, 3]);
    }

    #[test]
    fn a_worker_leaves_as_its_row_says() {
        let end = u64::MAX / 2;
        let moved = moved_worker("7", &row(42, end, "i-1")).unwrap();
        let instance = "i-1".to_owned();
        assert_eq!(moved, MovedRow::Worker { worker: 7, instance, lease: 42, end });
        assert!(moved_worker("7", "42 soon i-1").is_err());
    }

    fn space(kind: Kind, revision: u64) -> SpaceRecord {
        SpaceRecord {
            name: "links".to_owned(),
            definition: Definition { kind, ..Definition::default() },
            tuning: Tuning::default(),
            fingerprint: None,
            capacity: 1_000,
            mark: Mark { revision, ..Mark::default() },
            base: 0,
            returned: Ranges::default(),
            sealed: true,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }
}
