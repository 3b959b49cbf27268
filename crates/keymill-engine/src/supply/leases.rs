//! Leases: keeps a mill supplied with leases of the right size.
//!
//! One task a mill, started on first demand. It is the only code that leases for a running
//! instance, and the last thing it does at a clean stop is to give back what was not drawn.
//!
//! # Invariants
//!
//! - A lease reaches the mill only after the fence has made sure of it.
//! - A lease in doubt is burned: it is never offered, never given back. The next request asks
//!   for one ordinal until one succeeds, so that a link that loses every answer cannot burn a
//!   space empty.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::claims::PoolSupply;
use super::demand::{Pace, SHARE};
use super::held::{HeldLease, spent};
use super::progress::SharedProgress;
use super::refusal::tell;
use super::retry::Retry;
use super::stop::stopped;
use crate::fence::Fence;
use crate::fence::group_commit::GroupCommit;
use crate::source::lease::LEASE_SIZE_MAX;
use crate::source::leased::Mill;
use crate::source::numbers::Numbers;
use crate::source::outlook::Outlook;
use crate::space::codec::SpaceCodec;
use crate::space::{Audit, Tuning};
use crate::store::{GiveBack, Grant, LeaseAsk, LeaseId, Mark, SpaceRecord, StoreError};

/// How often a mill with traffic looks at its rate; one without, less and less often.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
const SAMPLE_EVERY_MAX: Duration = Duration::from_secs(64);

/// Leases to close at a clean stop, many to a commit; the answer is how far each space has come.
pub(crate) type GiveBacks = GroupCommit<GiveBack, Result<Mark, StoreError>>;

/// The task that keeps one mill supplied with leases, or with claims of a pool; and what it works with.
#[derive(Debug)]
pub(crate) struct LeaseSupply {
    /// The space it leases of.
    pub(crate) space: String,
    /// Through which it leases.
    pub(crate) fence: Arc<Fence>,
    /// What it fills.
    pub(crate) mill: Arc<Mill>,
    /// What is made of it, to be brought up to date first.
    pub(crate) codec: Arc<SpaceCodec>,
    /// Where keys are claimed instead of leased, if they are rows of a pool.
    pub(crate) pool: Option<PoolSupply>,
    /// The space as the store had it when last heard of, with its changeable settings.
    pub(crate) record: Arc<ArcSwap<SpaceRecord>>,
    /// Where leases go at the end.
    pub(crate) give_backs: Arc<GiveBacks>,
    /// The most keys of one take.
    pub(crate) take_max: u64,
    /// Becomes true when the instance stops.
    pub(crate) stop: watch::Receiver<bool>,
    /// Whether the store was allowed although it is not safe: then every lease says so.
    pub(crate) unsafe_store: bool,
    /// The last lease, for the heartbeat to look after; and the rate, for people.
    pub(crate) progress: SharedProgress,
}

