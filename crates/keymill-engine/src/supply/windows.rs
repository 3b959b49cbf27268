//! The keeper: leases a worker number for ticks, and extends its window ahead of time.
//!
//! One task a snowflake space, which does for IDs what `leases` does for ordinals.
//!
//! # Invariants
//!
//! - A window may be used only after the fence has made sure of it. Until then the one before is drawn
//!   from, to its end.
//! - One whose commit is in doubt is not used: the next request compares with what was certain, so
//!   where that commit was made after all, the store gives another worker. Until a request
//!   succeeds, windows asked for are short, so that a link that loses every answer occupies few
//!   workers.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::Instant;

use super::demand::Pace;
use super::progress::SharedProgress;
use super::refusal::tell;
use super::retry::Retry;
use super::stop::stopped;
use crate::clock::{Clock, ClockWatch};
use crate::fence::{Fence, WindowOnRecord};
use crate::source::numbers::Numbers;
use crate::source::outlook::Outlook;
use crate::source::ticks::{Ticks, Worker};
use crate::space::Timeline;
use crate::store::{HeldWindow, SpaceRecord, StoreError, Window, WindowAsk, WindowRelease};

/// How often a keeper with a window looks at the clock and at its rate.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How soon the store is asked again after it has answered, whoever waits.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// What is asked for after a doubt.
const LENGTH_MIN: Duration = Duration::from_secs(1);

/// What a keeper works with.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// The space it leases of.
    pub(crate) space: String,
    /// Through which it leases.
    pub(crate) fence: Arc<Fence>,
    /// What it keeps supplied.
    pub(crate) ticks: Arc<Ticks>,
    /// The worker number that the user has chosen.
    pub(crate) number: Option<u32>,
    /// The time: of day for stores that have no clock, and the one that only runs for itself.
    pub(crate) clock: Clock,
    /// The space as the store had it when last heard of, with its changeable settings.
    pub(crate) record: Arc<ArcSwap<SpaceRecord>>,
    /// Becomes true when the instance stops.
    pub(crate) stop: watch::Receiver<bool>,
    /// Whether the store was allowed although it is not safe: then every lease says so.
    pub(crate) unsafe_store: bool,
    /// The last lease, for the heartbeat to look after; and the rate, for people.
    pub(crate) progress: SharedProgress,
}

/// A tenancy, as it is on record.
#[derive(Debug, Clone, Copy)]
struct HeldTenancy {
    window: HeldWindow,
    start: u64,
    /// Whether IDs are drawn from it: only once the fence is sure of it.
    in_use: bool,
}

impl Keeper {
    /// Runs until the instance stops or the space is ended, then frees the worker.
    pub(crate) async fn run(mut self) {
        let ticks = self.ticks.clone();
        let (worker, queue, source) = (ticks.worker(), &ticks.queue, Numbers::Ticks(&ticks));
        let mut held: Option<HeldTenancy> = None;
        let mut pace = Pace::new(self.now());
        let mut retry = Retry::default();
        let mut watch = ClockWatch::new(self.clock.clone());
        let mut ask_from = self.now();
        // A host that was asleep has a clock that stood still.
        let mut slept = false;
        // How many answers since a doubt have added nothing.
        let mut empty = 0;
        loop {
            let wake_at = self.wake_at(worker, held, &retry).max(ask_from);
            let timed = retry.at.is_some() || held.is_some();
            tokio::select! {
                () = queue.supply_is_wanted() => {}
                () = self.clock.sleep_until(wake_at), if timed => {}
                () = stopped(&mut self.stop) => break,
            }
            let beat = queue.beat_has_passed();
            if *queue.outlook() == Outlook::Sealed {
                break;
            }
            if let Some(jump) = watch.jumped_us() {
                self.note_jump(jump);
                slept |= jump > 0 && held.is_some();
            }
            pace.sample(worker.drawn(), self.now());
            self.progress.change(|progress| progress.rate = pace.rate);
            if retry.at.is_some_and(|at| self.now() < at) {
                continue;
            }
            // Spent: a time that has passed would wake this loop at once, for ever.
            retry.at = None;
            if !slept && !self.wants_more(worker, held, &pace, beat) {
                continue;
            }
            if self.now() < ask_from {
                // Whoever waits is served by then, or by the next look.
                retry.at = Some(ask_from);
                continue;
            }
            let length = self.length_to_ask(worker, held, retry.doubted.then_some(empty));
            let answer = Box::pin(self.ask(worker, &mut held, length)).await;
            let mut pause = ASK_EVERY;
            match answer {
                Ok(added) => {
                    // An answer that added nothing proves no link.
                    let doubted = retry.doubted && !added;
                    retry = Retry::default();
                    retry.doubted = doubted;
                    empty = if doubted { empty + 1 } else { 0 };
                    slept = false;
                    if !added {
                        pause = LOOK_EVERY;
                    }
                    queue.set_outlook(Outlook::Filling);
                }
                Err(error) => {
                    tell(&self.space, source, &self.progress, &error, self.now(), &mut retry);
                }
            }
            ask_from = self.now() + pause;
        }
        let unused_from = worker.stop();
        if let Some(held) = held {
            // One that was never drawn from is free from its start on.
            let unused_from = if held.in_use { unused_from } else { Some(held.start) };
            self.release(worker.timeline(), held.window, unused_from).await;
        }
    }

