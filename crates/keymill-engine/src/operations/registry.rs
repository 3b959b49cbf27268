//! The spaces that this instance has open: found on first use, kept for good. One that was made here
//! and not yet used costs nothing here but the memory of how far it was seen.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use jiff::Timestamp;
use keymill_core::{Blocklist, Generations, Located};
use tokio::time::timeout;

use super::digests::Digests;
use super::input::check_space;
use super::use_log::Ledger;
use super::{Service, ServiceError};
use crate::source::claimed_keys::Claims;
use crate::source::leased::{Mill, Outlook};
use crate::source::uuids::Uuids;
use crate::space::codec::Keys;
use crate::space::secret::Master;
use crate::space::{Audit, Kind, Timeline, Tuning};
use crate::store::{SpaceRecord, is_later_era};
use crate::supply::leases::{Progress, Refill, SharedProgress};
use crate::supply::windows::Keeper;

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
    pub(super) record: Arc<ArcSwap<SpaceRecord>>,
    pub(super) progress: SharedProgress,
}

impl Space {
    /// From ordinal to key and back, as of now: a space may grow.
    #[inline]
    pub fn codec(&self) -> Guard<Arc<Generations>> {
        self.keys.codec()
    }

    /// The same, to be kept over a wait.
    pub(super) fn codec_now(&self) -> Arc<Generations> {
        self.keys.codec_now()
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

    /// The revision of that.
    pub(super) fn known_revision(&self) -> u64 {
        self.record.load().mark.revision
    }

    /// Whether its keys come from a pool that nobody fills.
    pub(super) fn is_empty_pool(&self) -> bool {
        self.claims.is_some() && self.record.load().tuning.low_water == 0
    }

    /// Whether nothing of it can be handed out without asking the store.
    pub(super) fn needs_store(&self) -> bool {
        self.digests.is_some() || self.record.load().tuning.audit == Audit::Key
    }

    /// What its refill has been doing.
    pub fn progress(&self) -> Progress {
        self.progress.get()
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
        check_space(name)?;
        let inner = &self.inner;
        // One at a time asks the store: a crowd that comes for a new space would overwhelm it.
        let meeting = timeout(inner.limits.wait_max, inner.spaces.meeting(name).lock()).await;
        let _meeting = meeting.map_err(|_| {
            ServiceError::StoreUnavailable(
                "too many requests wait for a keyspace to open".to_owned(),
            )
        })?;
        if let Some(space) = self.known_space(name) {
            return Ok(space);
        }
        self.open_space(inner.fence.meet(name).await?)
    }

    /// Refuses a space that the store does not have. Unlike [`Service::space`] it needs no secret.
    pub(super) async fn check_exists(&self, name: &str) -> Result<(), ServiceError> {
        check_space(name)?;
        if self.known_space(name).is_none() {
            self.store().spaces.space(name).await?;
        }
        Ok(())
    }

    /// The spaces this instance has met.
    pub fn known_spaces(&self) -> Vec<Arc<Space>> {
        self.inner.spaces.all()
    }

    /// A space this instance has met, without asking the store.
    #[inline]
    pub fn known_space(&self, name: &str) -> Option<Arc<Space>> {
        self.inner.spaces.shard(name).load().get(name).cloned()
    }

    /// Opens a space that the store has.
    pub(super) fn open_space(&self, record: SpaceRecord) -> Result<Arc<Space>, ServiceError> {
        let _opening = self.inner.spaces.opening.lock().expect("nothing panics while it is held");
        if let Some(space) = self.known_space(&record.name) {
            return Ok(space);
        }
        let space = Arc::new(self.build(record)?);
        let shard = self.inner.spaces.shard(&space.name);
        let mut spaces = HashMap::clone(&shard.load());
        spaces.insert(space.name.clone(), space.clone());
        shard.store(Arc::new(spaces));
        Ok(space)
    }

    /// Takes in what the store now says of a space.
    pub(super) fn update_space(&self, record: SpaceRecord) {
        if let Some(space) = self.known_space(&record.name)
            // What was read before a change of our own is not news.
            && record.mark.revision >= space.record.load().mark.revision
        {
            space.blocklist.store(self.blocklist_of(&record.tuning));
            if let Err(error) = space.keys.follow(&record.definition) {
                tracing::error!(
                    space = record.name,
                    "cannot apply the growth of the keyspace: {error}"
                );
            }
            if record.sealed {
                // The refill gives back what was not drawn.
                space.mill.set_outlook(Outlook::Sealed);
            }
            let advanced = is_later_era(record.mark.revision, space.record.load().mark.revision);
            space.special.store(is_special(&record), Ordering::Relaxed);
            let sealed = record.sealed;
            space.record.store(Arc::new(record));
            if sealed || advanced || space.keys.has_unread() {
                space.mill.wake();
            }
        }
    }

    fn build(&self, record: SpaceRecord) -> Result<Space, ServiceError> {
        let inner = &self.inner;
        self.check_secret(&record)?;
        let shared = Arc::new(ArcSwap::from_pointee(record));
        let record = shared.load();
        let master = self.master_of(&record)?;
        let keys = Arc::new(Keys::of(&record.name, &record.definition, &master)?);
        let (waiting_max, wait_max) = (inner.limits.waiting_max, inner.limits.wait_max);
        let timeline = record.definition.timeline()?;
        let mill = Arc::new(match timeline {
            Some(timeline) => Mill::of_ids(timeline, waiting_max, wait_max),
            None => Mill::new(waiting_max, wait_max),
        });
        let progress = SharedProgress::default();
        let pooled = record.definition.kind == Kind::Pooled;
        let space = Space {
            name: record.name.clone(),
            mill: mill.clone(),
            keys: keys.clone(),
            claims: pooled.then(Arc::default),
            digests: self.digests_of(&record)?,
            uuids: Uuids::of(&record.definition),
            ledger: self.ledger(pooled, &shared),
            special: AtomicBool::new(is_special(&record)),
            blocklist: Arc::new(ArcSwap::new(self.blocklist_of(&record.tuning))),
            progress: progress.clone(),
            record: shared.clone(),
        };
        if let Some(timeline) = timeline {
            warn_of_the_end(&space.name, timeline);
        }
        if timeline.is_some() {
            let keeper = Keeper {
                space: space.name.clone(),
                fence: inner.fence.clone(),
                mill: mill.clone(),
                number: inner.worker,
                clock: inner.clock.clone(),
                record: space.record.clone(),
                stop: inner.stop.subscribe(),
                unsafe_store: inner.unsafe_store.is_some(),
                progress,
            };
            self.spawn(watched(space.name.clone(), mill, keeper.run()));
        } else {
            let refill = Refill {
                space: space.name.clone(),
                fence: inner.fence.clone(),
                mill: mill.clone(),
                keys,
                pool: self.pool_of(&space),
                record: space.record.clone(),
                give_backs: inner.give_backs.clone(),
                take_max: self.limits().count_max.into(),
                stop: inner.stop.subscribe(),
                unsafe_store: inner.unsafe_store.is_some(),
                progress,
            };
            self.spawn(watched(space.name.clone(), mill, refill.run()));
        }
        Ok(space)
    }

    /// The secret to make a space's keys with. Keys that are made without one may have any.
    fn master_of(&self, record: &SpaceRecord) -> Result<Cow<'_, Master>, ServiceError> {
        if self.master().is_none() && record.fingerprint.is_none() {
            return Ok(Cow::Owned(Master::made_up(Master::random_text().to_string())));
        }
        self.master_for(&record.name).map(Cow::Borrowed)
    }

