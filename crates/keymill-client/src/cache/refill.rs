//! The refill: the task that keeps a cache filled.
//!
//! A take that reaches the mark, finds the cache empty, or draws the last key of a batch wakes it. It fetches one batch at
//! a time, from whichever server answers, and goes on trying while none does.
//!
//! # Invariants
//!
//! - One fetch at a time: only this task appends keys, and a cache has one.
//! - The age of a key counts from before it was asked for.
//! - Keys do not outlive what gave the right to them: a seal, and a token that is refused, drop them all.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep, timeout_at};

use super::batch::{Batch, Packed};
use super::builder::Settings;
use super::demand::Demand;
use super::{CacheStatus, Live};
use crate::answer::Taken;
use crate::backoff::Backoff;
use crate::definition::{Audit, Definition, Kind};
use crate::error::{Error, ErrorKind};
use crate::keyspace::{Keyspace, check_count};

/// How long after a refusal servers are asked again, if keys are wanted.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How many batches are held at most: a token that may take few keys at once fills the cache as it is used.
const BATCHES_MAX: usize = 64;
/// How long keys must last to have been enough.
const SUFFICED_AFTER: Duration = Duration::from_secs(1);
/// How long after a fetch was too large a larger one is tried again.
const LARGER_AFTER: Duration = Duration::from_secs(10);
/// The longest pause that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Where keys come from.
pub(super) trait Source: Send + Sync + 'static {
    /// Takes keys.
    fn take(&self, count: u32) -> impl Future<Output = Result<Taken<Packed>, Error>> + Send;

    /// The settings of the keyspace.
    fn definition(&self) -> impl Future<Output = Result<Definition, Error>> + Send;
}

/// The state of the task.
#[derive(Debug)]
pub(super) struct Refill<S> {
    live: Arc<Live>,
    source: S,
    settings: Settings,
    demand: Demand,
    backoff: Backoff,
    /// The batches that have keys.
    batches: Vec<Arc<Batch>>,
    /// How many keys were drawn from batches that have none any more.
    drawn_before: u64,
    /// How many had been drawn at the last fetch.
    drawn_at_fetch: u64,
    last_fetch: Option<Fetch>,
    /// The most that servers give at once, as far as is known.
    fetch_max: u64,
    /// When that was last changed.
    fetch_max_since: Instant,
    /// When the settings of the keyspace were last looked at.
    checked_at: Option<Instant>,
    is_wanted: bool,
}

/// A fetch that brought keys.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    count: u64,
    at: Instant,
}

impl Fetch {
    fn is_within(&self, time: Duration, now: Instant) -> bool {
        now - self.at < time
    }
}

impl<S: Source> Refill<S> {
    pub(super) fn new(live: Arc<Live>, source: S, settings: Settings) -> Refill<S> {
        Refill {
            batches: live.chain.batches(),
            live,
            source,
            demand: Demand::new(Instant::now()),
            backoff: Backoff::default(),
            drawn_before: 0,
            drawn_at_fetch: 0,
            last_fetch: None,
            fetch_max: settings.keys_max.into(),
            fetch_max_since: Instant::now(),
            settings,
            checked_at: None,
            is_wanted: false,
        }
    }

    /// Runs until it is aborted.
    pub(super) async fn run(mut self) {
        loop {
            let now = Instant::now();
            self.look(now);
            if self.is_wanted && self.is_short(now) {
                if let Err(error) = self.fill().await {
                    self.bear(error).await;
                }
                continue;
            }
            let was_short = self.is_short(now);
            self.set_marks(now);
            if !was_short && self.is_short(now) {
                // Draws have passed the mark while it was set.
                self.is_wanted = true;
                continue;
            }
            let woken = self.live.low.notified();
            self.is_wanted = match self.refresh_at(now) {
                None => {
                    woken.await;
                    true
                }
                // Keys that nobody used are not replaced when they expire.
                Some(at) => {
                    timeout_at(at, woken).await.is_ok() || self.drawn() > self.drawn_at_fetch
                }
            };
        }
    }

