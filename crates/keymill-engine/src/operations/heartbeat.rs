//! The heartbeat: reports that this instance is running, and notices when the store is
//! unreachable or was rolled back.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::{Inner, Service, Space};
use crate::fence::floors::{all_floors, raise_all};
use crate::source::outlook::Outlook;
use crate::source::queue::Queue;
use crate::store::{Beat, Floor, Mark, Pulse, StoreError, is_later_era, unseen};
use crate::supply::stop::stopped;

/// Beats until the instance stops, then says goodbye. It keeps the instance alive only while it beats: one
/// that is dropped takes its heartbeat with it.
pub(super) async fn run(instance: Weak<Inner>, every: Duration, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => beat(&instance, false).await,
            () = stopped(&mut stop) => break,
        }
    }
    beat(&instance, true).await;
}

async fn beat(instance: &Weak<Inner>, stopping: bool) {
    if let Some(inner) = instance.upgrade() {
        Service { inner }.beat(stopping).await;
    }
}

impl Service {
    /// Shows the store that this instance lives, or that it has stopped.
    pub(super) async fn beat(&self, stopping: bool) {
        let spaces = self.known_spaces();
        let pulse = self.pulse(&spaces, stopping);
        // Read before the store is asked: a floor that another raises meanwhile must not make
        // the answer look old.
        let floors = match all_floors(&self.inner.floors).await {
            Ok(floors) => floors,
            Err(error) => return self.beat_failed(&error),
        };
        match self.inner.store.instances.heartbeat(&pulse).await {
            Ok(beat) => {
                self.inner.health.store_answered();
                self.compare(beat, floors).await;
                spaces.iter().filter_map(|space| space.source.queue()).for_each(Queue::beat);
            }
            Err(error) => self.beat_failed(&error),
        }
    }

    fn pulse(&self, spaces: &[Arc<Space>], stopping: bool) -> Pulse {
        let last_leases = spaces
            .iter()
            .filter_map(|space| Some((space.name.clone(), space.progress().last_lease?)));
        let serves = spaces.iter().map(|space| (space.name.clone(), space.known_revision()));
        Pulse {
            instance: self.inner.instance.clone(),
            address: self.inner.address.lock().expect("nothing panics while it is held").clone(),
            stopping,
            last_leases: last_leases.collect(),
            serves: serves.collect(),
        }
    }

    fn beat_failed(&self, error: &StoreError) {
        if self.inner.health.store_failed() {
            tracing::warn!("the heartbeat failed: {error}");
        }
    }

    /// Compares what the store says with what was seen of it.
    async fn compare(&self, beat: Beat, mut floors: BTreeMap<String, Mark>) {
        let Beat { store, marks, changed, lost } = beat;
        let lost: HashSet<String> = lost.into_iter().collect();
        // Those that were seen first: they tell which history the others must be on.
        let (seen, others): (Vec<_>, Vec<_>) =
            marks.into_iter().partition(|(name, _)| floors.contains_key(name));
        let mut history = unseen(floors.values());
        let (mut raised, mut refused) = (Vec::new(), HashSet::new());
        for (name, mark) in seen.into_iter().chain(others) {
            let floor = floors.remove(&name).unwrap_or(history);
            // Which lengths the space has, only its whole record tells; losing one is losing
            // a revision, too.
            let mark = Mark { grown: floor.grown, ..mark };
            match self.compare_space(&store, &name, mark, floor, lost.contains(&name)) {
                Ok(()) => {
                    history = unseen([history, mark.max(floor)].iter());
                    if !floor.has_reached(mark) {
                        raised.push((name, mark));
                    }
                }
                Err(error) => {
                    self.rolled_back(&name, &error);
                    self.report_sighting(&name, floor).await;
                    refused.insert(name);
                }
            }
        }
        for (space, mark) in floors {
            self.rolled_back(&space, &StoreError::gone(&space, mark));
            refused.insert(space);
        }
        self.inner.health.recovered_all_but(&refused);
        for space in self.known_spaces().iter().filter(|it| !refused.contains(&it.name)) {
            if let Some(queue) = space.source.queue() {
                queue.recovered();
            }
        }
        if let Err(error) = raise_all(&self.inner.floors, raised).await {
            return self.beat_failed(&error);
        }
        for record in changed {
            // Refused, and yet in a later era: an advance did not know how far this instance had
            // come, which must drop what others are granted again.
            let known = self.known_space(&record.name).map_or(0, |space| space.known_revision());
            if !refused.contains(&record.name) || is_later_era(record.mark.revision, known) {
                self.update_space(record);
            }
        }
    }

    fn compare_space(
        &self,
        store: &str,
        space: &str,
        mark: Mark,
        seen: Mark,
        lost: bool,
    ) -> Result<(), StoreError> {
        let floor = Floor { store: self.inner.floors.store().to_owned(), mark: seen };
        floor.check(space, store, mark)?;
        if lost {
            let evidence =
                format!("this instance's last lease of `{space}` is no longer on record");
            return Err(StoreError::rolled_back(space, seen, evidence));
        }
        Ok(())
    }

    /// Leaves on record, in the store that was rolled back, how far this instance has seen a space:
    /// whoever advances it may have seen nothing.
    async fn report_sighting(&self, space: &str, seen: Mark) {
        let is_served = self.known_space(space).is_some();
        if !seen.is_seen() || !self.inner.health.wants_report(space, is_served) {
            return;
        }
        let reported =
            self.inner.store.spaces.report_sighting(space, &self.inner.instance.id, seen).await;
        if let Err(error) = reported {
            tracing::warn!(
                space,
                "could not record in the store how far the keyspace was seen: {error}"
            );
        }
    }

    fn rolled_back(&self, space: &str, error: &StoreError) {
        let StoreError::RolledBack(how) = error else {
            return;
        };
        if self.inner.health.space_rolled_back(space, how) {
            tracing::error!(space, code = "store_rolled_back", "{how}");
        }
        if let Some(space) = self.known_space(space)
            && let Some(queue) = space.source.queue()
        {
            queue.set_outlook(Outlook::RolledBack(how.clone()));
        }
    }
}
