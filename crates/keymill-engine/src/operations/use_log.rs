//! The use log: every key is on record, with its time and its caller, before it is handed out.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use arc_swap::ArcSwap;
use jiff::Timestamp;

use super::pools::text;
use super::source::Source;
use super::take::{FRUITLESS_MAX, yield_often};
use super::{Service, ServiceError, Space};
use crate::clock::Clock;
use crate::fence::Fence;
use crate::fence::group_commit::GroupCommit;
use crate::source::claimed_keys::{ClaimedAs, Lifetime};
use crate::source::drawn::Drawn;
use crate::source::numbers::Numbers;
use crate::source::outlook::NotReady;
use crate::store::{Claimed, KeyUse, LastUse, SpaceRecord, StoreError, Uses};

/// The most keys of one commit.
const KEYS_MAX: usize = 10_000;

/// Puts used keys of one space on record, many takes to a commit. The task that commits them starts with
/// the first take.
pub(super) struct UseRecorder {
    /// Tells when noted keys expire.
    clock: Clock,
    commits: Arc<UseCommit>,
    runtime: tokio::runtime::Handle,
    group: OnceLock<GroupCommit<Vec<KeyUse>, Vec<bool>>>,
}

impl UseRecorder {
    async fn note(&self, uses: Vec<KeyUse>) -> Result<Vec<bool>, StoreError> {
        let group = self.group.get_or_init(|| {
            let commits = self.commits.clone();
            let commit = move |asked| {
                let commits = commits.clone();
                async move { commits.write(asked).await }
            };
            GroupCommit::start(&self.runtime, KEYS_MAX, Vec::len, commit)
        });
        group.ask(uses).await
    }
}

impl std::fmt::Debug for UseRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UseRecorder({:?})", self.group.get())
    }
}

impl Service {
    /// What records used keys of a space, where the store can keep them.
    pub(super) fn recorder(
        &self,
        pooled: bool,
        record: &Arc<ArcSwap<SpaceRecord>>,
    ) -> Option<UseRecorder> {
        let inner = &self.inner;
        self.store().rows.as_ref().filter(|rows| rows.use_log.notes_keys())?;
        let commits = Arc::new(UseCommit {
            space: record.load().name.clone(),
            fence: inner.fence.clone(),
            pooled,
            record: record.clone(),
            last: Mutex::default(),
        });
        let (runtime, clock) = (inner.runtime.clone(), inner.clock.clone());
        Some(UseRecorder { clock, commits, runtime, group: OnceLock::new() })
    }
}

/// How many keys were handed out, and when the first of them expires.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given {
    pub(super) count: u32,
    pub(super) expires_at: Option<Timestamp>,
    /// The lifetime of the oldest of those that were claimed as used.
    oldest: Option<Lifetime>,
}

impl Given {
    /// Adds keys that expire then, where they do.
    fn add(&mut self, count: u32, expires_at: Option<Timestamp>) {
        self.count += count;
        if count > 0 {
            self.expires_at = [self.expires_at, expires_at].into_iter().flatten().min();
        }
    }
}

/// Keys that were drawn and are not on record yet, each with the number that was drawn.
#[derive(Default)]
struct Slip {
    uses: Vec<KeyUse>,
    numbers: Vec<u64>,
    /// Keys of a pool that are too old to be handed out.
    too_old: Vec<Claimed>,
}

impl Slip {
    fn len(&self) -> u32 {
        u32::try_from(self.uses.len()).unwrap_or(u32::MAX)
    }
}

