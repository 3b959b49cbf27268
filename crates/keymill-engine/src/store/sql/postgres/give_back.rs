//! Giving back many leases at once: a few statements for hundreds of spaces.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::rows::space_from;
use super::statements::{LEASES_CLOSE, LEASES_OPEN, SPACES_LOCK, SPACES_MOVE};
use super::transaction::{Tx, missing};
use crate::store::values::{json, signed, unsigned};
use crate::store::{Floor, GiveBack, LeaseId, Mark, SpaceRecord, StoreError};

/// An open lease: who holds it, and where it ends.
type Open = HashMap<(String, LeaseId), (String, u64)>;

impl Tx {
    pub(super) async fn give_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let mut spaces = self.lock_spaces(backs).await?;
        let mut open = self.open_leases(backs).await?;
        let (mut closed, mut moved) = (Vec::new(), BTreeSet::new());
        let mut answers = Vec::with_capacity(backs.len());
        for (back, floor) in backs {
            let space = match self.above(&mut spaces, back, floor) {
                Ok(space) => space,
                Err(refusal) => {
                    answers.push(Err(refusal));
                    continue;
                }
            };
            let at = (back.space.clone(), back.lease);
            let is_its =
                |(holder, end): &(String, u64)| *holder == back.instance && *end == back.end;
            if open.get(&at).is_some_and(is_its) {
                open.remove(&at);
                space.take_back(&back.returned);
                closed.push(back);
                moved.insert(back.space.as_str());
            }
            answers.push(Ok(space.mark));
        }
        self.close_all(&closed).await?;
        let moved: Vec<&SpaceRecord> = moved.iter().filter_map(|name| spaces.get(*name)).collect();
        self.move_all(&moved).await?;
        Ok(answers)
    }

    /// The spaces of these leases, locked in the order of their names.
    async fn lock_spaces(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<BTreeMap<String, SpaceRecord>, StoreError> {
        let names: BTreeSet<&str> = backs.iter().map(|(back, _)| back.space.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let rows = self.query(SPACES_LOCK, &[&names]).await?;
        let spaces = rows.iter().map(|row| space_from(row, self.history()));
        spaces.map(|space| space.map(|space| (space.name.clone(), space))).collect()
    }

    async fn open_leases(&self, backs: &[(GiveBack, Floor)]) -> Result<Open, StoreError> {
        let spaces: Vec<&str> = backs.iter().map(|(back, _)| back.space.as_str()).collect();
        let leases: Vec<i64> = backs.iter().map(|(back, _)| signed(back.lease)).collect();
        let rows = self.query(LEASES_OPEN, &[&spaces, &leases]).await?;
        let open = rows
            .iter()
            .map(|row| ((row.get(0), unsigned(row.get(1))), (row.get(2), unsigned(row.get(3)))));
        Ok(open.collect())
    }

    /// The space of a lease, unless it lies below its floor.
    fn above<'a>(
        &self,
        spaces: &'a mut BTreeMap<String, SpaceRecord>,
        back: &GiveBack,
        floor: &Floor,
    ) -> Result<&'a mut SpaceRecord, StoreError> {
        let space = spaces.get_mut(&back.space);
        let space = space.ok_or_else(|| missing(&back.space, floor))?;
        space.check_floor(self.identity(), floor)?;
        Ok(space)
    }

    async fn close_all(&self, closed: &[&GiveBack]) -> Result<(), StoreError> {
        if closed.is_empty() {
            return Ok(());
        }
        let spaces: Vec<&str> = closed.iter().map(|back| back.space.as_str()).collect();
        let leases: Vec<i64> = closed.iter().map(|back| signed(back.lease)).collect();
        let ends: Vec<i64> = closed.iter().map(|back| signed(back.closed_at)).collect();
        self.execute(LEASES_CLOSE, &[&spaces, &leases, &ends]).await.map(drop)
    }

    async fn move_all(&self, moved: &[&SpaceRecord]) -> Result<(), StoreError> {
        if moved.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = moved.iter().map(|space| space.name.as_str()).collect();
        let nexts: Vec<i64> = moved.iter().map(|space| signed(space.mark.next)).collect();
        let revisions: Vec<i64> = moved.iter().map(|space| signed(space.mark.revision)).collect();
        let returned: Vec<String> = moved.iter().map(|space| json(&space.returned)).collect();
        self.execute(SPACES_MOVE, &[&names, &nexts, &revisions, &returned]).await.map(drop)
    }
}
