//! The keeper: leases a worker number for a mill, and extends its window ahead of time.
//!
//! One task a snowflake space, which does for IDs what `refill` does for ordinals.
//!
//! # Invariants
//!
//! - A window may be used only after the store has recorded it and the floor files know.
//! - One whose commit is in doubt is not used. The next request compares with what was certain, so
//!   the store gives another worker, and asks for a short window until one succeeds, so that a
//!   link that loses every answer occupies few workers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Worker;
use crate::clock::{Clock, ClockWatch};
use crate::floor::{Floors, floor_of, raise_to};
use crate::instance::Instance;
use crate::mill::{Mill, Outlook};
use crate::pace::{Pace, Retry};
use crate::refill::{Progress, stopped, tell};
use crate::space::{Timeline, Tuning};
use crate::store::{HeldWindow, Store, StoreError, Window, WindowAsk, WindowRelease};

/// How often a keeper with a window looks at the clock and at its rate.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The window that is asked for after a doubt.
const LENGTH_MIN: Duration = Duration::from_secs(1);

/// What a keeper works with.
#[derive(Debug)]
pub struct Keeper {
    /// The space it leases of.
    pub space: String,
    /// Where it leases.
    pub store: Arc<dyn Store>,
    /// What the space must have reached.
    pub floors: Arc<Floors>,
    /// For whom it leases.
    pub instance: Instance,
    /// What it keeps supplied.
    pub mill: Arc<Mill>,
    /// The worker number that the user has chosen.
    pub number: Option<u32>,
    /// The time of day, for stores that have no clock.
    pub clock: Clock,
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

impl Keeper {
    /// Runs until the instance stops or the space is ended, then frees the worker.
    pub async fn run(mut self) {
        let mill = self.mill.clone();
        let Some(worker) = mill.worker() else { return };
        let mut held: Option<HeldWindow> = None;
        let mut pace = Pace::new(Instant::now());
        let mut retry = Retry::default();
        let mut watch = ClockWatch::new(self.clock.clone());
        loop {
            let wake_at = self.wake_at(worker, held, &retry);
            let timed = retry.at.is_some() || held.is_some();
            let mut beat = false;
            tokio::select! {
                () = mill.low.notified() => {}
                () = sleep_until(wake_at), if timed => {}
                Ok(()) = self.heartbeat.changed() => beat = true,
                () = stopped(&mut self.stop) => break,
            }
            if *mill.outlook() == Outlook::Sealed {
                break;
            }
            if let Some(jump) = watch.jumped_us() {
                self.note_jump(jump);
            }
            pace.sample(mill.drawn(), Instant::now());
            self.progress.send_modify(|progress| progress.rate = pace.rate);
            if retry.at.is_some_and(|at| Instant::now() < at) {
                continue;
            }
            // Spent: a time that has passed would wake this loop at once, for ever.
            retry.at = None;
            if !self.wants_more(worker, held, &pace, beat) {
                continue;
            }
            match self.ask(worker, &mut held, retry.doubted).await {
                Ok(()) => {
                    retry = Retry::default();
                    mill.set_outlook(Outlook::Filling);
                }
                Err(error) => tell(&self.space, &mill, &self.progress, &error, &mut retry),
            }
        }
        self.release(worker, held).await;
    }

    /// When to look again: at the latest when the window is to be extended.
    fn wake_at(&self, worker: &Worker, held: Option<HeldWindow>, retry: &Retry) -> Instant {
        let soon = Instant::now() + LOOK_EVERY;
        let extend_in = held.zip(worker.tick_now()).map(|(held, now)| {
            let ticks = (held.end - now.min(held.end)).saturating_sub(self.rest(worker.timeline()));
            Duration::from_millis(ticks.saturating_mul(worker.timeline().layout.unit_ms.into()))
        });
        let wake = extend_in.map_or(soon, |wait| soon.min(Instant::now() + wait));
        // Not over and over while the store has nothing to add.
        retry.at.unwrap_or(wake.max(Instant::now() + LOOK_EVERY / 5))
    }

    /// How many ticks ahead a window reaches.
    fn length(&self, timeline: Timeline) -> u64 {
        ticks(self.tuning.borrow().window(), timeline)
    }

    /// With how many ticks left a window is extended.
    fn rest(&self, timeline: Timeline) -> u64 {
        (self.length(timeline) * 2 / 3).max(1)
    }

    /// Whether to ask the store now.
    fn wants_more(
        &self,
        worker: &Worker,
        held: Option<HeldWindow>,
        pace: &Pace,
        beat: bool,
    ) -> bool {
        match *self.mill.outlook() {
            // Until it answers: callers are refused by this outlook, so only success may end it.
            Outlook::Away(_) | Outlook::NoWorker { .. } => return true,
            Outlook::WentBack(_) | Outlook::Sealed | Outlook::Exhausted { .. } => return beat,
            Outlook::Filling | Outlook::PoolFilling => {}
        }
        match held.zip(worker.tick_now()) {
            Some((held, now)) => held.end < now + self.rest(worker.timeline()),
            // A mill that nobody has asked for anything leases nothing.
            None => self.mill.shortfall() > 0 || pace.has_started(),
        }
    }