impl Space {
    /// Takes keys of a space where a key may have to be on record before it leaves. All are drawn
    /// before one is noted, so that a take which is refused has put none on record.
    pub(super) async fn take_on_record(
        &self,
        numbers: Numbers<'_>,
        count: u32,
        caller: &str,
        mut each: impl FnMut(&[u8]) + Send,
    ) -> Result<Given, ServiceError> {
        let (mut given, mut noted) = (Given::default(), 0);
        let deadline = numbers.queue().deadline();
        // Keys of a pool that are on record already, as used by this instance.
        let mut free = Drawn::of(numbers);
        while given.count < count {
            let (mut slip, mut last, mut fruitless) = (Slip::default(), false, 0);
            // Until all is drawn, everything of this round comes back with `drawn`, and so by it alone.
            let (mut drawn, mut unnoted) = (Drawn::of(numbers), Vec::new());
            while given.count + slip.len() < count {
                let left = count - given.count - slip.len();
                match numbers.draw(left.into(), deadline).await {
                    Ok(ordinals) => {
                        drawn.add(ordinals.clone());
                        let old = slip.too_old.len();
                        let (tried, had) =
                            (ordinals.end - ordinals.start, given.count + slip.len());
                        self.gather(
                            ordinals,
                            caller,
                            &mut slip,
                            &mut unnoted,
                            &mut given,
                            &mut each,
                        );
                        if given.count + slip.len() > had {
                            fruitless = 0;
                            continue;
                        }
                        drawn.spend_last();
                        self.give_up(slip.too_old.split_off(old));
                        fruitless += tried;
                        self.check_fruitless(fruitless, FRUITLESS_MAX)?;
                        yield_often(fruitless, tried).await;
                    }
                    Err(why) => {
                        let ends = matches!(why, NotReady::Exhausted { .. } | NotReady::Sealed);
                        last = noted > 0 || (ends && given.count + slip.len() > 0);
                        if last {
                            break;
                        }
                        return Err(self.refusal(why));
                    }
                }
            }
            // From here on they may be on record: what is not, `note` puts back, and `free` the others.
            drawn.keep();
            self.give_up(std::mem::take(&mut slip.too_old));
            unnoted.into_iter().for_each(|number| free.add(number..number + 1));
            match self.note(slip, &mut each).await {
                Ok(more) => {
                    given.add(more.count, more.expires_at);
                    noted += more.count;
                }
                // Those on record are the caller's: fewer keys are better than lost ones.
                Err(_) if noted > 0 => last = true,
                Err(error) => return Err(error),
            }
            // Of the last keys, others may have been given all.
            if last && given.count > 0 {
                break;
            }
        }
        if let Source::Claimed { claimed, .. } = &self.source
            && !claimed.may_go(given.oldest)
            && noted == 0
        {
            // The first keys grew too old while the take waited for the others. All of them come back.
            let why = "keys of the pool grew too old while this request waited for more; try again";
            return Err(self.refusal(NotReady::Late(why.to_owned())));
        }
        free.keep();
        Ok(given)
    }

    /// Hands out the keys of what was drawn, those that have to be on record after they are, and
    /// counts them.
    pub(super) async fn hand_out(
        &self,
        drawn: Range<u64>,
        caller: &str,
        mut each: impl FnMut(&[u8]) + Send,
    ) -> Result<u32, ServiceError> {
        let (mut slip, mut given) = (Slip::default(), Given::default());
        self.gather(drawn, caller, &mut slip, &mut Vec::new(), &mut given, &mut each);
        Ok(given.count + self.note(slip, each).await?.count)
    }

    /// Turns what was drawn into keys: those that need not be noted are given to `each`, added to `given`, and
    /// their numbers to `unnoted`; the others are put on the slip, also those that are too old to be handed out.
    fn gather(
        &self,
        drawn: Range<u64>,
        caller: &str,
        slip: &mut Slip,
        unnoted: &mut Vec<u64>,
        given: &mut Given,
        mut each: impl FnMut(&[u8]),
    ) {
        let Slip { uses, numbers, too_old } = slip;
        let mut note = |number, id, key: &str| {
            uses.push(KeyUse { id, key: key.to_owned(), caller: caller.to_owned() });
            numbers.push(number);
        };
        match &self.source {
            Source::Claimed { claimed: keys, .. } => {
                keys.keys(drawn, |number, claimed, claimed_as| {
                    let Claimed { id, key } = claimed;
                    match claimed_as {
                        ClaimedAs::Reserved => note(number, *id, key),
                        ClaimedAs::Used(lifetime) if keys.may_go(lifetime) => {
                            each(key.as_bytes());
                            unnoted.push(number);
                            given.add(1, lifetime.map(|it| it.expires_at));
                            given.oldest = [given.oldest, lifetime].into_iter().flatten().min();
                        }
                        ClaimedAs::Used(_) => too_old.push(claimed.clone()),
                    }
                });
            }
            _ => self.with_rules(|rules| {
                rules.keys(drawn, |ordinal, key| note(ordinal, ordinal.cast_signed(), text(key)));
            }),
        }
    }

