//! A sign of life in a MySQL transaction: thousands of spaces are looked at in a few statements.

use std::collections::HashSet;

use mysql_async::{Row, params};

use super::bulk::hex;
use super::rows::{column, space_from};
use super::statements::{INSTANCE_SEEN, SPACES_AMONG};
use super::transaction::Tx;
use crate::store::values::unsigned;
use crate::store::{Beat, LeaseId, Mark, Pulse, SpaceRecord, StoreError};

const MARKS: &str = "SELECT name, next, revision FROM spaces ORDER BY name";

impl Tx {
    pub(super) async fn heartbeat(&mut self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let id = &pulse.instance.id;
        self.know(&pulse.instance).await?;
        let (address, stopping) = (pulse.address.clone(), pulse.stopping);
        self.execute(INSTANCE_SEEN, params! { id, address, stopping }).await?;
        let marks = self.marks().await?;
        let changed = self.spaces_among(&pulse.outdated(&marks)).await?;
        let lost = self.not_on_record(&pulse.expected(&marks), id).await?;
        Ok(Beat { store: self.identity().await?, marks, changed, lost })
    }

    /// How far all spaces have come, by name as bytes.
    async fn marks(&mut self) -> Result<Vec<(String, Mark)>, StoreError> {
        let rows = self.query(MARKS, ()).await?;
        let mark = |row: &Row| Mark {
            next: unsigned(column(row, 1)),
            revision: unsigned(column(row, 2)),
            ..Mark::default()
        };
        Ok(rows.iter().map(|row| (column(row, 0), mark(row))).collect())
    }

    async fn spaces_among(&mut self, names: &[&str]) -> Result<Vec<SpaceRecord>, StoreError> {
        let names: Vec<String> = names.iter().map(|name| hex(name.as_bytes())).collect();
        let rows = self.among(SPACES_AMONG, &names, " ORDER BY name").await?;
        rows.iter().map(space_from).collect()
    }

    /// The spaces of those leases that are not on record as this instance's.
    async fn not_on_record(
        &mut self,
        expected: &[(&str, LeaseId)],
        instance: &str,
    ) -> Result<Vec<String>, StoreError> {
        let literal =
            |(space, lease): &(&str, LeaseId)| format!("({},{lease})", hex(space.as_bytes()));
        let leases: Vec<String> = expected.iter().map(literal).collect();
        let instance = hex(instance.as_bytes());
        let select = format!(
            "SELECT space, lease FROM leases FORCE INDEX (PRIMARY)
            WHERE instance = {instance} AND (space, lease)"
        );
        let rows = self.among(&select, &leases, "").await?;
        let found: HashSet<(String, LeaseId)> =
            rows.iter().map(|row| (column(row, 0), unsigned(column(row, 1)))).collect();
        let is_lost =
            |(space, lease): &&(&str, LeaseId)| !found.contains(&((*space).to_owned(), *lease));
        Ok(expected.iter().filter(is_lost).map(|(space, _)| (*space).to_owned()).collect())
    }
}
