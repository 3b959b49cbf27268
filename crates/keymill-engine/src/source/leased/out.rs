//! Ordinals that are out: drawn by a large take, whose keys are written only as its client reads.
//!
//! That may take minutes, so the mill remembers them. `supply` does not call their lease spent
//! meanwhile, and where an advance has overtaken the lease, they are discarded with it: another
//! instance may be granted the same ordinals from then on.
//!
//! # Invariants
//!
//! - A run is out, or came back, or was discarded; never two of these.
//! - What was written is not in the rest that comes back: the caller takes it off first.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use super::Mill;

/// A run that is out.
///
/// Deliberately not `Clone`: two copies could come back twice.
#[derive(Debug)]
pub(crate) struct RunOut {
    mill: Arc<Mill>,
    /// Never used twice, because ordinals may be, after an advance.
    id: u64,
}

/// The runs that are out.
#[derive(Debug, Default)]
pub(super) struct Out {
    runs: BTreeMap<u64, Range<u64>>,
    next: u64,
    /// How often everything was discarded.
    discards: u64,
}

impl RunOut {
    /// Notes what was just drawn. `None` where everything was discarded since [`Mill::discards`] gave
    /// this number: then the ordinals must not be used.
    pub(crate) fn of(mill: &Arc<Mill>, ordinals: &Range<u64>, discards: u64) -> Option<RunOut> {
        let mut out = mill.out();
        if out.discards != discards {
            return None;
        }
        let id = out.next;
        out.next += 1;
        out.runs.insert(id, ordinals.clone());
        Some(RunOut { mill: mill.clone(), id })
    }

    /// Whether it may still be written.
    pub(crate) fn is_out(&self) -> bool {
        self.mill.out().runs.contains_key(&self.id)
    }

    /// Forgets it: it is written to its end, or stays spent.
    pub(crate) fn end(self) {
        self.mill.out().runs.remove(&self.id);
    }

    /// Takes the rest of it in again, unless it was discarded.
    pub(crate) fn take_in(self, rest: Range<u64>) {
        let mut out = self.mill.out();
        if out.runs.remove(&self.id).is_some() {
            // With `out` still locked: a discard comes before all of this, or after it.
            self.mill.put_back(rest);
        }
    }
}

impl Out {
    /// Forgets every run: nothing of it may be written or come back.
    pub(super) fn discard(&mut self) {
        self.runs.clear();
        self.discards += 1;
    }
}

impl Mill {
    /// How often everything was discarded: to be asked before a draw, for [`RunOut::of`].
    pub(crate) fn discards(&self) -> u64 {
        self.out().discards
    }

    /// Whether some of these ordinals are out.
    pub(crate) fn has_out(&self, ordinals: &Range<u64>) -> bool {
        let within = |run: &Range<u64>| ordinals.start <= run.start && run.end <= ordinals.end;
        self.out().runs.values().any(within)
    }

    pub(super) fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().expect("nothing panics while it is held")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_rest_of_a_run_comes_back_once() {
        let mill = mill();
        let (discards, ordinals) = (mill.discards(), mill.try_draw(6).unwrap().unwrap());
        let run = RunOut::of(&mill, &ordinals, discards).unwrap();
        assert!(run.is_out() && mill.has_out(&(0..10)) && !mill.has_out(&(10..20)));
        run.take_in(4..6);
        assert!(!mill.has_out(&(0..10)) && mill.has_back(&(0..10)));
        assert_eq!(mill.try_draw(9), Ok(Some(4..6)));
        assert_eq!(mill.try_draw(9), Ok(Some(6..10)));
        assert_eq!(mill.try_draw(9), Ok(None));
    }

    #[test]
    fn what_was_discarded_is_neither_written_nor_drawn_again() {
        let mill = mill();
        let discards = mill.discards();
        let first = RunOut::of(&mill, &mill.try_draw(4).unwrap().unwrap(), discards).unwrap();
        let second = mill.try_draw(4).unwrap().unwrap();
        assert_eq!(mill.discard(), 2, "what was at hand");
        assert!(!first.is_out());
        first.take_in(2..4);
        let second = RunOut::of(&mill, &second, discards);
        assert!(second.is_none(), "drawn before, noted after");
        assert_eq!((mill.left(), mill.try_draw(1)), (0, Ok(None)));
        mill.fill(20..30);
        let discards = mill.discards();
        let third = RunOut::of(&mill, &mill.try_draw(4).unwrap().unwrap(), discards);
        assert!(third.is_some_and(|run| run.is_out()));
    }

    /// One that holds the ordinals from 0 to 10.
    fn mill() -> Arc<Mill> {
        let mill = Arc::new(Mill::new(1, Duration::from_secs(1)));
        mill.fill(0..10);
        mill
    }
}
