//! Moving a keyspace to another store: everything that is on record of it, row by row.
//!
//! `operations` reads the rows of a sealed keyspace and writes them into another store, where the keyspace
//! is sealed, too, until the last of them is there. Ids, revisions and leases stay what they were, so
//! that a key tells in the new store what it told in the old one.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Created, History, KeyId, LeaseId, LeaseRecord, Lengths, Mark, NamePurpose, NameRecord, Purpose,
    Ranges, SpaceRecord, StoreError, UsedKey,
};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

/// Keyspaces that move to another store.
#[async_trait]
pub trait Moves: fmt::Debug + Send + Sync {
    /// Rows of a space, to be moved to another store.
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError>;

    /// Makes a space that comes from another store: sealed, and `importing` what `tuning.importing`
    /// says, so that nothing can be taken from it. One that is importing the same already is brought up
    /// to what is given, and its mark never falls; any other is [`Created::Exists`] and left alone.
    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError>;

    /// Writes rows into a space that is importing this; those that are there already are left as
    /// they are. A key that was retired while it was read may come as available and as used: then it is
    /// used, in whatever order both come. Refused with [`StoreError::Outdated`] where the space is not
    /// importing this.
    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError>;

    /// Opens a space that was importing this: from now on its keys can be taken, beyond everything
    /// that was granted in the other store. Adds one to the revision that came with it, or to a later
    /// one that it has reached since.
    async fn finish_import(&self, space: &MovedSpace) -> Result<SpaceRecord, StoreError>;
}

/// A part of what is on record of a keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Leases, fills, advances and tenancies, with their holders.
    Leases,
    /// The workers of a snowflake keyspace.
    Workers,
    /// Names: aliases, removed ones too, keys in use, keys imported into a pool, digests.
    Names,
    /// Ordinals whose keys are in use elsewhere.
    InUse,
    /// The ids of keys that were imported into a pool.
    PoolNames,
    /// Keys that wait in the pool, reserved ones too: in a sealed keyspace nobody can use them.
    Available,
    /// Used keys.
    Used,
    /// The keys of inputs.
    Digests,
}

/// A row of a keyspace, as a file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MovedRow {
    /// A lease.
    Lease {
        /// Its number.
        lease: LeaseId,
        /// Where its ordinals begin.
        start: u64,
        /// Where they end.
        end: u64,
        /// Where drawing ended, once it is closed.
        closed_at_ordinal: Option<u64>,
        /// Why it is on record.
        purpose: Purpose,
        /// Who got it.
        holder: Instance,
        /// When.
        granted_at: Timestamp,
        /// When it was closed.
        closed_at: Option<Timestamp>,
    },
    /// A worker of a snowflake keyspace.
    Worker {
        /// Its number.
        worker: u32,
        /// Who holds it, or held it last.
        instance: String,
        /// Under which lease.
        lease: LeaseId,
        /// The first tick that nobody may have used.
        end: u64,
    },
    /// A name.
    Name {
        /// The key.
        key: String,
        /// The ordinal that it could be generated from.
        ordinal: Option<u64>,
        /// What for.
        purpose: NamePurpose,
        /// For whom.
        owner: String,
        /// When it was taken.
        created_at: Timestamp,
        /// When it was removed.
        removed_at: Option<Timestamp>,
    },
    /// An ordinal whose key is in use elsewhere.
    InUse {
        /// The ordinal.
        ordinal: u64,
        /// When it was imported.
        imported_at: Timestamp,
    },
    /// The id of a key that was imported into a pool.
    PoolName {
        /// The key.
        key: String,
        /// Its row.
        id: KeyId,
    },
    /// A key that waits in the pool.
    Available {
        /// Its row.
        id: KeyId,
        /// The key.
        key: String,
    },
    /// A used key.
    Used {
        /// Its row.
        id: KeyId,
        /// The key.
        key: String,
        /// When it was handed out, or claimed.
        used_at: Timestamp,
        /// To whom.
        caller: String,
        /// By which instance.
        instance: String,
        /// When it ceases to be.
        expires_at: Option<Timestamp>,
        /// When it was retired.
        retired_at: Option<Timestamp>,
    },
    /// The key of an input.
    Digest {
        /// What tells the input from every other, in hexadecimal.
        input: String,
        /// Its key.
        key: String,
        /// Since when.
        created_at: Timestamp,
    },
}

/// Which rows to read.
#[derive(Debug, Clone)]
pub struct RowsPage {
    /// Of which space.
    pub space: String,
    /// Which of them.
    pub part: Part,
    /// `next` of the page before.
    pub after: Option<String>,
    /// About so many.
    pub limit: u32,
}

/// A page of rows.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<MovedRow>,
    /// Where the next page begins, in the store's own words; none on the last.
    pub next: Option<String>,
}

