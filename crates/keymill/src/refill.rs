//! Refill: keeps a mill supplied with leases of the right size.
//!
//! One task a mill, started on first demand. It is the only code that leases for a running
//! instance, and the last thing it does at a clean stop is to give back what was not drawn.
//!
//! # Invariants
//!
//! - A lease reaches the mill only after the store has recorded it and the floor files know.
//! - A lease in doubt is burned: it is never offered, never given back. The next request asks
//!   for one ordinal until one succeeds, so that a link that loses every answer cannot burn a
//!   space empty.

use std::mem::discriminant;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::floor::{Floors, Lengths, Mark, floor_of, raise_to};
use crate::instance::Instance;
use crate::keys::Keys;
use crate::mill::{Mill, Outlook};
use crate::pace::{Pace, Retry};
use crate::pool::Pool;
use crate::space::{Audit, Tuning};
use crate::store::{GiveBack, Grant, LeaseAsk, LeaseId, Store, StoreError};

/// A mill never leases more than this part of what is left, so that the last keys of a space
/// spread over all instances.
const SHARE: u64 = 64;
/// How often a mill with traffic looks at its rate.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// What a refill works with.
#[derive(Debug)]
pub struct Refill {
    /// The space it leases of.
    pub space: String,
    /// Where it leases.
    pub store: Arc<dyn Store>,
    /// What the space must have reached.
    pub floors: Arc<Floors>,
    /// For whom it leases.
    pub instance: Instance,
    /// What it fills.
    pub mill: Arc<Mill>,
    /// What is made of it, to be brought up to date first.
    pub keys: Arc<Keys>,
    /// Where keys are claimed instead of leased, if they are rows of a pool.
    pub pool: Option<Pool>,
    /// The space's changeable settings.
    pub tuning: watch::Receiver<Tuning>,
    /// Ticks with every heartbeat.
    pub heartbeat: watch::Receiver<u64>,
    /// Becomes true when the instance stops.
    pub stop: watch::Receiver<bool>,
    /// Whether the store was allowed although it is not safe: then every lease says so.
    pub unsafe_store: bool,
    /// The last lease, for the heartbeat to look after; and the rate, for people.
    pub progress: watch::Sender<Progress>,
}

/// What a refill tells others.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// The last lease granted.
    pub last_lease: Option<LeaseId>,
    /// Keys a second at present.
    pub rate: f64,
    /// Leases granted so far.
    pub leases: u64,
    /// Leases burned because their commit was in doubt.
    pub burned: u64,
    /// How often the clock of this host was set, as far as a snowflake space has noticed.
    pub clock_jumps: u64,
}

/// A lease in the mill.
#[derive(Debug)]
struct Held {
    lease: LeaseId,
    ordinals: Range<u64>,
}

impl Refill {
    /// Runs until the instance stops or the space is ended, then gives back what is left.
    pub async fn run(mut self) {
        let mut pace = Pace::new(Instant::now());
        let mut held: Vec<Held> = Vec::new();
        let mut retry = Retry::default();
        loop {
            let wake_at = retry.at.unwrap_or_else(|| Instant::now() + SAMPLE_EVERY);
            let timed = retry.at.is_some() || pace.is_busy();
            let mut beat = false;
            tokio::select! {
                () = self.mill.low.notified() => {}
                () = sleep_until(wake_at), if timed => {}
                Ok(()) = self.heartbeat.changed() => beat = true,
                () = stopped(&mut self.stop) => break,
            }
            if *self.mill.outlook() == Outlook::Sealed {
                break;
            }
            if beat && !held.is_empty() {
                // Ahead of the lease that will need it; where this fails, that one tries again.
                let _ = self.keys.all_ready(&*self.store).await;
            }
            pace.sample(self.mill.drawn(), Instant::now());
            self.progress.send_modify(|progress| progress.rate = pace.rate);
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
            let left = self.mill.left();
            let spent = spent(&held, left);
            let granted = match &self.pool {
                Some(pool) => pool.claim(size, &tuning, &self.mill).await,
                None => self.lease(size, &spent).await,
            };
            match granted {
                Ok(grant) => {
                    held.retain(|lease| !spent.contains(&lease.lease));
                    held.push(Held { lease: grant.lease, ordinals: grant.ordinals.clone() });
                    retry = Retry::default();
                    self.mill.fill(grant.ordinals);
                    self.look_after_pool(&held, grant.left, &tuning).await;
                    // One lease may not be enough: look again at once.
                    self.mill.low.notify_one();
                }
                Err(error) => {
                    if matches!(error, StoreError::Exhausted { .. } | StoreError::Sealed(_)) {
                        held.retain(|lease| !spent.contains(&lease.lease));
                    }
                    tell(&self.space, &self.mill, &self.progress, &error, &mut retry);
                }
            }
        }
        self.give_back(held).await;
    }

