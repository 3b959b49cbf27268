//! Windows of workers in a PostgreSQL transaction. The clock is the server's.

use super::rows::worker_from;
use super::transaction::Tx;
use crate::store::values::{signed, unsigned};
use crate::store::{
    Floor, HeldWindow, Mark, Purpose, SpaceRecord, StoreError, Window, WindowAsk, WindowRelease,
    WorkerRecord,
};

pub(super) const CLOCK: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
const WORKER: &str = "SELECT worker, lease, ends FROM workers WHERE space = $1 AND worker = $2";
const WORKERS: &str = "SELECT worker, lease, ends FROM workers WHERE space = $1";
const WORKER_PUT: &str = "INSERT INTO workers (space, worker, instance, lease, ends)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (space, worker) DO UPDATE SET
    instance = excluded.instance, lease = excluded.lease, ends = excluded.ends";
const WORKER_END: &str = "UPDATE workers SET ends = $3 WHERE space = $1 AND worker = $2";
const LEASE_EXTEND: &str = "UPDATE leases SET end_ordinal = $4
    WHERE space = $1 AND lease = $2 AND instance = $3 AND closed_at IS NULL";
const LEASE_START: &str =
    "SELECT start_ordinal FROM leases WHERE space = $1 AND lease = $2 AND instance = $3";

impl Tx {
    pub(super) async fn window(
        &self,
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
        let now_ms = self.query(CLOCK, &[]).await?[0].get(0);
        match ask.extends(row.as_ref(), space.mark.revision) {
            Some(held) => self.extend_window(&mut space, ask, held, now_ms, floor).await,
            None => self.lease_window(&mut space, ask, now_ms).await,
        }
    }

    pub(super) async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let WindowRelease { space: name, instance, timeline, held, .. } = release;
        let mut space = self.space_above(name, floor).await?;
        let row = self.worker(name, held.worker).await?;
        let lease = self.query(LEASE_START, &[name, &signed(held.lease), instance]).await?;
        let Some(lease) = lease.first().filter(|_| row.is_some_and(|row| held.is(&row))) else {
            return Ok(space.mark);
        };
        let ticks = release.rest(unsigned(lease.get(0)));
        let end = ticks.start;
        let rest = timeline.ordinals(held.worker, ticks);
        let (rest_start, rest_end) = (Some(signed(rest.start)), Some(signed(rest.end)));
        if self.close(name, held.lease, instance, rest_start, rest_end).await? {
            let worker = i64::from(held.worker);
            self.execute(WORKER_END, &[name, &worker, &signed(end)]).await?;
            space.release_window();
            self.move_to(&space).await?;
        }
        Ok(space.mark)
    }

    async fn extend_window(
        &self,
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
        let (lease, end) = (signed(window.lease), signed(ordinals.end));
        let extended =
            self.execute(LEASE_EXTEND, &[&ask.space, &lease, &ask.instance.id, &end]).await?;
        if extended != 1 {
            return Err(ask.lost_lease(window.lease, floor));
        }
        let (worker, end) = (i64::from(window.worker), signed(window.ticks.end));
        self.execute(WORKER_END, &[&ask.space, &worker, &end]).await?;
        self.move_to(space).await?;
        Ok(window)
    }

    async fn lease_window(
        &self,
        space: &mut SpaceRecord,
        ask: &WindowAsk,
        now_ms: i64,
    ) -> Result<Window, StoreError> {
        let rows = self.query(WORKERS, &[&ask.space]).await?;
        let workers: Vec<WorkerRecord> = rows.iter().map(worker_from).collect();
        let window = space.lease_window(ask, &workers, now_ms)?;
        let instance = &ask.instance.id;
        let ordinals = ask.timeline.ordinals(window.worker, window.ticks.clone());
        self.know(&ask.instance).await?;
        self.record_lease(space, ordinals, Purpose::Window, instance).await?;
        let worker = i64::from(window.worker);
        let (lease, end) = (signed(window.lease), signed(window.ticks.end));
        self.execute(WORKER_PUT, &[&ask.space, &worker, instance, &lease, &end]).await?;
        self.move_to(space).await?;
        Ok(window)
    }

    async fn worker(&self, space: &str, worker: u32) -> Result<Option<WorkerRecord>, StoreError> {
        let rows = self.query(WORKER, &[&space, &i64::from(worker)]).await?;
        Ok(rows.first().map(worker_from))
    }
}