/// A keyspace that comes from another store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MovedSpace {
    /// Its name.
    pub name: String,
    /// What its keys look like.
    pub definition: Definition,
    /// How it is served.
    pub tuning: Tuning,
    /// Tells the secret behind it, where there is one.
    pub fingerprint: Option<String>,
    /// How many ordinals it has.
    pub capacity: u64,
    /// How many changes it had seen.
    pub revision: u64,
    /// The lowest ordinal never granted.
    pub next: u64,
    /// What an advance has moved beyond.
    pub base: u64,
    /// What was returned unused.
    pub returned: Ranges,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Part {
    /// All of them, in the order in which they are written: a name is there before the rows that
    /// rely on it.
    pub const ALL: [Part; 8] = [
        Part::Leases,
        Part::Workers,
        Part::Names,
        Part::InUse,
        Part::PoolNames,
        Part::Available,
        Part::Used,
        Part::Digests,
    ];
}

impl From<SpaceRecord> for MovedSpace {
    fn from(record: SpaceRecord) -> MovedSpace {
        MovedSpace {
            name: record.name,
            definition: record.definition,
            tuning: record.tuning,
            fingerprint: record.fingerprint,
            capacity: record.capacity,
            revision: record.mark.revision,
            next: record.mark.next,
            base: record.base,
            returned: record.returned,
            created_at: record.created_at,
        }
    }
}

impl MovedSpace {
    /// Refuses numbers that contradict the definition, of a space with this capacity, or each other:
    /// somebody has edited them.
    pub fn check_numbers(&self, capacity: u64) -> Result<(), String> {
        let fits = self.capacity == capacity
            && self.next <= capacity
            && self.base <= self.next
            && self.returned.are_sound(self.next)
            && i64::try_from(self.revision).is_ok();
        if fits {
            Ok(())
        } else {
            Err(format!("the numbers of `{}` contradict each other", self.name))
        }
    }

    /// The space while its rows come in, to be written, where none of its name is there or it is
    /// importing the same; otherwise the one that is there, to be left alone.
    pub fn begun(&self, known: Option<SpaceRecord>, history: History) -> Created {
        let Some(known) = known else { return Created::Made(self.record(history)) };
        match self.check_importing(&known) {
            Ok(()) => Created::Made(self.record_over(&known)),
            Err(_) => Created::Exists(known),
        }
    }

    /// The space once all its rows are there; [`StoreError::Outdated`] where it is not importing them.
    pub fn finished(&self, known: &SpaceRecord) -> Result<SpaceRecord, StoreError> {
        self.check_importing(known)?;
        let mut record = self.record_over(known);
        record.sealed = false;
        record.tuning.importing = None;
        record.mark.revision += 1;
        Ok(record)
    }

    fn check_importing(&self, known: &SpaceRecord) -> Result<(), StoreError> {
        known.check_importing(self.tuning.importing.as_deref().unwrap_or_default())
    }

    /// The space as it is while its rows come in.
    pub(in crate::store) fn record(&self, history: History) -> SpaceRecord {
        SpaceRecord {
            name: self.name.clone(),
            definition: self.definition.clone(),
            tuning: self.tuning.clone(),
            fingerprint: self.fingerprint.clone(),
            capacity: self.capacity,
            mark: Mark {
                revision: self.revision,
                next: self.next,
                history,
                grown: Lengths::of(&self.definition.grown),
            },
            base: self.base,
            returned: self.returned.clone(),
            sealed: true,
            created_at: self.created_at,
        }
    }

    /// The same in place of a record that is there, whose mark was perhaps seen: none falls. A change of
    /// its settings, or a later export, may have moved it on.
    fn record_over(&self, known: &SpaceRecord) -> SpaceRecord {
        let mut record = self.record(known.mark.history);
        record.mark.revision = record.mark.revision.max(known.mark.revision);
        record.mark.next = record.mark.next.max(known.mark.next);
        record.base = record.base.max(known.base);
        record
    }
}

impl SpaceRecord {
    /// Refuses rows of a keyspace that this space is not importing.
    pub fn check_importing(&self, importing: &str) -> Result<(), StoreError> {
        // One that was opened is never written over, whatever its settings say.
        if self.sealed && self.tuning.importing.as_deref() == Some(importing) {
            return Ok(());
        }
        Err(StoreError::Outdated(self.name.clone()))
    }

    /// Settings that are to replace those of this space. What it is importing is none of them: whoever
    /// changes settings may have read them before the import ended.
    pub fn tuned(&self, tuning: &Tuning) -> Tuning {
        Tuning { importing: self.tuning.importing.clone(), ..tuning.clone() }
    }
}

impl Rows {
    /// A page of rows that were read in the order of [`MovedRow::cursor`], at most `limit`: where it is
    /// full, there may be more.
    pub fn page(rows: Vec<MovedRow>, limit: u32) -> Rows {
        let is_full = rows.len() >= limit as usize;
        let next = rows.last().filter(|_| is_full).map(MovedRow::cursor);
        Rows { rows, next }
    }
}