    /// When to look again: at the latest when the window is to be extended.
    fn wake_at(&self, worker: &Worker, held: Option<HeldTenancy>, retry: &Retry) -> Instant {
        let soon = self.now() + LOOK_EVERY;
        if !matches!(*self.ticks.queue.outlook(), Outlook::Filling) {
            return retry.at.unwrap_or(soon);
        }
        let timeline = worker.timeline();
        let extend_in = held.zip(worker.tick_now()).map(|(held, now)| {
            let ticks = held.window.end.saturating_sub(now + self.rest(timeline));
            Duration::from_millis(ticks.saturating_mul(timeline.layout.unit_ms.into()))
        });
        let wake = extend_in.map_or(soon, |wait| soon.min(self.now() + wait));
        retry.at.unwrap_or(wake)
    }

    /// How many ticks ahead a window reaches.
    fn length(&self, timeline: Timeline) -> u64 {
        timeline.ticks_in(self.record.load().tuning.window())
    }

    /// How many ticks to ask for; after a doubt few more than there are, and more with every answer
    /// that added nothing.
    fn length_to_ask(
        &self,
        worker: &Worker,
        held: Option<HeldTenancy>,
        doubted: Option<u32>,
    ) -> u64 {
        let (timeline, length) = (worker.timeline(), self.length(worker.timeline()));
        let Some(empty) = doubted else { return length };
        let rest = held.zip(worker.tick_now());
        let rest = rest.map_or(0, |(held, now)| held.window.end.saturating_sub(now));
        length.min(rest + timeline.ticks_in(LENGTH_MIN * 2_u32.pow(empty.min(10))))
    }

    /// With how many ticks left a window is extended.
    fn rest(&self, timeline: Timeline) -> u64 {
        (self.length(timeline) * 2 / 3).max(1)
    }

    /// Whether to ask the store now.
    fn wants_more(
        &self,
        worker: &Worker,
        held: Option<HeldTenancy>,
        pace: &Pace,
        beat: bool,
    ) -> bool {
        match *self.ticks.queue.outlook() {
            // Until it answers: callers are refused by this outlook, so only success may end it.
            Outlook::Unreachable(_) | Outlook::NoWorker(_) => return true,
            Outlook::RolledBack(_) | Outlook::Sealed | Outlook::Exhausted { .. } => return beat,
            Outlook::Filling | Outlook::PoolFilling => {}
        }
        match held {
            Some(HeldTenancy { window, in_use: true, .. }) => {
                let now = worker.tick_now().unwrap_or(window.end);
                window.end <= now + self.rest(worker.timeline())
            }
            Some(_) => true,
            // A source that nobody has asked for anything leases nothing.
            None => self.ticks.queue.shortfall() > 0 || pace.has_started(),
        }
    }

    /// Has the window extended, or a worker leased, and lets IDs be drawn from it; whether the
    /// store has added anything.
    async fn ask(
        &self,
        worker: &Worker,
        held: &mut Option<HeldTenancy>,
        length: u64,
    ) -> Result<bool, StoreError> {
        // Not later: the store read its clock after this.
        let before = held.filter(|held| held.in_use).zip(worker.tick_now());
        // One that is over by its own clock is not extended: where the store's clock was set back,
        // that would never end.
        let is_over = before.is_some_and(|(held, now)| now >= held.window.end);
        let mut known = if is_over { None } else { *held };
        let answer = self.window(worker.timeline(), length, &mut known).await?;
        *held = known;
        let (window, _) = self.settle(worker, held, answer)?;
        if let Some((before, now)) = before
            && before.window.lease == window.lease
        {
            self.mind_the_clock(worker, held, &window, now, length).await?;
        }
        Ok(!window.ticks.is_empty())
    }

