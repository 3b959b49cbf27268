//! Reading a keyspace that is moved to another store, page by page in the order of its tables; and
//! how many names there are. Writing one that comes from another store is in `import`.

use std::collections::HashMap;

use mysql_async::{Row, params};

use super::rows::{column, lease_from, name_from, used_from};
use super::transaction::Tx;
use crate::store::sql::export_page::{after_number, after_text, first_available};
use crate::store::values::{time, unsigned};
use crate::store::{MovedRow, Part, Rows, RowsPage, StoreError};

const LEASES: &str = "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal,
    purpose, granted_at, closed_at, id, host, pid, version, started_at
    FROM leases FORCE INDEX (PRIMARY) STRAIGHT_JOIN instances ON id = instance
    WHERE space = :space AND lease > :after ORDER BY lease LIMIT :limit";
const WORKERS: &str = "SELECT worker, instance, lease, ends FROM workers
    WHERE space = :space AND worker > :after ORDER BY worker LIMIT :limit";
const NAMES: &str = "SELECT space, `key`, ordinal, purpose, owner, created_at, removed_at
    FROM names FORCE INDEX (PRIMARY)
    WHERE space = :space AND `key` > :after ORDER BY `key` LIMIT :limit";
const IN_USE: &str = "SELECT ordinal, imported_at FROM imported
    WHERE space = :space AND ordinal > :after ORDER BY ordinal LIMIT :limit";
const POOL_NAMES: &str = "SELECT `key`, id FROM pool_names
    WHERE space = :space AND `key` > :after ORDER BY `key` LIMIT :limit";
const AVAILABLE: &str = "SELECT id, `key` FROM available_keys FORCE INDEX (PRIMARY)
    WHERE space = :space AND id > :after ORDER BY id LIMIT :limit";
const USED: &str = "SELECT id, `key`, used_at, caller, instance, expires_at, retired_at
    FROM used_keys FORCE INDEX (PRIMARY)
    WHERE space = :space AND id > :after ORDER BY id LIMIT :limit";
const DIGESTS: &str = "SELECT LOWER(HEX(input)), `key`, created_at FROM digests
    WHERE space = :space AND input > UNHEX(:after) ORDER BY input LIMIT :limit";
const NAME_COUNTS: &str = "SELECT space, COUNT(*) FROM names
    WHERE removed_at IS NULL GROUP BY space
    UNION ALL SELECT space, COUNT(*) FROM imported GROUP BY space";
const NAME_COUNTS_OF: &str = "SELECT COUNT(*) FROM names
    WHERE space = :space AND removed_at IS NULL
    UNION ALL SELECT COUNT(*) FROM imported WHERE space = :space";

impl Tx {
    pub(super) async fn moved_rows(&mut self, page: &RowsPage) -> Result<Rows, StoreError> {
        let space = self.look(&page.space).await?;
        let space = space.ok_or_else(|| StoreError::UnknownSpace(page.space.clone()))?;
        let (name, limit) = (&page.space, page.limit);
        let sql = match page.part {
            Part::Leases => LEASES,
            Part::Workers => WORKERS,
            Part::Names => NAMES,
            Part::InUse => IN_USE,
            Part::PoolNames => POOL_NAMES,
            Part::Available => AVAILABLE,
            Part::Used => USED,
            Part::Digests => DIGESTS,
        };
        let params = match page.part {
            Part::Names | Part::PoolNames | Part::Digests => {
                params! { "space" => name, "after" => after_text(page), limit }
            }
            Part::Leases | Part::Workers | Part::InUse | Part::Used => {
                params! { "space" => name, "after" => after_number(page)?, limit }
            }
            Part::Available => {
                let Some(first) = first_available(&space) else { return Ok(Rows::default()) };
                let after = after_number(page)?.max(first - 1);
                params! { "space" => name, after, limit }
            }
        };
        let found = self.query(sql, params).await?;
        let rows = found.iter().map(|row| row_of(page.part, row)).collect();
        Ok(Rows::page(rows, page.limit))
    }

    pub(super) async fn count_names(
        &mut self,
        space: Option<&str>,
    ) -> Result<HashMap<String, u64>, StoreError> {
        if let Some(space) = space {
            let found = self.query(NAME_COUNTS_OF, params! { space }).await?;
            let count: u64 = found.iter().map(|row| unsigned(column(row, 0))).sum();
            return Ok(HashMap::from([(space.to_owned(), count)]));
        }
        let mut counts: HashMap<String, u64> = HashMap::new();
        for row in &self.query(NAME_COUNTS, ()).await? {
            *counts.entry(column(row, 0)).or_default() += unsigned(column(row, 1));
        }
        Ok(counts)
    }
}

/// A row of the statement that reads this part.
fn row_of(part: Part, row: &Row) -> MovedRow {
    match part {
        Part::Leases => lease_from(row).into(),
        Part::Workers => MovedRow::Worker {
            worker: column(row, 0),
            instance: column(row, 1),
            lease: unsigned(column(row, 2)),
            end: unsigned(column(row, 3)),
        },
        Part::Names => name_from(row).into(),
        Part::InUse => {
            MovedRow::InUse { ordinal: unsigned(column(row, 0)), imported_at: time(column(row, 1)) }
        }
        Part::PoolNames => MovedRow::PoolName { key: column(row, 0), id: column(row, 1) },
        Part::Available => MovedRow::Available { id: column(row, 0), key: column(row, 1) },
        Part::Used => used_from(row).into(),
        Part::Digests => MovedRow::Digest {
            input: column(row, 0),
            key: column(row, 1),
            created_at: time(column(row, 2)),
        },
    }
}