    /// Looks at what was drawn since the last time.
    fn look(&mut self, now: Instant) {
        let drawn_before = &mut self.drawn_before;
        self.batches.retain(|batch| {
            let has_keys = batch.left(now) > 0;
            if !has_keys {
                *drawn_before += batch.drawn();
            }
            has_keys
        });
        let drawn = self.drawn();
        self.demand.sample(drawn, now);
    }

    fn drawn(&self) -> u64 {
        self.drawn_before + self.batches.iter().map(|batch| batch.drawn()).sum::<u64>()
    }

    /// How many keys can be drawn, without those that expire soon.
    fn fresh(&self, now: Instant) -> u64 {
        self.batches.iter().map(|batch| batch.fresh(now)).sum()
    }

    /// Whether half of what is to be held is used, and more can be held.
    fn is_short(&self, now: Instant) -> bool {
        self.batches.len() < BATCHES_MAX
            && self.fresh(now) <= self.demand.target(&self.settings) / 2
    }

    /// When the next keys are to be replaced because they expire.
    fn refresh_at(&self, now: Instant) -> Option<Instant> {
        self.batches.iter().map(|batch| batch.fresh_until()).filter(|at| *at > now).min()
    }

    /// Has the draw wake this task that leaves half of what is to be held.
    fn set_marks(&self, now: Instant) {
        let mut spare = self.fresh(now).saturating_sub(self.demand.target(&self.settings) / 2);
        let mut is_set = false;
        for batch in &self.batches {
            let left = batch.left(now);
            if is_set || spare > left {
                batch.set_mark(None);
                spare = spare.saturating_sub(left);
            } else {
                // The draw that takes the last of them.
                batch.set_mark(Some(spare.saturating_sub(1)));
                is_set = true;
            }
        }
    }

    /// Fetches keys once.
    async fn fill(&mut self) -> Result<(), Error> {
        self.check().await?;
        let asked_at = Instant::now();
        let wanted = self.demand.target(&self.settings).saturating_sub(self.fresh(asked_at));
        let wanted = wanted.max(self.live.waiting.load(Ordering::Relaxed));
        if wanted > self.fetch_max && self.fetch_max_since.elapsed() >= LARGER_AFTER {
            // A limit may have been raised, and memory of the server be free again.
            self.set_fetch_max((self.fetch_max * 2).min(self.settings.keys_max.into()));
        }
        let count = wanted.clamp(1, self.fetch_max);
        let count = u32::try_from(count).expect("the most keys to hold are a u32");
        let taken = match self.source.take(count).await {
            Err(error) if is_too_much(&error) && count > 1 => {
                self.set_fetch_max(u64::from(count / 2));
                // Memory of the server may be free again in a moment; limits stay for longer.
                return if error.is_retryable() { Err(error) } else { Ok(()) };
            }
            taken => taken?,
        };
        check_count(taken.keys.count(), count)?;
        let now = Instant::now();
        let mut expires_at = asked_at + self.settings.max_age;
        if let Some(lifetime) = taken.lifetime(Timestamp::now()) {
            // By the clock of the server, it counts from the answer, which came later than the question.
            expires_at = expires_at.min(asked_at + lifetime);
        }
        if expires_at <= now {
            return Err(Error::bad_answer("the keys had expired when they arrived".to_owned()));
        }
        match self.last_fetch {
            Some(last)
                if self.live.chain.left(now) == 0
                    && last.is_within(self.settings.horizon / 2, now) =>
            {
                self.demand.ran_dry(last.count);
            }
            // Too soon to tell.
            Some(last) if last.is_within(SUFFICED_AFTER, now) => {}
            _ => self.demand.sufficed(),
        }
        self.last_fetch = Some(Fetch { count: count.into(), at: now });
        self.drawn_at_fetch = self.drawn();
        self.batches.push(self.live.chain.append(taken.keys, expires_at));
        self.backoff.reset();
        self.live.set_outlook(CacheStatus::On);
        Ok(())
    }

