//! Windows of workers in a SQLite transaction. The clock is the caller's: SQLite has none. It is read
//! here, because the wait for the file may have been long.

use rusqlite::{OptionalExtension, params};

use super::rows::worker_from;
use super::statements::LEASE_CLOSE;
use super::transaction::Tx;
use crate::store::values::{now, signed, unsigned};
use crate::store::{
    Floor, HeldWindow, Mark, Purpose, SpaceRecord, StoreError, Window, WindowAsk, WindowRelease,
    WorkerRecord,
};

const WORKER: &str = "SELECT worker, lease, ends FROM workers WHERE space = ?1 AND worker = ?2";
const WORKERS: &str = "SELECT worker, lease, ends FROM workers WHERE space = ?1";
const WORKER_PUT: &str = "INSERT INTO workers (space, worker, instance, lease, ends)
    VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (space, worker) DO UPDATE SET
    instance = excluded.instance, lease = excluded.lease, ends = excluded.ends";
const WORKER_END: &str = "UPDATE workers SET ends = ?3 WHERE space = ?1 AND worker = ?2";
const LEASE_EXTEND: &str = "UPDATE leases SET end_ordinal = ?4
    WHERE space = ?1 AND lease = ?2 AND instance = ?3 AND closed_at IS NULL";
const LEASE_START: &str =
    "SELECT start_ordinal FROM leases WHERE space = ?1 AND lease = ?2 AND instance = ?3";

impl Tx<'_> {
    pub(super) fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        let mut space = self.space_above(&ask.space, floor)?;
        if let Some(last) = ask.expected_lease(space.mark.revision)
            && !self.has_lease(&ask.space, last, &ask.instance.id)?
        {
            return Err(ask.lost_lease(last, floor));
        }
        let row = match ask.held {
            Some(held) => self.worker(&ask.space, held.worker)?,
            None => None,
        };
        match ask.extends(row.as_ref(), space.mark.revision) {
            Some(held) => self.extend_window(&mut space, ask, held, floor),
            None => self.lease_window(&mut space, ask),
        }
    }

    pub(super) fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let WindowRelease { space: name, instance, timeline, held, .. } = release;
        let mut space = self.space_above(name, floor)?;
        let row = self.worker(name, held.worker)?;
        let lease = signed(held.lease);
        let start = self.query(|connection| {
            let mut start = connection.prepare_cached(LEASE_START)?;
            start.query_row(params![name, lease, instance], |row| row.get(0)).optional()
        })?;
        let Some(start) = start.filter(|_| row.is_some_and(|row| held.is(&row))) else {
            return Ok(space.mark);
        };
        let ticks = release.rest(unsigned(start));
        let end = ticks.start;
        let rest = timeline.ordinals(held.worker, ticks);
        let (rest_start, rest_end) = (signed(rest.start), signed(rest.end));
        let close = params![name, lease, instance, rest_start, now(), rest_end];
        if self.execute(LEASE_CLOSE, close)? > 0 {
            self.execute(WORKER_END, params![name, held.worker, signed(end)])?;
            space.release_window();
            self.move_to(&space)?;
        }
        Ok(space.mark)
    }

    fn extend_window(
        &self,
        space: &mut SpaceRecord,
        ask: &WindowAsk,
        held: HeldWindow,
        floor: &Floor,
    ) -> Result<Window, StoreError> {
        let window = space.extend_window(ask, held, ask.clock.now_ms())?;
        if window.ticks.is_empty() {
            return Ok(window);
        }
        let ordinals = ask.timeline.ordinals(window.worker, window.ticks.clone());
        let end = signed(ordinals.end);
        let extend = params![ask.space, signed(window.lease), ask.instance.id, end];
        if self.execute(LEASE_EXTEND, extend)? != 1 {
            return Err(ask.lost_lease(window.lease, floor));
        }
        self.execute(WORKER_END, params![ask.space, window.worker, signed(window.ticks.end)])?;
        self.move_to(space)?;
        Ok(window)
    }

    fn lease_window(&self, space: &mut SpaceRecord, ask: &WindowAsk) -> Result<Window, StoreError> {
        let workers: Vec<WorkerRecord> = self.query(|connection| {
            connection.prepare_cached(WORKERS)?.query_map([&ask.space], worker_from)?.collect()
        })?;
        let window = space.lease_window(ask, &workers, ask.clock.now_ms())?;
        let instance = &ask.instance.id;
        let ordinals = ask.timeline.ordinals(window.worker, window.ticks.clone());
        self.know(&ask.instance)?;
        self.record_lease(space, ordinals, Purpose::Window, instance)?;
        let (lease, end) = (signed(window.lease), signed(window.ticks.end));
        self.execute(WORKER_PUT, params![ask.space, window.worker, instance, lease, end])?;
        self.move_to(space)?;
        Ok(window)
    }

    fn worker(&self, space: &str, worker: u32) -> Result<Option<WorkerRecord>, StoreError> {
        self.query(|connection| {
            let mut found = connection.prepare_cached(WORKER)?;
            found.query_row(params![space, worker], worker_from).optional()
        })
    }
}