impl LeaseSupply {
    /// Runs until the instance stops or the space is ended, then gives back what is left.
    pub(crate) async fn run(mut self) {
        let mut pace = Pace::new(Instant::now());
        let mut held: Vec<HeldLease> = Vec::new();
        let mut retry = Retry::default();
        let (mut sample_every, mut drawn) = (SAMPLE_EVERY, 0);
        loop {
            let wake_at = retry.at.unwrap_or_else(|| Instant::now() + sample_every);
            let timed = retry.at.is_some() || pace.is_busy();
            tokio::select! {
                () = self.mill.queue.supply_is_wanted() => {}
                () = sleep_until(wake_at), if timed => {}
                () = stopped(&mut self.stop) => break,
            }
            if *self.mill.queue.outlook() == Outlook::Sealed {
                break;
            }
            let beat = self.mill.queue.beat_has_passed();
            if beat {
                self.follow_record(&mut held).await;
            }
            let drawn_before = std::mem::replace(&mut drawn, self.mill.drawn());
            let is_idle = drawn == drawn_before;
            sample_every =
                if is_idle { SAMPLE_EVERY_MAX.min(sample_every * 2) } else { SAMPLE_EVERY };
            pace.sample(drawn, Instant::now());
            self.progress.change(|progress| progress.rate = pace.rate);
            if retry.at.is_some_and(|at| Instant::now() < at) {
                continue;
            }
            // Spent: a time that has passed would wake this loop at once, for ever.
            retry.at = None;
            let tuning = self.tuning();
            if !self.wants_more(&pace, &tuning, &held, beat) {
                continue;
            }
            let size = if retry.doubted { 1 } else { self.size(&pace, &tuning) };
            let spent = spent(&held, &self.mill);
            // On the heap, and only for as long as it takes: a mill at rest is small.
            let granted = match &self.pool {
                Some(pool) => Box::pin(pool.claim(size, &tuning, &self.mill.queue)).await,
                None => Box::pin(self.lease(size, &spent)).await,
            };
            match granted {
                Ok(grant) => {
                    held.retain(|lease| !spent.contains(&lease.lease));
                    held.push(HeldLease { lease: grant.lease, ordinals: grant.ordinals.clone() });
                    retry = Retry::default();
                    self.mill.fill(grant.ordinals);
                    Box::pin(self.look_after_pool(&held, grant.left, &tuning)).await;
                    // One lease may not be enough: look again at once.
                    self.mill.queue.wake_supply();
                }
                Err(error) => {
                    if matches!(error, StoreError::Exhausted { .. } | StoreError::Sealed(_)) {
                        held.retain(|lease| !spent.contains(&lease.lease));
                    }
                    if self.pool.is_some() && matches!(error, StoreError::Exhausted { .. }) {
                        self.progress.note_pool(0);
                    }
                    let mill = Numbers::Leased(&self.mill);
                    tell(&self.space, mill, &self.progress, &error, Instant::now(), &mut retry);
                }
            }
        }
        Box::pin(self.give_back(held)).await;
    }

    /// Takes in what the heartbeat has brought: reads names that a growth made keys of, ahead of the
    /// lease that will need it (where this fails, that one tries again), and drops what an advance
    /// has overtaken.
    async fn follow_record(&self, held: &mut Vec<HeldLease>) {
        let record = self.record.load_full();
        if self.codec.has_unread() && !held.is_empty() {
            let _ = Box::pin(self.fence.reach(&self.codec, record.capacity, record.mark)).await;
        }
        let is_pool = self.pool.is_some();
        if held.iter().any(|held| held.is_overtaken(&record, is_pool)) {
            held.clear();
            let (space, count) = (&self.space, self.mill.discard());
            tracing::error!(
                space,
                count,
                "the keyspace was advanced, but not beyond the keys that this instance holds; \
                 discarded them"
            );
        }
    }

    /// The settings. What is reserved is not held for longer than the reservation lasts.
    fn tuning(&self) -> Tuning {
        let mut tuning = self.record.load().tuning.clone();
        if self.pool.is_some() && tuning.audit == Audit::Key {
            let half = (tuning.reserve_seconds / 2).max(1);
            tuning.horizon_seconds = tuning.horizon_seconds.min(half);
        }
        tuning
    }

    /// Whether to ask the store now.
    fn wants_more(&self, pace: &Pace, tuning: &Tuning, held: &[HeldLease], beat: bool) -> bool {
        if self.mill.leases.has_next() {
            return false;
        }
        let left = self.mill.left();
        match *self.mill.queue.outlook() {
            // Until it answers: callers are refused by this outlook, so only success may end it.
            Outlook::Unreachable(_) => return true,
            // Asked again with every heartbeat, and once when there is a spent lease to report.
            Outlook::Exhausted { .. } => return beat || !spent(held, &self.mill).is_empty(),
            Outlook::RolledBack(_) | Outlook::Sealed => return beat,
            Outlook::Filling | Outlook::PoolFilling | Outlook::NoWorker(_) => {}
        }
        // A mill that nobody has asked for anything leases nothing.
        if held.is_empty() && self.mill.queue.shortfall() == 0 && !pace.has_started() {
            return false;
        }
        let wanted = pace.hold_min(tuning);
        self.mill.leases.set_low_mark(wanted);
        left < wanted.saturating_add(self.mill.queue.shortfall())
    }

    /// How much to ask for: what demand needs; but never less than a caller waits for, whose take would
    /// otherwise need one lease after another.
    fn size(&self, pace: &Pace, tuning: &Tuning) -> u64 {
        let waited_for = self.mill.queue.shortfall().min(self.take_max).min(LEASE_SIZE_MAX);
        pace.lease_size(tuning).max(waited_for)
    }

