//! The spaces that this instance has open: found on first use, kept for good.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use jiff::Timestamp;
use keymill_core::{Blocklist, Generations, Located};
use tokio::sync::watch;

use super::digest::Digests;
use super::ledger::Ledger;
use super::uuid::Uuids;
use super::{Service, ServiceError};
use crate::claim::Claims;
use crate::keys::Keys;
use crate::mill::{Mill, Outlook};
use crate::refill::{Progress, Refill};
use crate::space::{Audit, Kind, Timeline, Tuning};
use crate::store::SpaceRecord;
use crate::worker::Keeper;

/// A space that this instance can take from.
#[derive(Debug)]
pub struct Space {
    /// Its name.
    pub name: String,
    /// Where its ordinals come from.
    pub mill: Arc<Mill>,
    /// What is made of them.
    pub(super) keys: Arc<Keys>,
    /// Keys of its pool that this instance holds, if it has a pool: then the mill hands out their
    /// numbers instead of ordinals.
    pub(super) claims: Option<Arc<Claims>>,
    /// Where single keys are put on record, in a store that can.
    pub(super) ledger: Option<Ledger>,
    /// What makes its keys of inputs, if that is its kind.
    pub(super) digests: Option<Digests>,
    /// Which UUIDs it hands out, if those are its keys.
    pub(super) uuids: Option<Uuids>,
    /// Whether takes need the general way: what is handed out is put on record first, or claimed.
    pub(super) special: AtomicBool,
    /// Keys not to hand out; empty where the space has that switched off.
    pub(super) blocklist: Arc<ArcSwap<Blocklist>>,
    pub(super) record: ArcSwap<SpaceRecord>,
    pub(super) tuning: watch::Sender<Tuning>,
    pub(super) progress: watch::Receiver<Progress>,
}

impl Space {
    /// From ordinal to key and back, as of now: a space may grow.
    #[inline]
    pub fn codec(&self) -> Guard<Arc<Generations>> {
        self.keys.codec()
    }

    /// The same, to be kept over a wait.
    pub(super) fn codec_now(&self) -> Arc<Generations> {
        Guard::into_inner(self.codec())
    }

    /// Where a key would belong if the space grew to its length.
    pub(super) fn located_later(&self, key: &str) -> Option<Located> {
        let definition = &self.record.load().definition;
        self.keys.located_later(definition, key)
    }

    /// The space as the store had it when last heard of.
    pub fn record(&self) -> Arc<SpaceRecord> {
        self.record.load_full()
    }

    /// What its refill has been doing.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Whether a key is one that must not be handed out.
    pub(super) fn blocks(&self, key: &[u8]) -> bool {
        self.blocklist.load().blocks(self.codec().shape().after_prefix(key))
    }
}

impl Service {
    /// The space of this name, asking the store when this instance has not met it yet: a
    /// space made through one instance can be taken from on every other at once.
    pub async fn space(&self, name: &str) -> Result<Arc<Space>, ServiceError> {
        if let Some(space) = self.known_space(name) {
            return Ok(space);
        }
        let record = self.inner.store.space(name).await?;
        self.open_space(record).await
    }

    /// The spaces this instance has met.
    pub fn known_spaces(&self) -> Vec<Arc<Space>> {
        self.inner.spaces.load().values().cloned().collect()
    }

    /// A space this instance has met, without asking the store.
    #[inline]
    pub fn known_space(&self, name: &str) -> Option<Arc<Space>> {
        self.inner.spaces.load().get(name).cloned()
    }

    /// Opens a space that the store has.
    pub(super) async fn open_space(&self, record: SpaceRecord) -> Result<Arc<Space>, ServiceError> {
        let _opening = self.inner.opening.lock().await;
        if let Some(space) = self.known_space(&record.name) {
            return Ok(space);
        }
        let space = Arc::new(self.build(record)?);
        let mut spaces: HashMap<_, _> = (**self.inner.spaces.load()).clone();
        spaces.insert(space.name.clone(), space.clone());
        self.inner.spaces.store(Arc::new(spaces));
        Ok(space)
    }