    /// Has the window extended, or a worker leased, and lets the mill draw from it.
    async fn ask(
        &self,
        worker: &Worker,
        held: &mut Option<HeldWindow>,
        doubted: bool,
    ) -> Result<(), StoreError> {
        let timeline = worker.timeline();
        let length = if doubted { ticks(LENGTH_MIN, timeline) } else { self.length(timeline) };
        let ask = WindowAsk {
            space: self.space.clone(),
            instance: self.instance.clone(),
            timeline,
            held: *held,
            worker: self.number,
            length,
            now_ms: self.clock.now_ms(),
            floor: floor_of(&self.floors, &self.space).await?,
            last_lease: self.progress.borrow().last_lease,
        };
        let window = self.store.window(&ask).await?;
        check_window(&window, &ask);
        let end = window.ticks.end;
        let is_new = held.is_none_or(|held| held.lease != window.lease);
        // What is on record is certain from here on, whether or not it comes to be used.
        *held = Some(HeldWindow { worker: window.worker, lease: window.lease, end });
        if is_new {
            self.begin(worker, &window);
        } else if window.ticks.is_empty() {
            self.change_worker(worker, held, &window).await;
            return Ok(());
        }
        raise_to(&self.floors, &self.space, window.mark).await?;
        self.confirm(&ask, &window).await?;
        worker.extend(end, window.now_ms);
        Ok(())
    }

    fn begin(&self, worker: &Worker, window: &Window) {
        worker.begin(window.worker, window.ticks.start, window.now_ms);
        self.progress.send_modify(|progress| {
            progress.last_lease = Some(window.lease);
            progress.leases += 1;
        });
        let timeline = worker.timeline();
        let (from, until) =
            (timeline.time_of(window.ticks.start), timeline.time_of(window.ticks.end));
        let (space, lease, worker) = (&self.space, window.lease, window.worker);
        if self.unsafe_store {
            tracing::warn!(space, lease, "leased from an unsafe store");
        }
        tracing::info!(space, lease, worker, %from, %until, "leased a worker");
    }

    /// The clock that windows are measured by is behind that of this tenancy, so its window does
    /// not grow. Once it is about to end, the worker is left to rest until the clock has passed
    /// it, and another one leased.
    async fn change_worker(&self, worker: &Worker, held: &mut Option<HeldWindow>, window: &Window) {
        let timeline = worker.timeline();
        let rest = self.rest(timeline) / 2;
        let (Some(tenancy), Some(now)) = (*held, worker.tick_now()) else { return };
        if now + rest < tenancy.end {
            return;
        }
        let clock = timeline.time_of(timeline.tick_at(window.now_ms));
        let until = timeline.time_of(tenancy.end);
        tracing::warn!(
            space = self.space,
            worker = tenancy.worker,
            %clock, %until,
            "the clock was set back behind this window; leasing another worker"
        );
        self.release(worker, held.take()).await;
        self.mill.low.notify_one();
    }

    /// This process may have been paused between the commit and the floor, while the store was
    /// taken back and moved on; from here on, whoever moves it on knows.
    async fn confirm(&self, ask: &WindowAsk, window: &Window) -> Result<(), StoreError> {
        let last = window.ticks.end.saturating_sub(1);
        let ordinal = ask.timeline.ordinals(window.worker, last..last).start;
        let found = self.store.lease_of(&self.space, ordinal).await?;
        if found.is_some_and(|it| it.lease == window.lease && it.holder.id == self.instance.id) {
            return Ok(());
        }
        let lost = format!("lease {} of `{}` is not on record any more", window.lease, self.space);
        Err(StoreError::went_back(&self.space, window.mark, lost))
    }

    /// Frees the worker from where nothing was drawn. Where that fails it rests until its window
    /// has passed.
    async fn release(&self, worker: &Worker, held: Option<HeldWindow>) {
        let unused_from = worker.seal();
        let (Some(held), Some(unused_from)) = (held, unused_from) else { return };
        let unused_from = unused_from.min(held.end);
        let released = async {
            let floor = floor_of(&self.floors, &self.space).await?;
            let release = WindowRelease {
                space: self.space.clone(),
                instance: self.instance.id.clone(),
                timeline: worker.timeline(),
                held,
                unused_from,
                floor,
            };
            let mark = self.store.release_window(&release).await?;
            raise_to(&self.floors, &self.space, mark).await
        };
        let (space, worker) = (&self.space, held.worker);
        match released.await {
            Ok(()) => tracing::info!(space, worker, "released the worker"),
            Err(error) => tracing::warn!(space, worker, "could not release the worker: {error}"),
        }
    }

    fn note_jump(&self, jump_us: i64) {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let seconds = jump_us as f64 / 1e6;
        tracing::warn!(
            space = self.space,
            seconds,
            "the clock of this host was set; IDs go on in their order"
        );
        self.progress.send_modify(|progress| progress.clock_jumps += 1);
    }
}

fn ticks(time: Duration, timeline: Timeline) -> u64 {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    (ms / u64::from(timeline.layout.unit_ms)).max(2)
}

/// The second half of the pair: what the store returned is what was asked for.
fn check_window(window: &Window, ask: &WindowAsk) {
    let limit = ask.timeline.tick_at(window.now_ms).saturating_add(ask.length);
    let end = window.ticks.end;
    assert!(u64::from(window.worker) < ask.timeline.workers(), "no such worker: {window:?}");
    match ask.held.filter(|held| held.lease == window.lease) {
        Some(held) => {
            assert_eq!(held.worker, window.worker, "another worker under one lease: {window:?}");
            assert_eq!(held.end, window.ticks.start, "a window that does not go on: {window:?}");
            assert!(end == held.end || end <= limit, "beyond the clock: {window:?}, {ask:?}");
        }
        None => assert!(window.ticks.start < end && end <= limit, "not asked for: {window:?}"),
    }
    assert!(end <= ask.timeline.ticks() && end <= window.mark.next, "out of range: {window:?}");
}