    fn set_fetch_max(&mut self, fetch_max: u64) {
        self.fetch_max = fetch_max;
        self.fetch_max_since = Instant::now();
    }

    /// Finds out whether keys of this keyspace may be cached. While they may not, it does not return.
    async fn check(&mut self) -> Result<(), Error> {
        let is_recent = |at: Instant| at.elapsed() < self.settings.max_age;
        if self.settings.any_keyspace || self.checked_at.is_some_and(is_recent) {
            return Ok(());
        }
        let mut is_off = false;
        loop {
            let reason = match self.source.definition().await {
                Ok(definition) => why_off(&definition),
                Err(error) if is_off && error.is_retryable() => {
                    self.wait_off().await;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Forbidden => Some(
                    "the token may not read the settings of the keyspace: it needs the right `read`"
                        .to_owned(),
                ),
                // Keys may be had while settings may not: they are in the memory of the servers.
                Err(error) if self.checked_at.is_some() && error.is_retryable() => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(reason) = reason else { break };
            self.drop_keys();
            self.live.set_outlook(CacheStatus::Off(reason));
            // That keys were cached once does not say that they may be.
            (is_off, self.checked_at) = (true, None);
            self.wait_off().await;
        }
        self.checked_at = Some(Instant::now());
        Ok(())
    }

    /// Waits until the settings are worth another look: they can change, and somebody takes keys.
    async fn wait_off(&self) {
        sleep(self.settings.max_age.max(ASK_AGAIN)).await;
        self.live.low.notified().await;
    }

    /// Deals with a failure, and waits until it makes sense to go on.
    async fn bear(&mut self, error: Error) {
        if error.is_retryable() || error.kind() == ErrorKind::Unavailable {
            let asked = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
            self.live.set_outlook(CacheStatus::Failing(error));
            sleep(self.backoff.next().max(asked)).await;
            return;
        }
        let ends_all = [ErrorKind::Sealed, ErrorKind::Unauthorized, ErrorKind::Forbidden]
            .contains(&error.kind());
        if ends_all {
            self.drop_keys();
        }
        self.live.set_outlook(CacheStatus::Refused(error));
        sleep(ASK_AGAIN).await;
        self.live.low.notified().await;
    }

    fn drop_keys(&mut self) {
        self.live.chain.clear();
        let dropped = std::mem::take(&mut self.batches);
        self.drawn_before += dropped.iter().map(|batch| batch.drawn()).sum::<u64>();
    }
}

impl<S> Drop for Refill<S> {
    fn drop(&mut self) {
        // Its runtime may have been shut down: the next take that finds no keys starts another one.
        self.live.is_running.store(false, Ordering::Release);
    }
}

/// Whether fewer keys at once may be given.
fn is_too_much(error: &Error) -> bool {
    matches!(error.code(), "bad_count" | "above_burst" | "too_many_large_answers")
}

/// Why keys of such a keyspace are not to be fetched ahead.
fn why_off(definition: &Definition) -> Option<String> {
    let reason = match (definition.kind, definition.audit) {
        (_, Some(Audit::Key)) => "it records every key when it is fetched, not when it is used",
        (Some(Kind::Pooled), _) => {
            "its keys come from a pool, and those fetched in vain would be lost"
        }
        (Some(Kind::Snowflake), _) => {
            "its keys are ordered by time, which fetching ahead would disturb"
        }
        _ => return None,
    };
    Some(format!("the keyspace is not cached by default: {reason}"))
}

impl Source for Keyspace {
    async fn take(&self, count: u32) -> Result<Taken<Packed>, Error> {
        self.take_as(count).await
    }

    async fn definition(&self) -> Result<Definition, Error> {
        Ok(self.show().await?.definition)
    }
}
