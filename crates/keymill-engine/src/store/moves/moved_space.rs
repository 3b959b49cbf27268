//! A keyspace that moves: what becomes of it in the store that it comes into.
//!
//! Drivers have it decide, under their lock, what to write over what is there. Nothing here does I/O.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::space::{Definition, Tuning};
use crate::store::{
    Created, History, Lengths, Mark, Ranges, SpaceRecord, StoreError, is_later_era,
};

/// A keyspace that comes from another store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MovedSpace {
    /// Its name, the same in both stores.
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
    /// its settings, an advance, or a later export may have moved it on.
    fn record_over(&self, known: &SpaceRecord) -> SpaceRecord {
        let mut record = self.record(known.mark.history);
        record.mark.revision = record.mark.revision.max(known.mark.revision);
        record.mark.next = record.mark.next.max(known.mark.next);
        record.base = record.base.max(known.base);
        // It was advanced here: what was returned before may be in use since.
        if is_later_era(known.mark.revision, self.revision) {
            record.returned.clear();
        }
        // And a growth that was lost was made again.
        if known.definition.grown.len() > self.definition.grown.len() {
            record.definition = known.definition.clone();
            record.capacity = known.capacity;
            record.mark.grown = known.mark.grown;
        }
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
