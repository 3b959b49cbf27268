//! The heartbeat: shows the store that this instance lives, and notices when the store is
//! away or has gone back in time.

use std::collections::BTreeMap;

use tokio::time::MissedTickBehavior;

use super::Service;
use crate::floor::{Floor, Mark, all_floors, raise_to, unseen};
use crate::mill::Outlook;
use crate::refill::stopped;
use crate::store::{Beat, Pulse, SpaceRecord, StoreError};

/// Beats until the instance stops, then says goodbye.
pub(super) async fn run(service: Service) {
    let mut ticks = tokio::time::interval(service.inner.limits.heartbeat_every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stop = service.inner.stop.subscribe();
    loop {
        tokio::select! {
            _ = ticks.tick() => service.beat(false).await,
            () = stopped(&mut stop) => break,
        }
    }
    service.beat(true).await;
}

impl Service {
    /// Shows the store that this instance lives, or that it has stopped.
    pub(super) async fn beat(&self, stopping: bool) {
        let spaces = self.known_spaces();
        let last_leases = spaces
            .iter()
            .filter_map(|space| Some((space.name.clone(), space.progress().last_lease?)));
        let pulse = Pulse {
            instance: self.inner.instance.clone(),
            address: self.inner.address.lock().expect("nothing panics while it is held").clone(),
            stopping,
            last_leases: last_leases.collect(),
        };
        // Read before the store is asked: a floor that another raises meanwhile must not make
        // the answer look old.
        let floors = match all_floors(&self.inner.floors).await {
            Ok(floors) => floors,
            Err(error) => return self.beat_failed(&error),
        };
        match self.inner.store.heartbeat(&pulse).await {
            Ok(beat) => {
                self.inner.health.store_answered();
                self.compare(beat, floors).await;
                self.inner.heartbeat.send_modify(|beats| *beats += 1);
            }
            Err(error) => self.beat_failed(&error),
        }
    }

    fn beat_failed(&self, error: &StoreError) {
        if self.inner.health.store_failed(&error.to_string()) {
            tracing::warn!("the heartbeat failed: {error}");
        }
    }

    /// Compares what the store says with what was seen of it.
    async fn compare(&self, beat: Beat, mut floors: BTreeMap<String, Mark>) {
        let Beat { store, spaces, lost } = beat;
        // Those that were seen first: they tell which history the others must be on.
        let (seen, others): (Vec<_>, Vec<_>) =
            spaces.into_iter().partition(|record| floors.contains_key(&record.name));
        let mut known: Vec<Mark> = floors.values().copied().collect();
        for record in seen.into_iter().chain(others) {
            let mark = floors.remove(&record.name).unwrap_or_else(|| unseen(known.iter()));
            let floor = Floor { store: self.inner.floors.store().to_owned(), mark };
            match self.compare_space(&store, &record, &floor, &lost).await {
                Ok(()) => {
                    known.push(mark.max(record.mark));
                    self.inner.health.space_recovered(&record.name);
                    if let Some(space) = self.known_space(&record.name) {
                        space.mill.recovered();
                    }
                    self.update_space(record);
                }
                Err(error @ StoreError::WentBack(_)) => self.went_back(&record.name, &error),
                Err(error) => tracing::warn!(space = record.name, "{error}"),
            }
        }
        for (space, mark) in floors {
            self.went_back(&space, &StoreError::gone(&space, mark));
        }
    }

    async fn compare_space(
        &self,
        store: &str,
        record: &SpaceRecord,
        floor: &Floor,
        lost: &[String],
    ) -> Result<(), StoreError> {
        record.check_floor(store, floor)?;
        if lost.contains(&record.name) {
            let evidence = format!(
                "this instance's last lease of `{}` is not on record any more",
                record.name
            );
            return Err(StoreError::went_back(&record.name, floor.mark, evidence));
        }
        raise_to(&self.inner.floors, &record.name, record.mark).await
    }

    fn went_back(&self, space: &str, error: &StoreError) {
        let StoreError::WentBack(how) = error else {
            return;
        };
        if self.inner.health.space_went_back(space, how) {
            tracing::error!(space, code = "store_went_back", "{how}");
        }
        if let Some(space) = self.known_space(space) {
            space.mill.set_outlook(Outlook::WentBack(how.clone()));
        }
    }
}