    /// The settings. What is reserved is not held for longer than the reservation lasts.
    fn tuning(&self) -> Tuning {
        let mut tuning = self.tuning.borrow().clone();
        if self.pool.is_some() && tuning.audit == Audit::Key {
            let half = (tuning.reserve_seconds / 2).max(1);
            tuning.horizon_seconds = tuning.horizon_seconds.min(half);
        }
        tuning
    }

    /// Whether to ask the store now.
    fn wants_more(&self, pace: &Pace, tuning: &Tuning, held: &[Held], beat: bool) -> bool {
        if self.mill.leases.has_next() {
            return false;
        }
        let left = self.mill.left();
        match *self.mill.outlook() {
            // Until it answers: callers are refused by this outlook, so only success may end it.
            Outlook::Away(_) => return true,
            // Asked again with every heartbeat, and once when there is a spent lease to report.
            Outlook::Exhausted { .. } => return beat || !spent(held, left).is_empty(),
            Outlook::WentBack(_) | Outlook::Sealed => return beat,
            Outlook::Filling | Outlook::PoolFilling | Outlook::NoWorker(_) => {}
        }
        // A mill that nobody has asked for anything leases nothing.
        if held.is_empty() && self.mill.shortfall() == 0 && !pace.has_started() {
            return false;
        }
        let wanted = pace.demand(tuning.horizon()).max(tuning.lease_size_min / 4).max(1);
        self.mill.leases.set_low_mark(wanted);
        left < wanted.saturating_add(self.mill.shortfall())
    }

    fn size(&self, pace: &Pace, tuning: &Tuning) -> u64 {
        pace.demand(tuning.horizon())
            .max(self.mill.shortfall())
            .clamp(tuning.lease_size_min, tuning.lease_size_max)
    }

