//! The heartbeat: reports that this instance is running, and notices when the store is
//! unreachable or was rolled back.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::{Inner, Service, Space};
use crate::fence::{Comparison, Refused};
use crate::source::outlook::Outlook;
use crate::source::queue::Queue;
use crate::store::{Pulse, StoreError, is_later_era};
use crate::supply::stop::stopped;

/// How old the level of a pool may be before a heartbeat looks at it, and at how many it does.
const POOL_LOOK_EVERY: Duration = Duration::from_secs(60);
const POOL_LOOKS_MAX: usize = 16;

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
    /// Reports to the store that this instance is running, or that it has stopped.
    pub(super) async fn beat(&self, stopping: bool) {
        let spaces = self.known_spaces();
        let pulse = self.pulse(&spaces, stopping);
        let beaten = self.inner.fence.beat(&pulse).await;
        self.inner.health.note_beat(beaten.is_ok());
        match beaten {
            Ok(comparison) => {
                self.inner.health.store_answered();
                self.follow(comparison).await;
                spaces.iter().filter_map(|space| space.source.queue()).for_each(Queue::beat);
                if !stopping {
                    self.look_at_pools(&spaces).await;
                }
            }
            Err(error) => self.beat_failed(&error),
        }
    }

    /// Looks how full pools are that this instance has not heard of for a while: others take from them, too.
    async fn look_at_pools(&self, spaces: &[Arc<Space>]) {
        let is_old = |space: &&Arc<Space>| {
            space.progress().pool.is_some_and(|pool| pool.at.elapsed() > POOL_LOOK_EVERY)
        };
        for space in spaces.iter().filter(is_old).take(POOL_LOOKS_MAX) {
            let Ok(rows) = self.store().rows_of(&space.name) else { return };
            // Where it fails, the next heartbeat says so.
            let Ok(available) = rows.pools.available(&space.name).await else { return };
            space.progress.note_pool(available);
        }
    }

    fn pulse(&self, spaces: &[Arc<Space>], stopping: bool) -> Pulse {
        let last_leases = spaces
            .iter()
            .filter_map(|space| Some((space.name.clone(), space.progress().last_lease?)));
        let serves = spaces.iter().map(|space| (space.name.clone(), space.known_revision()));
        Pulse {
            instance: self.instance().clone(),
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

    /// Acts on what the store says, compared with what was seen of it.
    async fn follow(&self, comparison: Comparison) {
        let Comparison { refused, risen, changed } = comparison;
        for it in &refused {
            self.rolled_back(&it.space, &it.error);
            self.report_sighting(it).await;
        }
        let refused: HashSet<String> = refused.into_iter().map(|it| it.space).collect();
        self.inner.health.recovered_all_but(&refused);
        for space in self.known_spaces().iter().filter(|it| !refused.contains(&it.name)) {
            if let Some(queue) = space.source.queue() {
                queue.recovered();
            }
        }
        if let Err(error) = self.inner.fence.remember(risen).await {
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

    /// Tells the store how far this instance has seen a space, as often as that is worth it.
    async fn report_sighting(&self, Refused { space, seen, .. }: &Refused) {
        let is_served = self.known_space(space).is_some();
        let Some(seen) = seen.filter(|seen| seen.is_seen()) else { return };
        if !self.inner.health.wants_report(space, is_served) {
            return;
        }
        if let Err(error) = self.inner.fence.report_sighting(space, seen).await {
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
