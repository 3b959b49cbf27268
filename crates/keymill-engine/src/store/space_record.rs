//! A keyspace as a store has it, and the decisions about it that are the same for every store.
//!
//! Drivers read one under their lock, have it decide, and write back what it became. Nothing here does I/O.

use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;

use super::{ERA, Floor, Grant, LeaseAsk, Lengths, Mark, Ranges, StoreError, key_rows, next_era};
use crate::space::{Definition, Kind, RolledBack, Tuning};

/// A space as the store has it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpaceRecord {
    /// Its name, which is never used again.
    pub name: String,
    /// What its keys look like.
    pub definition: Definition,
    /// How it is served.
    pub tuning: Tuning,
    /// Tells the secret behind it, where there is one.
    pub fingerprint: Option<String>,
    /// How many ordinals it has.
    pub capacity: u64,
    /// How far it has come.
    pub mark: Mark,
    /// What an advance has moved beyond: no window of a snowflake keyspace begins below it.
    pub base: u64,
    /// Ordinals below `next` that were given back and wait to be granted again.
    pub returned: Ranges,
    /// Whether it was ended.
    pub sealed: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

impl SpaceRecord {
    /// How many ordinals can still be granted.
    pub fn left(&self) -> u64 {
        self.capacity - self.mark.next.min(self.capacity) + self.returned.count()
    }

    /// How many ordinals are granted, and perhaps handed out.
    pub fn leased(&self) -> u64 {
        self.mark.next - self.returned.count()
    }

    /// Ordinals a second that were granted, on average since the space was made; none where it has no ordinals.
    pub fn leased_rate(&self, now: Timestamp) -> f64 {
        if !self.definition.kind.counts() {
            return 0.0;
        }
        // A rate over less than an hour says nothing about the next years.
        let age = now.duration_since(self.created_at).as_secs_f64().max(3_600.0);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let rate = self.leased() as f64 / age;
        rate
    }

    /// In how many seconds all ordinals are granted, if it goes on like that.
    pub fn seconds_left(&self, now: Timestamp) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let seconds = self.left() as f64 / self.leased_rate(now);
        seconds.is_finite().then_some(seconds)
    }

    /// Refuses when this record lies below what the caller has seen of the space.
    pub fn check_floor(&self, store: &str, floor: &Floor) -> Result<(), StoreError> {
        floor.check(&self.name, store, self.mark).map_err(|error| match error {
            StoreError::RolledBack(how) if self.definition.kind == Kind::Digest => {
                let length = self.definition.length_last() + 1;
                let remedy = format!(
                    "Run `keymill space grow {} --length {length}`: known inputs keep their keys, \
                     and new ones get longer keys, which were never assigned",
                    self.name
                );
                StoreError::RolledBack(Arc::new(RolledBack { remedy, ..RolledBack::clone(&how) }))
            }
            error => error,
        })
    }

    /// Takes in a definition that has one generation more; whether it is new. Refuses one that
    /// does not continue this one: another may have grown the space since it was read.
    pub fn grow(&mut self, definition: &Definition, capacity: u64) -> Result<bool, StoreError> {
        if self.sealed {
            return Err(StoreError::Sealed(self.name.clone()));
        }
        let (known, wanted) = (&self.definition.grown, &definition.grown);
        if known == wanted {
            return Ok(false);
        }
        if wanted.split_last().map(|(_, before)| before) != Some(known.as_slice()) {
            return Err(StoreError::Outdated(self.name.clone()));
        }
        self.definition.clone_from(definition);
        self.capacity = capacity;
        self.mark.grown = Lengths::of(wanted);
        self.mark.revision += 1;
        Ok(true)
    }

    /// Moves ordinals out of what is left, for a lease to be recorded with the moved record:
    /// what came back first, otherwise from `next`. `None` where nothing is left.
    #[must_use]
    pub fn grant(&mut self, ask: &LeaseAsk) -> Option<Grant> {
        self.grant_up_to(ask.size_of(self.left()))
    }

    /// The same, for a size that needs no share of what is left.
    #[must_use]
    pub fn grant_up_to(&mut self, size: u64) -> Option<Grant> {
        let left = self.left();
        if left == 0 {
            return None;
        }
        self.mark.revision += 1;
        let ordinals = self.returned.take(size).unwrap_or_else(|| {
            let start = self.mark.next;
            self.mark.next = self.capacity.min(start.saturating_add(size));
            start..self.mark.next
        });
        let Range { start, end } = ordinals;
        assert!(start < end, "an empty grant: {ordinals:?} of {left} left");
        let mark = self.mark;
        Some(Grant { lease: mark.revision, ordinals, mark, left: left - (end - start) })
    }

    /// Takes in again what was not drawn of a lease, once the lease is closed.
    pub fn take_back(&mut self, returned: &[Range<u64>]) {
        self.mark.revision += 1;
        returned.iter().for_each(|range| self.returned.add(range.clone()));
    }

    /// Moves on beyond everything seen, into a new era, and makes growths again that were lost.
    /// Returns what is passed over.
    pub fn advance(&mut self, to: Mark) -> Result<Range<u64>, StoreError> {
        self.grow_again(to.grown)?;
        let era = next_era(self.mark.revision.max(to.revision)) / ERA;
        if self.definition.kind == Kind::Pooled && era > key_rows::ERA_MAX {
            let name = &self.name;
            return Err(StoreError::Broken(format!(
                "the pool of `{name}` was advanced {} times, which is the maximum",
                key_rows::ERA_MAX
            )));
        }
        let from = self.mark.next;
        self.mark.revision = next_era(self.mark.revision.max(to.revision));
        self.mark.next = from.max(to.next).min(self.capacity);
        self.base = self.mark.next;
        self.returned.clear();
        // What was passed over of a snowflake keyspace is time, not ordinals.
        let passed_from = if self.definition.kind == Kind::Snowflake { self.base } else { from };
        Ok(passed_from..self.mark.next)
    }

    /// Has the generations that were seen. Others in their place would have begun elsewhere, and
    /// made keys of the same ordinals that may be in use: that cannot be mended.
    fn grow_again(&mut self, seen: Lengths) -> Result<(), StoreError> {
        let (known, seen) = (self.definition.grown.clone(), seen.list());
        if known.starts_with(&seen) {
            return Ok(());
        }
        if !seen.starts_with(&known) {
            return Err(StoreError::Broken(format!(
                "`{}` was seen with the lengths {seen:?} after the first, but the store has \
                 {known:?}, so it could hand out keys that are already in use. Seal it and create \
                 a new keyspace",
                self.name
            )));
        }
        self.definition.grown = seen;
        let capacity = self.definition.capacity();
        self.capacity = capacity.map_err(|error| StoreError::Broken(error.to_string()))?;
        self.mark.grown = Lengths::of(&self.definition.grown);
        Ok(())
    }
}
