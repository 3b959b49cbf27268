//! A sign of life in a SQLite transaction.

use rusqlite::params;

use super::rows::{all_marks, identity};
use super::statements::INSTANCE_SEEN;
use super::transaction::Tx;
use crate::store::values::now;
use crate::store::{Beat, Pulse, StoreError};

impl Tx<'_> {
    pub(super) fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let id = &pulse.instance.id;
        self.know(&pulse.instance)?;
        self.execute(INSTANCE_SEEN, params![id, now(), pulse.address, pulse.stopping])?;
        // Definitions are read of few spaces: reading those of ten thousand would take longer than
        // all the rest.
        let marks = self.query(all_marks)?;
        let changed = pulse.outdated(&marks).into_iter().map(|name| self.space(name));
        let changed = changed.collect::<Result<Vec<_>, _>>()?;
        let mut lost = Vec::new();
        for (space, lease) in pulse.expected(&marks) {
            if !self.has_lease(space, lease, id)? {
                lost.push(space.to_owned());
            }
        }
        Ok(Beat { store: self.query(identity)?, marks, changed, lost })
    }
}
