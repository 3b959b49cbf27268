//! Windows of workers in a MySQL transaction. The clock is the server's.

use mysql_async::params;

use super::rows::{column, worker_from};
use super::transaction::Tx;
use crate::store::values::{signed, unsigned};
use crate::store::{
    Floor, HeldWindow, Mark, Purpose, SpaceRecord, StoreError, Window, WindowAsk, WindowRelease,
    WorkerRecord,
};

/// By UTC: the time zone of the session may have an hour that comes twice.
pub(super) const CLOCK: &str =
    "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000";
const WORKER: &str =
    "SELECT worker, lease, ends FROM workers WHERE space = :space AND worker = :worker";
const WORKERS: &str = "SELECT worker, lease, ends FROM workers WHERE space = :space";
const WORKER_PUT: &str = "INSERT INTO workers (space, worker, instance, lease, ends)
    VALUES (:space, :worker, :instance, :lease, :end) ON DUPLICATE KEY UPDATE
    instance = VALUES(instance), lease = VALUES(lease), ends = VALUES(ends)";
const WORKER_END: &str = "UPDATE workers SET ends = :end WHERE space = :space AND worker = :worker";
const LEASE_EXTEND: &str = "UPDATE leases SET end_ordinal = :end
    WHERE space = :space AND lease = :lease AND instance = :instance AND closed_at IS NULL";
const LEASE_START: &str = "SELECT start_ordinal FROM leases
    WHERE space = :space AND lease = :lease AND instance = :instance";

impl Tx {
    pub(super) async fn window(
        &mut self,
        ask: &WindowAsk,
        floor: &Floor,
    ) -> Result<Window, StoreError> {
        let mut space = self.space_above(&ask.space, floor).await?;
        if let Some(last) = ask.expected_lease(space.mark.revision)
            && !self.has_lease(&ask.space, last, &ask.instance.id).await?
        {
            return Err(ask.lost_lease(last, floor));
        }
        let row = match ask.held {
            Some(held) => self.worker(&ask.space, held.worker).await?,
            None => None,
        };
        // Not earlier: the wait for the row of the space may have been long.
        let now_ms = column(&self.query(CLOCK, ()).await?[0], 0);
        match ask.extends(row.as_ref(), space.mark.revision) {
            Some(held) => self.extend_window(&mut space, ask, held, now_ms, floor).await,
            None => self.lease_window(&mut space, ask, now_ms).await,
        }
    }

    pub(super) async fn release_window(
        &mut self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let WindowRelease { space: name, instance, timeline, held, .. } = release;
        let mut space = self.space_above(name, floor).await?;
        let row = self.worker(name, held.worker).await?;
        let params = params! { "space" => name, "lease" => signed(held.lease), instance };
        let lease = self.query(LEASE_START, params).await?;
        let Some(lease) = lease.first().filter(|_| row.is_some_and(|row| held.is(&row))) else {
            return Ok(space.mark);
        };
        let ticks = release.rest(unsigned(column(lease, 0)));
        let end = ticks.start;
        let rest = timeline.ordinals(held.worker, ticks);
        let (rest_start, rest_end) = (Some(signed(rest.start)), Some(signed(rest.end)));
        if self.close(name, held.lease, instance, rest_start, rest_end).await? {
            self.end_worker(name, held.worker, end).await?;
            space.release_window();
            self.move_to(&space).await?;
        }
        Ok(space.mark)
    }

    async fn extend_window(
        &mut self,
        space: &mut SpaceRecord,
        ask: &WindowAsk,
        held: HeldWindow,
        now_ms: i64,
        floor: &Floor,
    ) -> Result<Window, StoreError> {
        let window = space.extend_window(ask, held, now_ms)?;
        if window.ticks.is_empty() {
            return Ok(window);
        }
        let ordinals = ask.timeline.ordinals(window.worker, window.ticks.clone());
        let params = params! {
            "space" => &ask.space,
            "lease" => signed(window.lease),
            "instance" => &ask.instance.id,
            "end" => signed(ordinals.end),
        };
        if self.execute(LEASE_EXTEND, params).await? != 1 {
            return Err(ask.lost_lease(window.lease, floor));
        }
        self.end_worker(&ask.space, window.worker, window.ticks.end).await?;
        self.move_to(space).await?;
        Ok(window)
    }

    async fn lease_window(
        &mut self,
        space: &mut SpaceRecord,
        ask: &WindowAsk,
        now_ms: i64,
    ) -> Result<Window, StoreError> {
        let rows = self.query(WORKERS, params! { "space" => &ask.space }).await?;
        let workers: Vec<WorkerRecord> = rows.iter().map(worker_from).collect();
        let window = space.lease_window(ask, &workers, now_ms)?;
        let instance = &ask.instance.id;
        let ordinals = ask.timeline.ordinals(window.worker, window.ticks.clone());
        self.know(&ask.instance).await?;
        self.record_lease(space, ordinals, Purpose::Window, instance).await?;
        let params = params! {
            "space" => &ask.space,
            "worker" => window.worker,
            instance,
            "lease" => signed(window.lease),
            "end" => signed(window.ticks.end),
        };
        self.execute(WORKER_PUT, params).await?;
        self.move_to(space).await?;
        Ok(window)
    }

    async fn worker(
        &mut self,
        space: &str,
        worker: u32,
    ) -> Result<Option<WorkerRecord>, StoreError> {
        let rows = self.query(WORKER, params! { space, worker }).await?;
        Ok(rows.first().map(worker_from))
    }

    /// Writes down the first tick of a worker that nobody may have used.
    async fn end_worker(&mut self, space: &str, worker: u32, end: u64) -> Result<(), StoreError> {
        let params = params! { space, worker, "end" => signed(end) };
        self.execute(WORKER_END, params).await.map(drop)
    }
}