    /// Refuses a space that was made with another secret.
    pub(super) fn check_secret(&self, record: &SpaceRecord) -> Result<(), ServiceError> {
        let master = self.master_of(record)?;
        let found = record.definition.fingerprint(&record.name, &master);
        if found == record.fingerprint {
            return Ok(());
        }
        Err(ServiceError::WrongSecret {
            space: record.name.clone(),
            found: found.unwrap_or_default(),
            wanted: record.fingerprint.clone().unwrap_or_default(),
        })
    }

    pub(super) fn blocklist_of(&self, tuning: &Tuning) -> Arc<Blocklist> {
        if tuning.blocklist {
            self.inner.blocklist.load_full()
        } else {
            Arc::new(Blocklist::none())
        }
    }
}

/// The spaces that are open, by name. Read on every request; what is replaced when one is opened is a
/// small part of them, so that opening ten thousand takes ten thousand times as long as opening one.
#[derive(Debug)]
pub(super) struct Open {
    shards: Vec<ArcSwap<HashMap<String, Arc<Space>>>>,
    /// Held by who asks the store for a space of the shard.
    meetings: Vec<tokio::sync::Mutex<()>>,
    /// Held while a shard is replaced.
    opening: Mutex<()>,
}

impl Open {
    const SHARDS: usize = 256;

    #[inline]
    pub(super) fn shard(&self, name: &str) -> &ArcSwap<HashMap<String, Arc<Space>>> {
        &self.shards[Open::place(name)]
    }

    fn meeting(&self, name: &str) -> &tokio::sync::Mutex<()> {
        &self.meetings[Open::place(name)]
    }

    #[inline]
    fn place(name: &str) -> usize {
        let hash = name.bytes().fold(0_u8, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte));
        usize::from(hash)
    }

    fn all(&self) -> Vec<Arc<Space>> {
        self.shards
            .iter()
            .flat_map(|shard| shard.load().values().cloned().collect::<Vec<_>>())
            .collect()
    }
}

impl Default for Open {
    fn default() -> Open {
        let shards = (0..Open::SHARDS).map(|_| ArcSwap::default()).collect();
        let meetings = (0..Open::SHARDS).map(|_| tokio::sync::Mutex::default()).collect();
        Open { shards, meetings, opening: Mutex::default() }
    }
}

/// Runs what keeps a mill supplied, and says so where it panics: then callers are refused instead of
/// waiting for keys that never come.
async fn watched(space: String, mill: Arc<Mill>, running: impl Future<Output = ()>) {
    struct Alarm(String, Arc<Mill>);
    impl Drop for Alarm {
        fn drop(&mut self) {
            if std::thread::panicking() {
                tracing::error!(
                    space = self.0,
                    "the task that leases keys failed; restart this instance"
                );
                let reason = "the task that leases keys failed; restart this instance";
                self.1.set_outlook(Outlook::Away(reason.to_owned()));
            }
        }
    }
    let _alarm = Alarm(space, mill);
    running.await;
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
        tracing::warn!(space, %runs_out_at, "its timestamps end soon; plan for another keyspace");
    }
}
