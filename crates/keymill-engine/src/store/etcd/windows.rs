//! Windows in etcd.
//!
//! A change reads the space first, then the rows of workers that it needs, and commits on condition
//! that the space has not changed. No row changes without its space, so nobody else can have got
//! the same worker meanwhile, though the rows are read a few at a time.

use std::ops::Range;
use std::time::Instant;

use async_trait::async_trait;
use etcd_client::{GetOptions, SortOrder, SortTarget, TxnOp};
use serde::{Deserialize, Serialize};

use super::change::{Draft, Wanted};
use super::retry::Retries;
use super::{EtcdStore, clock};
use crate::store::values::from_json;
use crate::store::{
    Floor, LeaseId, Mark, Purpose, StoreError, Window, WindowAsk, WindowRelease, Windows,
    WorkerRecord,
};

/// How many rows one request asks for: a layout has up to 65,536 workers.
const ROWS_MAX: usize = 5_000;

/// The row of a worker, as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerDoc {
    pub(super) lease: LeaseId,
    pub(super) end: u64,
    pub(super) instance: String,
}

#[async_trait]
impl Windows for EtcdStore {
    async fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        self.window_for(ask, floor).await
    }

    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        Ok(self.clock(own_ms).await)
    }

    async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        self.free_worker(release, floor).await
    }
}

impl EtcdStore {
    /// Extends the window that is held, or leases a worker anew.
    async fn window_for(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        let leases: Vec<LeaseId> = ask.last_lease.into_iter().chain(held_lease(ask)).collect();
        let space = &ask.space;
        let mut clock = None;
        let mut retries = Retries::new();
        loop {
            let wanted = Wanted { space, leases: &leases, names: &[] };
            let mut draft = Draft::read(&self.members, &self.paths, wanted).await?;
            // Asked once, because others go on meanwhile, and of the member that has just answered.
            let (now_ms, at) = match clock {
                Some(asked) => asked,
                None => (self.clock(ask.clock.now_ms()).await, Instant::now()),
            };
            clock = Some((now_ms, at));
            let passed = i64::try_from(at.elapsed().as_millis()).unwrap_or_default();
            let now_ms = now_ms.saturating_add(passed);
            let window = self.draft_window(&mut draft, ask, floor, now_ms).await?;
            if draft.commit(&self.members).await? {
                return Ok(window);
            }
            retries.another().await?;
        }
    }

    /// The clock that windows are granted by, of a caller whose own says this.
    async fn clock(&self, own_ms: i64) -> i64 {
        clock::now(self.members.plain_address(), own_ms).await
    }

    /// Frees a worker, where its row says what its holder knows.
    async fn free_worker(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let (space, leases) = (&release.space, [release.held.lease]);
        let mut retries = Retries::new();
        loop {
            let wanted = Wanted { space, leases: &leases, names: &[] };
            let mut draft = Draft::read(&self.members, &self.paths, wanted).await?;
            let mark = self.draft_release(&mut draft, release, floor).await?;
            if draft.commit(&self.members).await? {
                return Ok(mark);
            }
            retries.another().await?;
        }
    }

    async fn draft_window(
        &self,
        draft: &mut Draft<'_>,
        ask: &WindowAsk,
        floor: &Floor,
        now_ms: i64,
    ) -> Result<Window, StoreError> {
        let mut space = draft.space_above(floor)?;
        let (revision, instance) = (space.mark.revision, &ask.instance.id);
        if let Some(last) = ask.expected_lease(revision)
            && !draft.is_on_record(last, instance)
        {
            return Err(ask.lost_lease(last, floor));
        }
        let known = match ask.held {
            Some(held) => self.worker_rows(&ask.space, Some(held.worker)).await?,
            None => Vec::new(),
        };
        let held = ask.extends(known.first(), revision);
        let window = match held.filter(|held| draft.open_start(held.lease, instance).is_some()) {
            Some(held) => {
                let window = space.extend_window(ask, held, now_ms)?;
                if window.ticks.is_empty() {
                    return Ok(window);
                }
                let ordinals = ask.timeline.ordinals(held.worker, window.ticks.clone());
                draft.extend(held.lease, instance, ordinals.end);
                window
            }
            None => {
                let rows = self.worker_rows(&ask.space, ask.worker).await?;
                let window = space.lease_window(ask, &rows, now_ms)?;
                let ordinals = ask.timeline.ordinals(window.worker, window.ticks.clone());
                draft.record_lease(&space, ordinals, Purpose::Window, &ask.instance);
                window
            }
        };
        let (lease, end) = (window.lease, window.ticks.end);
        let doc = WorkerDoc { lease, end, instance: instance.clone() };
        draft.put(self.paths.worker(&ask.space, window.worker.into()), &doc);
        draft.move_to(&space);
        Ok(window)
    }

    async fn draft_release(
        &self,
        draft: &mut Draft<'_>,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let WindowRelease { instance, timeline, held, .. } = release;
        let mut space = draft.space_above(floor)?;
        let known = self.worker_rows(&release.space, Some(held.worker)).await?;
        let start = draft.open_start(held.lease, instance);
        let Some(start) = start.filter(|_| known.first().is_some_and(|row| held.is(row))) else {
            return Ok(space.mark);
        };
        let ticks = release.rest(start);
        let end = ticks.start;
        let rest = timeline.ordinals(held.worker, ticks);
        if draft.close(held.lease, instance, Some(&rest)) {
            let doc = WorkerDoc { lease: held.lease, end, instance: instance.clone() };
            draft.put(self.paths.worker(&release.space, held.worker.into()), &doc);
            space.release_window();
            draft.move_to(&space);
        }
        Ok(space.mark)
    }

    /// The rows of one worker, or of all that were ever leased, by their numbers.
    async fn worker_rows(
        &self,
        space: &str,
        worker: Option<u32>,
    ) -> Result<Vec<WorkerRecord>, StoreError> {
        let all = 0..u64::MAX;
        let Range { start: mut from, end } =
            worker.map_or(all, |worker| u64::from(worker)..u64::from(worker) + 1);
        let mut rows = Vec::new();
        loop {
            let options = GetOptions::new()
                .with_range(self.paths.worker(space, end))
                .with_sort(SortTarget::Key, SortOrder::Ascend)
                .with_limit(ROWS_MAX as i64);
            let get = TxnOp::get(self.paths.worker(space, from), Some(options));
            let found = self.members.read(vec![get]).await?;
            let before = rows.len();
            for (key, value) in found.pairs(0) {
                rows.push(worker_from(key, value)?);
            }
            match rows.last() {
                Some(last) if rows.len() - before == ROWS_MAX => from = u64::from(last.worker) + 1,
                _ => return Ok(rows),
            }
        }
    }
}

/// The lease of the tenancy that is held, where it is not the last one anyway.
fn held_lease(ask: &WindowAsk) -> Option<LeaseId> {
    ask.held.map(|held| held.lease).filter(|lease| ask.last_lease != Some(*lease))
}

/// A row that cannot be read must not pass for a worker that is free.
fn worker_from(key: &str, value: &str) -> Result<WorkerRecord, StoreError> {
    let number = key.rsplit('/').next().and_then(|number| number.parse().ok());
    let broken = || StoreError::Broken(format!("etcd holds {key:?}, not the key of a worker"));
    let worker = number.ok_or_else(broken)?;
    let WorkerDoc { lease, end, .. } = from_json(value)?;
    Ok(WorkerRecord { worker, lease, end })
}
