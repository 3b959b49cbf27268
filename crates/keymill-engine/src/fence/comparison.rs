//! The heartbeat's comparison: how far all spaces have come in the store, and how far they were seen.
//!
//! It says which spaces the store was rolled back for; what an instance does about that, `operations` knows.

use std::collections::{BTreeMap, HashSet};

use super::Fence;
use super::floors::{all_floors, raise_all};
use crate::store::{Beat, Floor, Mark, Pulse, SpaceRecord, StoreError, unseen};

/// What a heartbeat has shown.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The spaces that lie below what was seen of them.
    pub(crate) refused: Vec<Refused>,
    /// The spaces that have come further than was seen, and how far: to be [remembered](Fence::remember).
    pub(crate) risen: Vec<(String, Mark)>,
    /// The spaces that the instance serves and that have changed.
    pub(crate) changed: Vec<SpaceRecord>,
}

/// A space that the store was rolled back for.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Its name.
    pub(crate) space: String,
    /// How it shows.
    pub(crate) error: StoreError,
    /// How far it was seen, where the store has it: to be [reported](Fence::report_sighting).
    pub(crate) seen: Option<Mark>,
}

impl Fence {
    /// Reports to the store that this instance is running, and compares its answer with what was seen of it.
    pub(crate) async fn beat(&self, pulse: &Pulse) -> Result<Comparison, StoreError> {
        // Read before the store is asked: a floor that another raises meanwhile must not make
        // the answer look old.
        let floors = all_floors(&self.floors).await?;
        let beat = self.store.instances.heartbeat(pulse).await?;
        Ok(compare(self.floors.store(), floors, beat))
    }

    /// Makes the floor files know how far spaces have come.
    pub(crate) async fn remember(&self, risen: Vec<(String, Mark)>) -> Result<(), StoreError> {
        raise_all(&self.floors, risen).await
    }

    /// Leaves on record, in the store that was rolled back, how far this instance has seen a space:
    /// whoever advances it may have seen nothing.
    pub(crate) async fn report_sighting(&self, space: &str, seen: Mark) -> Result<(), StoreError> {
        self.store.spaces.report_sighting(space, &self.instance.id, seen).await
    }
}

/// Compares what a store says with what was seen of the store `known`.
fn compare(known: &str, mut floors: BTreeMap<String, Mark>, beat: Beat) -> Comparison {
    let Beat { store, marks, changed, lost } = beat;
    let lost: HashSet<String> = lost.into_iter().collect();
    // Those that were seen first: they tell which history the others must be on.
    let (seen, others): (Vec<_>, Vec<_>) =
        marks.into_iter().partition(|(name, _)| floors.contains_key(name));
    let mut history = unseen(floors.values());
    let (mut risen, mut refused) = (Vec::new(), Vec::new());
    for (space, mark) in seen.into_iter().chain(others) {
        let seen = floors.remove(&space).unwrap_or(history);
        // Which lengths the space has, only its whole record tells; losing one is losing
        // a revision, too.
        let mark = Mark { grown: seen.grown, ..mark };
        let floor = Floor { store: known.to_owned(), mark: seen };
        match compare_space(&floor, &store, &space, mark, lost.contains(&space)) {
            Ok(()) => {
                history = unseen([history, mark.max(seen)].iter());
                if !seen.has_reached(mark) {
                    risen.push((space, mark));
                }
            }
            Err(error) => refused.push(Refused { space, error, seen: Some(seen) }),
        }
    }
    for (space, _) in floors {
        let error = StoreError::gone(&space);
        refused.push(Refused { space, error, seen: None });
    }
    Comparison { refused, risen, changed }
}

fn compare_space(
    floor: &Floor,
    store: &str,
    space: &str,
    mark: Mark,
    lost: bool,
) -> Result<(), StoreError> {
    floor.check(space, store, mark)?;
    if lost {
        let evidence = format!("this instance's last lease of `{space}` is no longer on record");
        return Err(StoreError::rolled_back(space, floor.mark, evidence));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::History;

    #[test]
    fn a_space_below_its_floor_is_refused_and_one_above_it_has_risen() {
        let floors = [("a", 5), ("b", 5), ("c", 5)];
        let compared = compared(&floors, &[("a", 4), ("b", 5), ("c", 6)], &[]);
        assert_eq!(spaces(&compared.refused), ["a"]);
        assert_eq!(compared.refused[0].seen, Some(mark(5)));
        assert_eq!(compared.risen, [("c".to_owned(), mark(6))]);
    }

    #[test]
    fn a_space_that_the_store_has_lost_is_refused_and_cannot_be_reported() {
        let compared = compared(&[("a", 5)], &[("b", 1)], &[]);
        assert_eq!(spaces(&compared.refused), ["a"]);
        assert_eq!(compared.refused[0].seen, None);
        assert_eq!(compared.risen, [("b".to_owned(), mark(1))]);
    }

    #[test]
    fn a_last_lease_that_is_gone_refuses_a_space_that_has_come_far_enough() {
        let compared = compared(&[("a", 5)], &[("a", 9)], &["a"]);
        assert_eq!(spaces(&compared.refused), ["a"]);
        assert!(compared.risen.is_empty());
    }

    #[test]
    fn a_space_that_was_never_seen_must_be_on_the_history_of_the_others() {
        let floors = BTreeMap::from([("a".to_owned(), on(2, 5))]);
        let marks = vec![("a".to_owned(), on(2, 5)), ("new".to_owned(), on(1, 9))];
        let beat = Beat { store: "s1".to_owned(), marks, ..Beat::default() };
        assert_eq!(spaces(&compare("s1", floors, beat).refused), ["new"]);
    }

    #[test]
    fn another_store_is_refused_space_by_space() {
        let floors = BTreeMap::from([("a".to_owned(), mark(5))]);
        let marks = vec![("a".to_owned(), mark(9)), ("b".to_owned(), mark(1))];
        let beat = Beat { store: "s2".to_owned(), marks, ..Beat::default() };
        assert_eq!(spaces(&compare("s1", floors, beat).refused), ["a", "b"]);
    }

    fn compared(floors: &[(&str, u64)], marks: &[(&str, u64)], lost: &[&str]) -> Comparison {
        let floors = floors.iter().map(|(name, revision)| ((*name).to_owned(), mark(*revision)));
        let marks = marks.iter().map(|(name, revision)| ((*name).to_owned(), mark(*revision)));
        let beat = Beat {
            store: "s1".to_owned(),
            marks: marks.collect(),
            lost: lost.iter().map(|name| (*name).to_owned()).collect(),
            changed: Vec::new(),
        };
        compare("s1", floors.collect(), beat)
    }

    fn mark(revision: u64) -> Mark {
        Mark { revision, ..Mark::default() }
    }

    fn on(timeline: u64, revision: u64) -> Mark {
        Mark { history: History { server: 7, timeline }, ..mark(revision) }
    }

    fn spaces(refused: &[Refused]) -> Vec<&str> {
        refused.iter().map(|it| it.space.as_str()).collect()
    }
}
