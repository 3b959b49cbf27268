//! The spaces that this instance has open: found on first use, kept for good. One that was made here
//! and not yet used costs nothing here but the memory of how far it was seen.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use jiff::Timestamp;
use keymill_core::{Blocklist, Generations, Located};
use tokio::time::timeout;

use super::input::check_space;
use super::source::Source;
use super::usage::{SpaceUsage, Usage};
use super::use_log::UseRecorder;
use super::{Service, ServiceError};
use crate::source::numbers::Numbers;
use crate::source::outlook::Outlook;
use crate::space::codec::SpaceCodec;
use crate::space::rules::Rules;
use crate::space::secret::Master;
use crate::space::{Audit, Timeline, Tuning};
use crate::store::{SpaceRecord, is_later_era};
use crate::supply::leases::LeaseSupply;
use crate::supply::progress::{Progress, SharedProgress};
use crate::supply::windows::Keeper;

/// A space that this instance can take from.
#[derive(Debug)]
pub struct Space {
    /// Its name, as the store has it.
    pub name: String,
    /// What its keys are made of.
    pub(super) source: Source,
    /// How ordinals are written as keys, and which of them are left out.
    pub(super) codec: Arc<SpaceCodec>,
    /// Where single keys are put on record, in a store that can.
    pub(super) recorder: Option<UseRecorder>,
    /// Whether every key is put on record before it is handed out, as the settings say at present.
    pub(super) records_each_key: AtomicBool,
    /// Keys not to hand out; empty where the space has that switched off.
    pub(super) blocklist: Arc<ArcSwap<Blocklist>>,
    pub(super) record: Arc<ArcSwap<SpaceRecord>>,
    pub(super) progress: SharedProgress,
    /// How it was used since the start.
    pub(super) usage: Usage,
    /// How many spaces this instance had opened before it.
    pub(super) number: usize,
}

impl Space {
    /// From ordinal to key and back, as of now: a space may grow.
    #[inline]
    pub fn generations(&self) -> Guard<Arc<Generations>> {
        self.codec.generations()
    }

    /// The same, to be kept over a wait.
    pub(super) fn generations_now(&self) -> Arc<Generations> {
        self.codec.generations_now()
    }

    /// Where a key would belong if the space grew to its length.
    pub(super) fn located_later(&self, key: &str) -> Option<Located> {
        let definition = &self.record.load().definition;
        self.codec.located_later(definition, key)
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
        matches!(self.source, Source::Claimed { .. }) && self.record.load().tuning.low_water == 0
    }

    /// Whether nothing of it can be handed out without asking the store.
    pub(super) fn needs_store(&self) -> bool {
        matches!(self.source, Source::Digests(_)) || self.records_each_key()
    }

    /// Whether every key is put on record before it is handed out.
    #[inline]
    pub(super) fn records_each_key(&self) -> bool {
        self.records_each_key.load(Ordering::Relaxed)
    }

    /// How many keys are in memory, ready to be taken.
    pub fn at_hand(&self) -> u64 {
        self.source.numbers().map_or(0, Numbers::left)
    }

    /// How it was used since the start of this instance.
    pub fn usage(&self) -> SpaceUsage {
        self.usage.get()
    }

    /// What its supply task has been doing.
    pub fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// Which ordinals become which keys, as of now: asked for after a draw, it knows what was drawn.
    #[inline]
    pub(super) fn with_rules<T>(&self, then: impl FnOnce(Rules<'_>) -> T) -> T {
        self.codec.with_rules(&self.blocklist, then)
    }

    /// Whether a key is one that must not be handed out.
    pub(super) fn blocks(&self, key: &[u8]) -> bool {
        self.with_rules(|rules| rules.blocks(key))
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
            if let Err(error) = space.codec.follow(&record.definition) {
                tracing::error!(
                    space = record.name,
                    "cannot apply the growth of the keyspace: {error}"
                );
            }
            let queue = space.source.queue();
            if let Some(queue) = queue.filter(|_| record.sealed) {
                // The supply task gives back what was not drawn.
                queue.set_outlook(Outlook::Sealed);
            }
            let advanced = is_later_era(record.mark.revision, space.record.load().mark.revision);
            space.records_each_key.store(record.tuning.audit == Audit::Key, Ordering::Relaxed);
            let sealed = record.sealed;
            space.record.store(Arc::new(record));
            if let Some(queue) = queue
                && (sealed || advanced || space.codec.has_unread())
            {
                queue.beat_anyway();
            }
        }
    }

