//! Leases that come back, hundreds to a MySQL transaction: rows are locked, read and written many to a
//! statement, and what becomes of them is decided here.

use std::collections::{BTreeMap, HashMap};

use super::bulk::{hex, runs};
use super::rows::{column, space_from};
use super::statements::{NOW, SPACES_AMONG};
use super::transaction::{Tx, missing};
use crate::store::values::{json, unsigned};
use crate::store::{Floor, GiveBack, LeaseId, Mark, SpaceRecord, StoreError};

/// What begins with the rows of spaces touches leases of no other space, so these need no lock.
const OPEN_LEASES: &str = "SELECT space, lease, instance, end_ordinal
    FROM leases FORCE INDEX (PRIMARY) WHERE closed_at IS NULL AND (space, lease)";

/// The spaces of a batch by name, each as it was read.
type Spaces = BTreeMap<String, Result<SpaceRecord, StoreError>>;
/// Who holds a lease, and where it ends.
type OpenLeases = HashMap<(String, LeaseId), (String, u64)>;

impl Tx {
    pub(super) async fn give_back(
        &mut self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let mut spaces = self.lock_spaces(backs).await?;
        let identity = self.identity().await?;
        let mut open = self.open_leases(backs).await?;
        let (mut marks, mut closed) = (Vec::with_capacity(backs.len()), Vec::new());
        for (back, floor) in backs {
            let taken = take_back(back, floor, &identity, &mut spaces, &mut open);
            if matches!(taken, Ok((_, true))) {
                closed.push(back);
            }
            marks.push(taken.map(|(mark, _)| mark));
        }
        self.close_all(&closed).await?;
        let mut moved: Vec<&str> = closed.iter().map(|back| back.space.as_str()).collect();
        moved.sort_unstable();
        moved.dedup();
        let moved: Vec<&SpaceRecord> =
            moved.into_iter().filter_map(|name| spaces.get(name)?.as_ref().ok()).collect();
        self.move_all(&moved).await?;
        Ok(marks)
    }

    /// The spaces of a batch, their rows locked in the order of their names.
    async fn lock_spaces(&mut self, backs: &[(GiveBack, Floor)]) -> Result<Spaces, StoreError> {
        let mut names: Vec<&str> = backs.iter().map(|(back, _)| back.space.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let names: Vec<String> = names.into_iter().map(|name| hex(name.as_bytes())).collect();
        let rows = self.among(SPACES_AMONG, &names, " ORDER BY name FOR UPDATE").await?;
        Ok(rows.iter().map(|row| (column(row, 0), space_from(row))).collect())
    }

    /// Those leases of a batch that are open.
    async fn open_leases(&mut self, backs: &[(GiveBack, Floor)]) -> Result<OpenLeases, StoreError> {
        let leases: Vec<String> = backs.iter().map(|(back, _)| lease_literal(back)).collect();
        let rows = self.among(OPEN_LEASES, &leases, "").await?;
        let open = rows.iter().map(|row| {
            let lease = (column(row, 0), unsigned(column(row, 1)));
            (lease, (column(row, 2), unsigned(column(row, 3))))
        });
        Ok(open.collect())
    }

    /// Closes leases where drawing ended.
    async fn close_all(&mut self, closed: &[&GiveBack]) -> Result<(), StoreError> {
        for run in runs(closed, |back| back.space.len()) {
            let ends = run.iter().map(|back| {
                let (space, lease) = (hex(back.space.as_bytes()), back.lease);
                format!("WHEN space = {space} AND lease = {lease} THEN {}", back.closed_at)
            });
            let ends = ends.collect::<Vec<_>>().join(" ");
            let leases = run.iter().map(|back| lease_literal(back)).collect::<Vec<_>>().join(",");
            self.execute_text(&format!(
                "UPDATE leases FORCE INDEX (PRIMARY) SET closed_at = {NOW}, open_for = NULL,
                closed_at_ordinal = CASE {ends} END WHERE (space, lease) IN ({leases})"
            ))
            .await?;
        }
        Ok(())
    }

    /// Writes down how far spaces have come that took something back.
    async fn move_all(&mut self, moved: &[&SpaceRecord]) -> Result<(), StoreError> {
        let returned = moved.iter().map(|space| json(&space.returned));
        let moved: Vec<(&SpaceRecord, String)> = moved.iter().copied().zip(returned).collect();
        for run in runs(&moved, |(space, returned)| space.name.len() + returned.len()) {
            let (mut names, mut revisions, mut ranges) = (Vec::new(), String::new(), String::new());
            for (space, returned) in run {
                let name = hex(space.name.as_bytes());
                revisions += &format!(" WHEN {name} THEN {}", space.mark.revision);
                ranges += &format!(" WHEN {name} THEN {}", hex(returned.as_bytes()));
                names.push(name);
            }
            let names = names.join(",");
            self.execute_text(&format!(
                "UPDATE spaces FORCE INDEX (PRIMARY) SET revision = CASE name{revisions} END,
                returned = CASE name{ranges} END WHERE name IN ({names})"
            ))
            .await?;
        }
        Ok(())
    }
}

/// Takes one lease back, in what was read of spaces and leases: how far its space has come, and
/// whether the lease is to be closed.
fn take_back(
    back: &GiveBack,
    floor: &Floor,
    identity: &str,
    spaces: &mut Spaces,
    open: &mut OpenLeases,
) -> Result<(Mark, bool), StoreError> {
    let space = match spaces.get_mut(&back.space) {
        Some(Ok(space)) => space,
        Some(Err(error)) => return Err(error.clone()),
        None => return Err(missing(&back.space, floor)),
    };
    space.check_floor(identity, floor)?;
    let lease = (back.space.clone(), back.lease);
    let is_ours = |(holder, end): &(String, u64)| *holder == back.instance && *end == back.end;
    if !open.get(&lease).is_some_and(is_ours) {
        return Ok((space.mark, false));
    }
    // A batch may name it twice.
    open.remove(&lease);
    space.take_back(&back.returned);
    Ok((space.mark, true))
}

fn lease_literal(back: &GiveBack) -> String {
    format!("({},{})", hex(back.space.as_bytes()), back.lease)
}