    async fn lease(&self, size: u64, spent: &[LeaseId]) -> Result<Grant, StoreError> {
        let ask = LeaseAsk {
            space: self.space.clone(),
            instance: self.fence.instance().clone(),
            size,
            share: SHARE,
            last_lease: self.progress.get().last_lease,
            spent: spent.to_vec(),
        };
        let grant = self.fence.lease(&ask, &self.codec).await?;
        self.progress.change(|progress| {
            progress.last_lease = Some(grant.lease);
            progress.leases += 1;
        });
        if self.unsafe_store {
            tracing::warn!(space = self.space, lease = grant.lease, "leased from an unsafe store");
        }
        tracing::info!(
            space = self.space,
            lease = grant.lease,
            start = grant.ordinals.start,
            end = grant.ordinals.end,
            left = grant.left,
            "leased"
        );
        Ok(grant)
    }

    /// Forgets spent claims, and fills a pool that runs low.
    async fn look_after_pool(&self, held: &[HeldLease], available: u64, tuning: &Tuning) {
        let Some(pool) = &self.pool else { return };
        if let Some(oldest) = held.first() {
            pool.claimed.forget_below(oldest.ordinals.start);
        }
        self.progress.note_pool(available);
        if available >= tuning.low_water {
            return;
        }
        match pool.top_up(tuning).await {
            Ok(available) => self.progress.note_pool(available),
            // Those that are in the pool are the last ones.
            Err(StoreError::Exhausted { .. }) => {}
            Err(error) => {
                tracing::warn!(
                    space = self.space,
                    "the pool is low and could not be filled: {error}"
                );
            }
        }
    }

    /// Seals the leases and returns what was not drawn. A rest that cannot be returned is a gap.
    async fn give_back(&self, held: Vec<HeldLease>) {
        let (rests, mut came_back) = self.mill.seal();
        came_back.sort_unstable_by_key(|range| range.start);
        for HeldLease { lease, ordinals } in held {
            let rest = rests
                .iter()
                .find(|rest| !rest.is_empty() && rest.end == ordinals.end)
                .cloned()
                .unwrap_or(ordinals.end..ordinals.end);
            assert!(
                rest.start >= ordinals.start,
                "a rest {rest:?} larger than its lease {ordinals:?}"
            );
            let below = came_back
                .iter()
                .filter(|range| ordinals.start <= range.start && range.end <= rest.start);
            let returned: Vec<Range<u64>> =
                below.chain(Some(&rest).filter(|rest| !rest.is_empty())).cloned().collect();
            let count: u64 = returned.iter().map(|range| range.end - range.start).sum();
            let mut retry = Retry::default();
            loop {
                match self.give_back_one(lease, &rest, &returned).await {
                    Ok(()) => {
                        let space = &self.space;
                        tracing::info!(space, lease, count, "returned unused keys");
                        break;
                    }
                    // Asked again until the stop runs out of time; on a closed lease it is harmless.
                    Err(StoreError::Unavailable(_) | StoreError::InDoubt(_)) => {
                        retry.again(Instant::now(), false);
                        sleep_until(retry.at.expect("just set")).await;
                    }
                    Err(error) => {
                        let space = &self.space;
                        tracing::warn!(
                            space,
                            lease,
                            count,
                            "could not return unused keys: {error}"
                        );
                        break;
                    }
                }
            }
        }
    }

    /// Closes a lease where its rest begins, and returns what was not drawn of it.
    async fn give_back_one(
        &self,
        lease: LeaseId,
        rest: &Range<u64>,
        returned: &[Range<u64>],
    ) -> Result<(), StoreError> {
        if let Some(pool) = &self.pool {
            for numbers in returned {
                pool.give_back(numbers.clone()).await?;
            }
            return Ok(());
        }
        let back = GiveBack {
            space: self.space.clone(),
            instance: self.fence.instance().id.clone(),
            lease,
            end: rest.end,
            closed_at: rest.start,
            returned: returned.to_vec(),
        };
        self.give_backs.ask_in_line(back).await?.map(drop)
    }
}