    fn build(&self, record: SpaceRecord) -> Result<Space, ServiceError> {
        self.check_secret(&record)?;
        let shared = Arc::new(ArcSwap::from_pointee(record));
        let record = shared.load();
        let master = self.master_of(&record)?;
        let codec = Arc::new(SpaceCodec::of(&record.name, &record.definition, &master)?);
        let source = self.source_of(&record)?;
        let pooled = matches!(source, Source::Claimed { .. });
        let space = Space {
            name: record.name.clone(),
            source,
            codec,
            recorder: self.recorder(pooled, &shared),
            records_each_key: AtomicBool::new(record.tuning.audit == Audit::Key),
            blocklist: Arc::new(ArcSwap::new(self.blocklist_of(&record.tuning))),
            progress: SharedProgress::default(),
            record: shared.clone(),
            usage: Usage::default(),
            number: self.inner.spaces.opened.fetch_add(1, Ordering::Relaxed),
        };
        self.start_supply(&space);
        Ok(space)
    }

    /// Starts the task that keeps the source of a space filled, if it is one that runs dry.
    fn start_supply(&self, space: &Space) {
        let inner = &self.inner;
        match &space.source {
            Source::Ticks(ticks) => {
                warn_of_the_end(&space.name, ticks.worker().timeline());
                let keeper = Keeper {
                    space: space.name.clone(),
                    fence: inner.fence.clone(),
                    ticks: ticks.clone(),
                    number: inner.worker,
                    clock: inner.clock.clone(),
                    record: space.record.clone(),
                    stop: inner.stop.subscribe(),
                    unsafe_store: inner.unsafe_store.is_some(),
                    progress: space.progress.clone(),
                };
                let ticks = ticks.clone();
                let alarm =
                    Alarm::new(&space.name, move |outlook| ticks.queue.set_outlook(outlook));
                self.spawn(watched(alarm, keeper.run()));
            }
            Source::Leased(mill) | Source::Claimed { mill, .. } => {
                let supply = LeaseSupply {
                    space: space.name.clone(),
                    fence: inner.fence.clone(),
                    mill: mill.clone(),
                    codec: space.codec.clone(),
                    pool: self.pool_of(space),
                    record: space.record.clone(),
                    give_backs: inner.give_backs.clone(),
                    take_max: self.limits().count_max.into(),
                    stop: inner.stop.subscribe(),
                    unsafe_store: inner.unsafe_store.is_some(),
                    progress: space.progress.clone(),
                };
                let mill = mill.clone();
                let alarm = Alarm::new(&space.name, move |outlook| mill.queue.set_outlook(outlook));
                self.spawn(watched(alarm, supply.run()));
            }
            Source::Uuids(_) | Source::Digests(_) => {}
        }
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
pub(super) struct OpenSpaces {
    shards: Vec<ArcSwap<HashMap<String, Arc<Space>>>>,
    /// Held by who asks the store for a space of the shard.
    meetings: Vec<tokio::sync::Mutex<()>>,
    /// Held while a shard is replaced.
    opening: Mutex<()>,
    /// How many were opened so far.
    opened: AtomicUsize,
}

impl OpenSpaces {
    const SHARDS: usize = 256;

    #[inline]
    pub(super) fn shard(&self, name: &str) -> &ArcSwap<HashMap<String, Arc<Space>>> {
        &self.shards[OpenSpaces::index(name)]
    }

    fn meeting(&self, name: &str) -> &tokio::sync::Mutex<()> {
        &self.meetings[OpenSpaces::index(name)]
    }

    #[inline]
    fn index(name: &str) -> usize {
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

impl Default for OpenSpaces {
    fn default() -> OpenSpaces {
        let shards = (0..OpenSpaces::SHARDS).map(|_| ArcSwap::default()).collect();
        let meetings = (0..OpenSpaces::SHARDS).map(|_| tokio::sync::Mutex::default()).collect();
        OpenSpaces { shards, meetings, opening: Mutex::default(), opened: AtomicUsize::new(0) }
    }
}

/// Runs what keeps a source filled, and says so where it panics: then callers are refused instead of
/// waiting for keys that never come.
async fn watched(_alarm: Alarm<impl Fn(Outlook)>, running: impl Future<Output = ()>) {
    running.await;
}

/// Raised where the task that holds it panics.
struct Alarm<F: Fn(Outlook)> {
    space: String,
    set_outlook: F,
}

impl<F: Fn(Outlook)> Alarm<F> {
    fn new(space: &str, set_outlook: F) -> Alarm<F> {
        Alarm { space: space.to_owned(), set_outlook }
    }
}

impl<F: Fn(Outlook)> Drop for Alarm<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "the task that leases keys failed; restart this instance";
            tracing::error!(space = self.space, "{reason}");
            (self.set_outlook)(Outlook::Unreachable(reason.to_owned()));
        }
    }
}

/// Years before its timestamps end, users can still move to another keyspace.
fn warn_of_the_end(space: &str, timeline: Timeline) {
    if timeline.ends_soon(Timestamp::now()) {
        let runs_out_at = timeline.runs_out_at();
        tracing::warn!(space, %runs_out_at, "its timestamps end soon; plan for another keyspace");
    }
}
