//! Windows: a worker has one holder at a time, and its windows never overlap.
//!
//! The clock is the store's on most stores, so a case never says what time it is: it compares with
//! the time that a window tells, and waits where one has to end.

mod moving;
mod races;
mod refusals;
mod tenancies;

pub(super) use moving::*;
pub(super) use races::*;
pub(super) use refusals::*;
pub(super) use tenancies::*;

use std::time::Duration;

use jiff::Timestamp;
use keymill_engine::clock::Clock;
use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    Evidence, Floor, HeldWindow, LeasePage, LeaseRecord, Mark, NewSpace, Pulse, Purpose,
    StoreError, Window, WindowAsk, WindowRelease,
};
use keymill_engine::space::{Definition, Kind, Timeline, Tuning};

use super::{Case, is_rolled_back, to};

/// A length in ticks that no case outlives.
const LONG: u64 = 60_000;

fn snowflake(layout: &str) -> Definition {
    Definition { layout: Some(layout.to_owned()), ..Definition::of_kind(Kind::Snowflake) }
}

/// A window as its holder tells of it.
fn held(window: &Window) -> HeldWindow {
    HeldWindow { worker: window.worker, lease: window.lease, end: window.ticks.end }
}

/// When a worker is free, of an answer that there is none.
#[track_caller]
fn free_at(answer: &Result<Window, StoreError>) -> Timestamp {
    match answer {
        Err(StoreError::NoWorker { free_at, .. }) => *free_at,
        _ => panic!("not for want of a worker: {answer:?}"),
    }
}

impl Case {
    async fn with_layout(&self, layout: &str) -> Timeline {
        self.with_definition(snowflake(layout)).await
    }

    async fn with_definition(&self, definition: Definition) -> Timeline {
        let timeline = definition.timeline().unwrap().unwrap();
        let new = NewSpace {
            name: self.space.clone(),
            definition,
            tuning: Tuning::default(),
            fingerprint: None,
            capacity: timeline.ticks(),
            start: 0,
        };
        self.store.spaces.create(&new, &self.unseen).await.unwrap();
        timeline
    }

    /// Another instance, on the same handle.
    fn someone_else(&self) -> Case {
        Case {
            url: self.url.clone(),
            store: self.store.clone(),
            unseen: self.unseen.clone(),
            instance: Instance::this_process(),
            space: self.space.clone(),
        }
    }

    fn window_ask(&self, timeline: Timeline, length: u64) -> WindowAsk {
        WindowAsk {
            space: self.space.clone(),
            instance: self.instance.clone(),
            timeline,
            held: None,
            worker: None,
            length,
            clock: Clock::default(),
            last_lease: None,
        }
    }

    /// What the store answers now.
    async fn window_as(&self, ask: &WindowAsk) -> Result<Window, StoreError> {
        self.window_above(&self.unseen, ask).await
    }

    async fn window_above(&self, floor: &Floor, ask: &WindowAsk) -> Result<Window, StoreError> {
        self.store.windows.window(ask, floor).await
    }

    async fn window(&self, timeline: Timeline, length: u64) -> Window {
        self.window_as(&self.window_ask(timeline, length)).await.unwrap()
    }

    async fn extend(
        &self,
        timeline: Timeline,
        held: HeldWindow,
        length: u64,
    ) -> Result<Window, StoreError> {
        let ask = WindowAsk { held: Some(held), ..self.window_ask(timeline, length) };
        self.window_as(&ask).await
    }

    /// What the store answers once a worker is free.
    async fn window_soon(&self, ask: &WindowAsk) -> Window {
        for _ in 0..4_000 {
            match self.window_as(ask).await {
                Ok(window) => return window,
                Err(StoreError::NoWorker { .. } | StoreError::Unavailable(_)) => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no worker was free in all that time");
    }

    fn window_release(
        &self,
        timeline: Timeline,
        window: &Window,
        unused_from: u64,
    ) -> WindowRelease {
        WindowRelease {
            space: self.space.clone(),
            instance: self.instance.id.clone(),
            timeline,
            held: held(window),
            unused_from,
        }
    }

    async fn release_window(
        &self,
        timeline: Timeline,
        window: &Window,
        unused_from: u64,
    ) -> Result<Mark, StoreError> {
        let release = self.window_release(timeline, window, unused_from);
        self.store.windows.release_window(&release, &self.unseen).await
    }

    /// The lease under which a tick of a worker is on record.
    async fn lease_at(&self, timeline: Timeline, worker: u32, tick: u64) -> Option<LeaseRecord> {
        let ordinal = timeline.ordinals(worker, tick..tick).start;
        self.store.leases.lease_of(&self.space, ordinal).await.unwrap()
    }
}