    /// Takes in what the store now says of a space.
    pub(super) fn update_space(&self, record: SpaceRecord) {
        if let Some(space) = self.known_space(&record.name)
            // What was read before a change of our own is not news.
            && record.mark.revision >= space.record.load().mark.revision
        {
            space.blocklist.store(self.blocklist_of(&record.tuning));
            space.tuning.send_if_modified(|tuning| {
                let changed = *tuning != record.tuning;
                tuning.clone_from(&record.tuning);
                changed
            });
            if let Err(error) = space.keys.follow(&record) {
                tracing::error!(space = record.name, "cannot follow its growth: {error}");
            }
            if record.sealed {
                // Wakes the refill, which gives back what was not drawn.
                space.mill.set_outlook(Outlook::Sealed);
                space.mill.low.notify_one();
            }
            space.special.store(is_special(&record), Ordering::Relaxed);
            space.record.store(Arc::new(record));
        }
    }

    fn build(&self, record: SpaceRecord) -> Result<Space, ServiceError> {
        let inner = &self.inner;
        let found = record.definition.fingerprint(&record.name, &inner.master);
        if found != record.fingerprint {
            return Err(ServiceError::WrongSecret {
                space: record.name,
                found: found.unwrap_or_default(),
                wanted: record.fingerprint.unwrap_or_default(),
            });
        }
        let keys = Arc::new(Keys::of(&record, &inner.master)?);
        let (waiting_max, wait_max) = (inner.limits.waiting_max, inner.limits.wait_max);
        let timeline = record.definition.timeline()?;
        let mill = Arc::new(match timeline {
            Some(timeline) => Mill::of_ids(timeline, waiting_max, wait_max),
            None => Mill::new(waiting_max, wait_max),
        });
        let tuning = watch::Sender::new(record.tuning.clone());
        let progress = watch::Sender::new(Progress::default());
        let pooled = record.definition.kind == Kind::Pooled;
        let ttl = tuning.subscribe();
        let ttl_of = Box::new(move || ttl.borrow().ttl());
        let space = Space {
            name: record.name.clone(),
            mill: mill.clone(),
            keys: keys.clone(),
            claims: pooled.then(Arc::default),
            digests: self.digests_of(&record)?,
            uuids: Uuids::of(&record.definition),
            ledger: self.ledger(&record.name, pooled, ttl_of),
            special: AtomicBool::new(is_special(&record)),
            blocklist: Arc::new(ArcSwap::new(self.blocklist_of(&record.tuning))),
            tuning,
            progress: progress.subscribe(),
            record: ArcSwap::from_pointee(record),
        };
        if let Some(timeline) = timeline {
            warn_of_the_end(&space.name, timeline);
        }
        let running = if timeline.is_some() {
            let keeper = Keeper {
                space: space.name.clone(),
                store: inner.store.clone(),
                floors: inner.floors.clone(),
                instance: inner.instance.clone(),
                mill: mill.clone(),
                number: inner.worker,
                clock: inner.clock.clone(),
                tuning: space.tuning.subscribe(),
                heartbeat: inner.heartbeat.subscribe(),
                stop: inner.stop.subscribe(),
                unsafe_store: inner.unsafe_store.is_some(),
                progress,
            };
            inner.runtime.spawn(keeper.run())
        } else {
            let refill = Refill {
                space: space.name.clone(),
                store: inner.store.clone(),
                floors: inner.floors.clone(),
                instance: inner.instance.clone(),
                mill: mill.clone(),
                keys,
                pool: self.pool_of(&space),
                tuning: space.tuning.subscribe(),
                heartbeat: inner.heartbeat.subscribe(),
                stop: inner.stop.subscribe(),
                unsafe_store: inner.unsafe_store.is_some(),
                progress,
            };
            inner.runtime.spawn(refill.run())
        };
        let name = space.name.clone();
        self.spawn(async move {
            if running.await.is_err() {
                tracing::error!(space = name, "the refill failed; start this instance again");
                let reason = "its refill failed; this instance must be started again";
                mill.set_outlook(Outlook::Away(reason.to_owned()));
            }
        });
        Ok(space)
    }

    fn blocklist_of(&self, tuning: &Tuning) -> Arc<Blocklist> {
        if tuning.blocklist { self.inner.blocklist.clone() } else { Arc::new(Blocklist::none()) }
    }
}

/// Whether takes of a space need more than its mill.
fn is_special(record: &SpaceRecord) -> bool {
    record.tuning.audit == Audit::Key
        || matches!(record.definition.kind, Kind::Pooled | Kind::Digest | Kind::Uuid)
}

/// Years before the bits of its time are used up, users can still move to another space.
fn warn_of_the_end(space: &str, timeline: Timeline) {
    if timeline.ends_soon(Timestamp::now()) {
        let runs_out_at = timeline.runs_out_at();
        tracing::warn!(space, %runs_out_at, "the bits of its time run out; plan for another keyspace");
    }
}
