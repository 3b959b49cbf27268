//! Stores with a fault in how they lease; all else is the real store's.
//!
//! Floors would notice an early grant, and a window that is longer than on record, so with those
//! faults the service is told what satisfies them: the harness must find duplicates where no other
//! defence is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    Admin, Beat, Confirm, Confirmed, Finding, Floor, GiveBack, Grant, History, InstancePage,
    InstanceRecord, Instances, LeaseAsk, LeasePage, LeaseRecord, Leases, Lengths, Mark, Pulse,
    Snapshots, Store, StoreDescription, StoreError, Window, WindowAsk, WindowRelease, Windows,
};

use crate::Fault;
use crate::windows::endless_window;

/// How long an early grant is used before it is recorded.
const RECORD_AFTER: Duration = Duration::from_millis(150);
/// How long an instance may be silent before its lease is taken back.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// How far back open leases are looked for.
const LEASES_BACK: u64 = 1_000;
/// A mark that is above every floor.
const FAR: Mark = Mark {
    revision: 1 << 39,
    next: 1 << 62,
    history: History { server: 0, timeline: 0 },
    grown: Lengths::NONE,
};

/// A store that leases as `fault` says.
#[derive(Debug)]
pub(crate) struct FaultyStore {
    real: Store,
    fault: Fault,
    /// How far this process has granted ahead of the record.
    granted_to: AtomicU64,
}

impl FaultyStore {
    /// The real store with the parts that have a fault.
    pub(crate) fn over(real: Store, fault: Fault) -> Store {
        let faulty =
            Arc::new(FaultyStore { real: real.clone(), fault, granted_to: AtomicU64::new(0) });
        Store {
            leases: faulty.clone(),
            snapshots: faulty.clone(),
            instances: faulty.clone(),
            windows: faulty.clone(),
            admin: faulty,
            ..real
        }
    }

    /// Whether the service believes of more than is on record that it is.
    fn tells_more(&self) -> bool {
        matches!(self.fault, Fault::EarlyGrant | Fault::EndlessWindow)
    }

    /// Grants what the store would grant, and records it a moment later: a process killed in
    /// between has used a range that nobody knows of.
    async fn grant_early(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        let space = self.real.spaces.space(&ask.space).await?;
        let start = space.mark.next.max(self.granted_to.load(Ordering::SeqCst));
        let end = space.capacity.min(start + ask.size_of(space.left()));
        self.granted_to.store(end, Ordering::SeqCst);
        let late = LeaseAsk {
            size: end - start,
            share: 1,
            last_lease: None,
            spent: Vec::new(),
            ..ask.clone()
        };
        let unseen = Floor { store: floor.store.clone(), mark: Mark::default() };
        let real = self.real.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RECORD_AFTER).await;
            if let Err(error) = real.leases.lease(&late, &unseen).await {
                eprintln!("an early grant was never recorded: {error}");
            }
        });
        Ok(Grant {
            lease: start + 1,
            ordinals: start..end,
            mark: Mark { next: end, ..Mark::default() },
            left: space.capacity - end,
        })
    }

    /// Gives back, in the name of instances that seem to be dead, the leases that they seem not
    /// to have begun: the newest where there are two.
    async fn reclaim(&self, ask: &LeaseAsk, floor: &Floor) -> Result<(), StoreError> {
        let after = floor.mark.revision.saturating_sub(LEASES_BACK);
        let page = LeasePage {
            space: Some(ask.space.clone()),
            after: Some((ask.space.clone(), after)),
            limit: u32::MAX,
        };
        let leases = self.real.leases.leases(&page).await?;
        let open = leases.iter().filter(|lease| lease.closed_at.is_none());
        let open: Vec<&LeaseRecord> = open.collect();
        for silent in self.silent_instances().await? {
            let mut theirs = open.iter().filter(|lease| lease.holder.id == silent).rev();
            if let (Some(newest), Some(_)) = (theirs.next(), theirs.next()) {
                eprintln!("reclaiming {:?} of {silent}", newest.ordinals);
                let back = GiveBack {
                    space: ask.space.clone(),
                    instance: silent,
                    lease: newest.lease,
                    end: newest.ordinals.end,
                    closed_at: newest.ordinals.start,
                    returned: vec![newest.ordinals.clone()],
                };
                for answer in self.real.leases.give_back(&[(back, floor.clone())]).await? {
                    answer?;
                }
            }
        }
        Ok(())
    }

    async fn silent_instances(&self) -> Result<Vec<String>, StoreError> {
        let page = InstancePage { after: None, limit: u32::MAX };
        let instances = self.real.instances.instances(&page).await?.into_iter();
        let now = Instance::this_process().started_at;
        let silent = |known: &InstanceRecord| {
            known.stopped_at.is_none()
                && now.duration_since(known.seen_at).unsigned_abs() > SILENCE_MAX
        };
        Ok(instances.filter(silent).map(|known| known.instance.id).collect())
    }
}

#[async_trait]
impl Leases for FaultyStore {
    async fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        match self.fault {
            Fault::EarlyGrant => return self.grant_early(ask, floor).await,
            Fault::Reclaim => self.reclaim(ask, floor).await?,
            Fault::Splitmix | Fault::EndlessWindow => {}
        }
        self.real.leases.lease(ask, floor).await
    }

    async fn give_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        if self.fault == Fault::EarlyGrant {
            // Its leases have numbers that the record does not know.
            return Ok(backs.iter().map(|(_, floor)| Ok(floor.mark)).collect());
        }
        self.real.leases.give_back(backs).await
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        self.real.leases.lease_of(space, ordinal).await
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        self.real.leases.leases(page).await
    }
}

#[async_trait]
impl Snapshots for FaultyStore {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        if self.tells_more() {
            // As if what was told were on record: the service looks once more before it serves.
            let reached = Mark::default();
            let confirmed =
                self.real.snapshots.confirm(&Confirm { reached, ..what.clone() }).await?;
            return Ok(Confirmed { on_record: true, ..confirmed });
        }
        self.real.snapshots.confirm(what).await
    }

    async fn names_without_ordinal(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.real.snapshots.names_without_ordinal(space, reached, after, limit).await
    }
}

#[async_trait]
impl Instances for FaultyStore {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let mut beat = self.real.instances.heartbeat(pulse).await?;
        if self.tells_more() {
            beat.lost.clear();
            beat.marks.iter_mut().for_each(|(_, mark)| *mark = FAR);
        }
        Ok(beat)
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        self.real.instances.instances(page).await
    }
}

#[async_trait]
impl Windows for FaultyStore {
    async fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        if self.fault == Fault::EndlessWindow {
            return endless_window(&self.real, ask, floor).await;
        }
        self.real.windows.window(ask, floor).await
    }

    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        self.real.windows.clock_ms(own_ms).await
    }

    async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        if self.fault == Fault::EndlessWindow {
            // Its end is not the one on record.
            return Ok(floor.mark);
        }
        self.real.windows.release_window(release, floor).await
    }
}

/// The same but for the file that all processes on a SQLite database share: what this one was told of would
/// be known to the real store there.
#[async_trait]
impl Admin for FaultyStore {
    async fn identity(&self) -> Result<String, StoreError> {
        self.real.admin.identity().await
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        self.real.admin.secret(candidate).await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        self.real.admin.forget_secret().await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.real.admin.check().await
    }

    fn describe(&self) -> StoreDescription {
        self.real.admin.describe()
    }
}