    /// Leaves keys of a pool to be given back, because they are too old to be handed out. Their numbers are spent.
    fn give_up(&self, too_old: Vec<Claimed>) {
        if let Source::Claimed { claimed, .. } = &self.source {
            claimed.add_too_old(too_old);
        }
    }

    /// Puts keys on record, hands out those that may go, and counts them. Keys that the store has
    /// refused come back to be drawn again; those whose record is in doubt are burned.
    async fn note(
        &self,
        slip: Slip,
        mut each: impl FnMut(&[u8]) + Send,
    ) -> Result<Given, ServiceError> {
        let mut given = Given::default();
        if slip.uses.is_empty() {
            return Ok(given);
        }
        let recorder = self.recorder.as_ref().ok_or_else(|| StoreError::no_keys(&self.name))?;
        let mut lost = false;
        for (index, uses) in slip.uses.chunks(KEYS_MAX).enumerate() {
            // Before it is noted, so that nobody has a key for longer than it is on record.
            let expires_at = self.record().tuning.expiry(recorder.clock.now_ms());
            let may_go = match recorder.note(uses.to_vec()).await {
                Ok(may_go) => may_go,
                Err(error) => {
                    let doubtful =
                        if matches!(error, StoreError::InDoubt(_)) { uses.len() } else { 0 };
                    let refused = &slip.numbers[index * KEYS_MAX + doubtful..];
                    // Backwards, so that they are drawn again in their order.
                    if let Some(numbers) = self.source.numbers() {
                        refused.iter().rev().for_each(|&it| numbers.put_back(it..it + 1));
                    }
                    // The first ones are on record.
                    if given.count > 0 {
                        break;
                    }
                    return Err(error.into());
                }
            };
            for (used, _) in uses.iter().zip(&may_go).filter(|(_, may_go)| **may_go) {
                each(used.key.as_bytes());
                given.add(1, expires_at);
            }
            lost |= may_go.contains(&false);
        }
        if let Source::Claimed { claimed, .. } = &self.source
            && lost
        {
            slip.numbers.iter().for_each(|&number| claimed.lose(&(number..number + 1)));
        }
        Ok(given)
    }
}

/// What a commit needs.
struct UseCommit {
    space: String,
    fence: Arc<Fence>,
    pooled: bool,
    /// With how long used keys live, as the settings say at present.
    record: Arc<ArcSwap<SpaceRecord>>,
    /// The last key that was noted.
    last: Mutex<Option<LastUse>>,
}

impl UseCommit {
    fn last(&self) -> MutexGuard<'_, Option<LastUse>> {
        self.last.lock().expect("nothing panics while it is held")
    }

    async fn write(&self, asked: Vec<Vec<KeyUse>>) -> Result<Vec<Vec<bool>>, StoreError> {
        let sizes: Vec<usize> = asked.iter().map(Vec::len).collect();
        let last = self.last().clone();
        let uses = Uses {
            space: self.space.clone(),
            instance: self.fence.instance().id.clone(),
            keys: asked.into_iter().flatten().collect(),
            pooled: self.pooled,
            ttl: self.record.load().tuning.ttl(),
            last,
        };
        let (noted, last) = self.fence.note(&uses).await?;
        if last.is_some() {
            *self.last() = last;
        }
        let mut may_go = noted.may_go.into_iter();
        Ok(sizes.into_iter().map(|size| may_go.by_ref().take(size).collect()).collect())
    }
}