    async fn lease(&self, size: u64, spent: &[LeaseId]) -> Result<Grant, StoreError> {
        let ask = LeaseAsk {
            space: self.space.clone(),
            instance: self.instance.clone(),
            size,
            share: SHARE,
            floor: floor_of(&self.floors, &self.space).await?,
            last_lease: self.progress.borrow().last_lease,
            spent: spent.to_vec(),
        };
        let grant = self.store.lease(&ask).await?;
        check_grant(&grant, size);
        settle(&*self.store, &self.floors, &self.keys, &ask, &grant).await?;
        self.progress.send_modify(|progress| {
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
    async fn look_after_pool(&self, held: &[Held], available: u64, tuning: &Tuning) {
        let Some(pool) = &self.pool else { return };
        if let Some(oldest) = held.first() {
            pool.claims.forget_below(oldest.ordinals.start);
        }
        if available >= tuning.low_water {
            return;
        }
        match pool.top_up(tuning).await {
            // Those that are in the pool are the last ones.
            Ok(_) | Err(StoreError::Exhausted { .. }) => {}
            Err(error) => {
                tracing::warn!(space = self.space, "the pool runs low and was not filled: {error}");
            }
        }
    }

    /// Seals the leases and returns what was not drawn. A rest that cannot be returned is a gap.
    async fn give_back(&self, held: Vec<Held>) {
        let rests = self.mill.leases.seal();
        for Held { lease, ordinals } in held {
            let rest = rests
                .iter()
                .find(|rest| !rest.is_empty() && rest.end == ordinals.end)
                .cloned()
                .unwrap_or(ordinals.end..ordinals.end);
            assert!(
                rest.start >= ordinals.start,
                "a rest {rest:?} larger than its lease {ordinals:?}"
            );
            let count = rest.end - rest.start;
            let mut retry = Retry::default();
            loop {
                match self.give_back_one(lease, rest.clone()).await {
                    Ok(()) => {
                        let space = &self.space;
                        tracing::info!(space, lease, count, "gave back what was not drawn");
                        break;
                    }
                    // Asked again until the stop runs out of time; on a closed lease it is harmless.
                    Err(StoreError::Unavailable(_) | StoreError::InDoubt(_)) => {
                        retry.again(false);
                        sleep_until(retry.at.expect("just set")).await;
                    }
                    Err(error) => {
                        let space = &self.space;
                        tracing::warn!(space, lease, count, "could not give back: {error}");
                        break;
                    }
                }
            }
        }
    }

    async fn give_back_one(&self, lease: LeaseId, rest: Range<u64>) -> Result<(), StoreError> {
        if let Some(pool) = &self.pool {
            return pool.give_back(rest).await;
        }
        let floor = floor_of(&self.floors, &self.space).await?;
        let (space, instance) = (self.space.clone(), self.instance.id.clone());
        let mark = self.store.give_back(&GiveBack { space, instance, lease, rest, floor }).await?;
        raise_to(&self.floors, &self.space, mark).await
    }
}

/// Turns a refusal into the mill's outlook and the time of the next try.
pub(crate) fn tell(
    space: &str,
    mill: &Mill,
    progress: &watch::Sender<Progress>,
    error: &StoreError,
    retry: &mut Retry,
) {
    let before = mill.outlook();
    let outlook = match error {
        StoreError::Exhausted { held_elsewhere, .. } => {
            Outlook::Exhausted { held_elsewhere: *held_elsewhere }
        }
        StoreError::Sealed(_) => Outlook::Sealed,
        StoreError::NoWorker { .. } => {
            retry.again(false);
            Outlook::NoWorker(error.to_string())
        }
        StoreError::WentBack(how) => Outlook::WentBack(how.clone()),
        error => {
            let doubted = matches!(error, StoreError::InDoubt(_));
            progress.send_modify(|progress| progress.burned += u64::from(doubted));
            retry.again(doubted);
            Outlook::Away(error.to_string())
        }
    };
    // Told once: the wording may differ from one refusal to the next.
    if discriminant(&*before) != discriminant(&outlook) {
        match &outlook {
            Outlook::WentBack(how) => {
                tracing::error!(space, code = "store_went_back", "{how}");
            }
            Outlook::Exhausted { .. } | Outlook::Sealed | Outlook::NoWorker(_) => {
                tracing::warn!(space, "{error}");
            }
            _ => tracing::warn!(
                space,
                left = mill.left(),
                "no lease: {error}; serving what is held and trying again"
            ),
        }
    }
    mill.set_outlook(outlook);
}

/// Resolves once the instance stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the service itself is gone: a stop, too.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Makes a granted lease safe to use: the floor files learn of it, it is looked at once more, and
/// `keys` learns of its generations and of the ordinals in it that names occupy; from the grant on,
/// no name can be added there.
///
/// This process may have been paused between the commit and the floor, while the store was taken
/// back and moved on without knowing of this lease; from here on, whoever moves it on knows. A
/// lease that cannot be settled goes back, because nothing of it has left; where even that is not
/// certain, it is burned.
pub(crate) async fn settle(
    store: &dyn Store,
    floors: &Arc<Floors>,
    keys: &Keys,
    ask: &LeaseAsk,
    grant: &Grant,
) -> Result<(), StoreError> {
    let settle = async {
        raise_to(floors, &ask.space, grant.mark).await?;
        confirm(store, ask, grant).await?;
        keys.reach(store, grant.ordinals.end, grant.lease).await?;
        // The floor knows the lengths too before a key of theirs leaves.
        let grown = Lengths::of(&keys.grown());
        raise_to(floors, &ask.space, Mark { grown, ..grant.mark }).await?;
        keys.skips().add(&store.skips(&ask.space, grant.ordinals.clone()).await?);
        Ok::<(), StoreError>(())
    };
    match settle.await {
        settled @ (Ok(()) | Err(StoreError::WentBack(_))) => settled,
        Err(error) => {
            let back = GiveBack {
                space: ask.space.clone(),
                instance: ask.instance.id.clone(),
                lease: grant.lease,
                rest: grant.ordinals.clone(),
                floor: ask.floor.clone(),
            };
            match store.give_back(&back).await {
                Ok(_) => Err(error),
                Err(_) => Err(StoreError::InDoubt(error.to_string())),
            }
        }
    }
}

async fn confirm(store: &dyn Store, ask: &LeaseAsk, grant: &Grant) -> Result<(), StoreError> {
    let found = store.lease_of(&ask.space, grant.ordinals.start).await?;
    if found.is_some_and(|it| it.lease == grant.lease && it.holder.id == ask.instance.id) {
        return Ok(());
    }
    let lost = format!("lease {} of `{}` is not on record any more", grant.lease, ask.space);
    Err(StoreError::went_back(&ask.space, grant.mark, lost))
}

/// The second half of the pair: what the store returned is what was asked for.
pub(crate) fn check_grant(grant: &Grant, size: u64) {
    let Range { start, end } = grant.ordinals;
    assert!(start < end && end - start <= size, "asked for {size}, granted {grant:?}");
    assert!(end <= grant.mark.next, "granted beyond `next`: {grant:?}");
}

/// Leases in the mill that are drawn to their end: all but the current one, which is the
/// newest as long as none waits behind it; and that one too when nothing is left.
fn spent(held: &[Held], left: u64) -> Vec<LeaseId> {
    let current = usize::from(left > 0);
    held[..held.len().saturating_sub(current)].iter().map(|held| held.lease).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_leases_but_the_current_are_spent() {
        let held = |lease| Held { lease, ordinals: 0..1 };
        assert!(spent(&[], 0).is_empty());
        assert_eq!(spent(&[held(1), held(2)], 5), [1]);
        assert_eq!(spent(&[held(1), held(2)], 0), [1, 2]);
    }
}