impl MovedRow {
    /// What tells a row from all others of its part, for the page after it.
    pub fn cursor(&self) -> String {
        match self {
            MovedRow::Lease { lease, .. } => lease.to_string(),
            MovedRow::Worker { worker, .. } => worker.to_string(),
            MovedRow::InUse { ordinal, .. } => ordinal.to_string(),
            MovedRow::Available { id, .. } | MovedRow::Used { id, .. } => id.to_string(),
            MovedRow::Name { key, .. } | MovedRow::PoolName { key, .. } => key.clone(),
            MovedRow::Digest { input, .. } => input.clone(),
        }
    }
}

impl From<LeaseRecord> for MovedRow {
    fn from(record: LeaseRecord) -> MovedRow {
        MovedRow::Lease {
            lease: record.lease,
            start: record.ordinals.start,
            end: record.ordinals.end,
            closed_at_ordinal: record.closed_at_ordinal,
            purpose: record.purpose,
            holder: record.holder,
            granted_at: record.granted_at,
            closed_at: record.closed_at,
        }
    }
}

impl From<NameRecord> for MovedRow {
    fn from(record: NameRecord) -> MovedRow {
        MovedRow::Name {
            key: record.key,
            ordinal: record.ordinal,
            purpose: record.purpose,
            owner: record.owner,
            created_at: record.created_at,
            removed_at: record.removed_at,
        }
    }
}

impl From<UsedKey> for MovedRow {
    fn from(used: UsedKey) -> MovedRow {
        MovedRow::Used {
            id: used.id,
            key: used.key,
            used_at: used.used_at,
            caller: used.caller,
            instance: used.instance,
            expires_at: used.expires_at,
            retired_at: used.retired_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "f00d/links";

    #[test]
    fn an_import_never_lowers_what_was_seen_of_its_space() {
        let moved = moved();
        let Created::Made(mut begun) = moved.begun(None, History::default()) else {
            panic!("there was none");
        };
        assert_eq!((begun.sealed, begun.mark.revision, begun.mark.next), (true, 7, 100));
        // Its settings were changed meanwhile.
        begun.mark.revision = 9;
        let Created::Made(again) = moved.begun(Some(begun.clone()), History::default()) else {
            panic!("it is importing the same");
        };
        assert_eq!(again, begun);
        let finished = moved.finished(&again).unwrap();
        assert_eq!((finished.mark.revision, finished.mark.next), (10, 100));
        assert_eq!((finished.sealed, finished.tuning.importing), (false, None));
    }

    #[test]
    fn a_space_that_was_opened_is_never_imported_into() {
        let moved = moved();
        let mut open = moved.record(History::default());
        open.sealed = false;
        for importing in [None, Some("f00d/orders".to_owned()), Some(FROM.to_owned())] {
            open.tuning.importing = importing;
            assert!(matches!(open.check_importing(FROM), Err(StoreError::Outdated(_))), "{open:?}");
            assert!(matches!(moved.finished(&open), Err(StoreError::Outdated(_))), "{open:?}");
            let found = moved.begun(Some(open.clone()), History::default());
            assert!(matches!(found, Created::Exists(_)), "{found:?}");
        }
    }

    #[test]
    fn a_space_that_imports_nothing_is_not_taken_for_one_that_does() {
        let mut moved = moved();
        moved.tuning.importing = None;
        let sealed = moved.record(History::default());
        assert!(matches!(moved.finished(&sealed), Err(StoreError::Outdated(_))));
    }

    #[test]
    fn a_page_that_is_not_full_is_the_last() {
        let row = |id: KeyId| MovedRow::Available { id, key: format!("k{id}") };
        assert_eq!(Rows::page(vec![row(-1), row(5)], 2).next.as_deref(), Some("5"));
        assert_eq!(Rows::page(vec![row(-1), row(5)], 3).next, None);
        assert_eq!(Rows::page(Vec::new(), 0).next, None);
    }

    #[test]
    fn numbers_that_contradict_each_other_are_refused() {
        assert!(moved().check_numbers(1_000).is_ok());
        let edited: [fn(&mut MovedSpace); 5] = [
            |it| it.capacity = 999,
            |it| it.next = 1_001,
            |it| it.base = it.next + 1,
            |it| it.revision = u64::MAX,
            |it| it.returned.add(90..it.next + 1),
        ];
        for edit in edited {
            let mut moved = moved();
            edit(&mut moved);
            assert!(moved.check_numbers(1_000).is_err(), "{moved:?}");
        }
        let reversed = serde_json::from_str::<Ranges>("[[90,80]]").unwrap();
        assert!(!reversed.are_sound(1_000));
    }

    fn moved() -> MovedSpace {
        MovedSpace {
            name: "links".to_owned(),
            definition: Definition::default(),
            tuning: Tuning { importing: Some(FROM.to_owned()), ..Tuning::default() },
            fingerprint: None,
            capacity: 1_000,
            revision: 7,
            next: 100,
            base: 0,
            returned: Ranges::default(),
            created_at: Timestamp::UNIX_EPOCH,
        }
    }
}
