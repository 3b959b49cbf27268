//! Reading a keyspace that is moved to another store, page by page in the order of its tables; and
//! how many names there are. Writing one that comes from another store is in `import`.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::key_rows::used_from;
use super::rows::{lease_from, name_from};
use super::transaction::Tx;
use crate::store::sql::export_page::{after_number, after_text, first_available};
use crate::store::values::{time, unsigned};
use crate::store::{MovedRow, Part, Rows, RowsPage, StoreError};

const LEASES: &str = "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal,
    purpose, granted_at, closed_at, id, host, pid, version, started_at
    FROM leases JOIN instances ON id = instance
    WHERE space = $1 AND lease > $2 ORDER BY lease LIMIT $3";
const WORKERS: &str = "SELECT worker, instance, lease, ends FROM workers
    WHERE space = $1 AND worker > $2 ORDER BY worker LIMIT $3";
const NAMES: &str = "SELECT space, key, ordinal, purpose, owner, created_at, removed_at FROM names
    WHERE space = $1 AND key > $2 ORDER BY key LIMIT $3";
const IN_USE: &str = "SELECT ordinal, imported_at FROM imported
    WHERE space = $1 AND ordinal > $2 ORDER BY ordinal LIMIT $3";
const POOL_NAMES: &str = "SELECT key, id FROM pool_names
    WHERE space = $1 AND key > $2 ORDER BY key LIMIT $3";
const AVAILABLE: &str = "SELECT id, key FROM available_keys
    WHERE space = $1 AND id > $2 ORDER BY id LIMIT $3";
const USED: &str = "SELECT id, key, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = $1 AND id > $2 ORDER BY id LIMIT $3";
const DIGESTS: &str = "SELECT encode(input, 'hex'), key, created_at FROM digests
    WHERE space = $1 AND input > decode($2, 'hex') ORDER BY input LIMIT $3";
const NAME_COUNTS: &str = "SELECT space, count(*) FROM names
    WHERE ($1::text IS NULL OR space = $1) AND removed_at IS NULL GROUP BY space
    UNION ALL SELECT space, count(*) FROM imported
    WHERE $1::text IS NULL OR space = $1 GROUP BY space";

impl Tx {
    pub(super) async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        let space = self.look(&page.space).await?;
        let space = space.ok_or_else(|| StoreError::UnknownSpace(page.space.clone()))?;
        let (name, limit) = (&page.space, i64::from(page.limit));
        let found = match page.part {
            Part::Leases => self.query(LEASES, &[name, &after_number(page)?, &limit]).await?,
            Part::Workers => self.query(WORKERS, &[name, &after_number(page)?, &limit]).await?,
            Part::Names => self.query(NAMES, &[name, &after_text(page), &limit]).await?,
            Part::InUse => self.query(IN_USE, &[name, &after_number(page)?, &limit]).await?,
            Part::PoolNames => self.query(POOL_NAMES, &[name, &after_text(page), &limit]).await?,
            Part::Available => {
                let Some(first) = first_available(&space) else { return Ok(Rows::default()) };
                let after = after_number(page)?.max(first - 1);
                self.query(AVAILABLE, &[name, &after, &limit]).await?
            }
            Part::Used => self.query(USED, &[name, &after_number(page)?, &limit]).await?,
            Part::Digests => self.query(DIGESTS, &[name, &after_text(page), &limit]).await?,
        };
        let rows = found.iter().map(|row| row_of(page.part, row)).collect();
        Ok(Rows::page(rows, page.limit))
    }

    pub(super) async fn count_names(
        &self,
        space: Option<&str>,
    ) -> Result<HashMap<String, u64>, StoreError> {
        let mut counts: HashMap<String, u64> = HashMap::new();
        for row in self.query(NAME_COUNTS, &[&space.map(str::to_owned)]).await? {
            *counts.entry(row.get(0)).or_default() += unsigned(row.get(1));
        }
        Ok(counts)
    }
}

/// A row of the statement that reads this part.
fn row_of(part: Part, row: &Row) -> MovedRow {
    match part {
        Part::Leases => lease_from(row).into(),
        Part::Workers => MovedRow::Worker {
            worker: u32::try_from(row.get::<_, i64>(0)).expect("no worker needs more than 32 bits"),
            instance: row.get(1),
            lease: unsigned(row.get(2)),
            end: unsigned(row.get(3)),
        },
        Part::Names => name_from(row).into(),
        Part::InUse => {
            MovedRow::InUse { ordinal: unsigned(row.get(0)), imported_at: time(row.get(1)) }
        }
        Part::PoolNames => MovedRow::PoolName { key: row.get(0), id: row.get(1) },
        Part::Available => MovedRow::Available { id: row.get(0), key: row.get(1) },
        Part::Used => used_from(row).into(),
        Part::Digests => {
            MovedRow::Digest { input: row.get(0), key: row.get(1), created_at: time(row.get(2)) }
        }
    }
}