    /// Asks the store, and keeps what is on record from then on, whether or not it is used.
    async fn window(
        &self,
        timeline: Timeline,
        length: u64,
        held: &mut Option<HeldTenancy>,
    ) -> Result<WindowOnRecord, StoreError> {
        let ask = WindowAsk {
            space: self.space.clone(),
            instance: self.fence.instance().clone(),
            timeline,
            held: held.map(|held| held.window),
            worker: self.number,
            length,
            clock: self.clock.clone(),
            last_lease: self.progress.get().last_lease,
        };
        let answer = self.fence.window(&ask).await?;
        let window = &answer.window;
        let on_record =
            HeldWindow { worker: window.worker, lease: window.lease, end: window.ticks.end };
        match held {
            Some(held) if held.window.lease == window.lease => held.window = on_record,
            _ => {
                let start = window.ticks.start;
                *held = Some(HeldTenancy { window: on_record, start, in_use: false });
                self.tell_of(timeline, window);
            }
        }
        Ok(answer)
    }

    /// Lets IDs be drawn from a window that is on record, if it is sure. Returns it, and from where on a
    /// tenancy that ends with that has drawn nothing.
    fn settle(
        &self,
        worker: &Worker,
        held: &mut Option<HeldTenancy>,
        WindowOnRecord { window, at, sure }: WindowOnRecord,
    ) -> Result<(Window, Option<u64>), StoreError> {
        sure?;
        let Some(held) = held else { return Ok((window, None)) };
        // This process may have been paused meanwhile.
        let passed = i64::try_from((self.now() - at).as_millis()).unwrap_or_default();
        let now_ms = window.now_ms.saturating_add(passed);
        if held.in_use {
            worker.extend(held.window.end, now_ms);
            return Ok((window, None));
        }
        held.in_use = true;
        let HeldWindow { worker: number, end, .. } = held.window;
        Ok((window, worker.begin(number, held.start..end, now_ms)))
    }

    fn tell_of(&self, timeline: Timeline, window: &Window) {
        self.progress.change(|progress| {
            progress.last_lease = Some(window.lease);
            progress.leases += 1;
        });
        let (from, until) =
            (timeline.time_of(window.ticks.start), timeline.time_of(window.ticks.end));
        let (space, lease, worker) = (&self.space, window.lease, window.worker);
        if self.unsafe_store {
            tracing::warn!(space, lease, "leased from an unsafe store");
        }
        tracing::info!(space, lease, worker, %from, %until, "leased a worker");
    }

    /// Where the clock that windows are measured by has fallen behind that of this tenancy, `now`, by
    /// much, another worker is leased, if there is one. The one before rests until the clock has passed
    /// it.
    async fn mind_the_clock(
        &self,
        worker: &Worker,
        held: &mut Option<HeldTenancy>,
        window: &Window,
        now: u64,
        length: u64,
    ) -> Result<(), StoreError> {
        let (timeline, Some(old)) = (worker.timeline(), *held) else { return Ok(()) };
        let clock = timeline.tick_at(window.now_ms);
        if now.saturating_sub(clock) <= (self.length(timeline) / 3).max(1) {
            return Ok(());
        }
        let mut fresh = None;
        let answer = match self.window(timeline, length, &mut fresh).await {
            // The one that is held goes on until its end.
            Err(StoreError::NoWorker { .. }) => return Ok(()),
            answer => answer?,
        };
        *held = fresh;
        let (clock, ids) = (timeline.time_of(clock), timeline.time_of(now));
        tracing::warn!(
            space = self.space, worker = old.window.worker, %clock, %ids,
            "the clock was set back to before this worker's last ID; using another worker"
        );
        let (_, unused_from) = self.settle(worker, held, answer)?;
        self.release(timeline, old.window, unused_from).await;
        Ok(())
    }

    /// Frees a worker from where nothing was drawn. Where that fails it rests until its window has
    /// passed.
    async fn release(&self, timeline: Timeline, held: HeldWindow, unused_from: Option<u64>) {
        let Some(unused_from) = unused_from else { return };
        let release = WindowRelease {
            space: self.space.clone(),
            instance: self.fence.instance().id.clone(),
            timeline,
            held,
            unused_from: unused_from.min(held.end),
        };
        let (space, worker) = (&self.space, held.worker);
        match self.fence.release_window(&release).await {
            Ok(()) => tracing::info!(space, worker, "released the worker"),
            Err(error) => tracing::warn!(space, worker, "could not release the worker: {error}"),
        }
    }

    fn now(&self) -> Instant {
        self.clock.monotonic()
    }

    fn note_jump(&self, jump_us: i64) {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let seconds = jump_us as f64 / 1e6;
        tracing::warn!(
            space = self.space,
            seconds,
            "the clock of this host was changed; IDs continue in order"
        );
        self.progress.change(|progress| progress.clock_jumps += 1);
    }
}
