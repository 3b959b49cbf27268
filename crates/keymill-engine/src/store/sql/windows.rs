//! Windows of workers in a transaction. The clock is the database's, or the caller's where it has none.

use super::driver::{Result, Step, Transaction};
use super::leases::has_lease;
use super::rows::worker_from;
use super::spaces::space_above;
use super::statements::{LEASE_EXTEND, LEASE_START, WORKER, WORKER_END, WORKER_PUT, WORKERS};
use super::steps::{closed, know, moved, recorded};
use super::value::values;
use crate::store::{
    Floor, HeldWindow, Mark, Purpose, SpaceRecord, Window, WindowAsk, WindowRelease, WorkerRecord,
};

pub(super) async fn window<T: Transaction>(
    tx: &mut T,
    ask: &WindowAsk,
    floor: &Floor,
) -> Result<Window> {
    let mut space = space_above(tx, &ask.space, floor).await?;
    if let Some(last) = ask.expected_lease(space.mark.revision)
        && !has_lease(tx, &ask.space, last, &ask.instance.id).await?
    {
        return Err(ask.lost_lease(last, floor));
    }
    let row = match ask.held {
        Some(held) => worker(tx, &ask.space, held.worker).await?,
        None => None,
    };
    // Not earlier: the wait for the row of the space may have been long.
    let now_ms = tx.clock_ms(&ask.clock).await?;
    match ask.extends(row.as_ref(), space.mark.revision) {
        Some(held) => extend(tx, &mut space, ask, held, now_ms, floor).await,
        None => lease(tx, &mut space, ask, now_ms).await,
    }
}

pub(super) async fn release_window<T: Transaction>(
    tx: &mut T,
    release: &WindowRelease,
    floor: &Floor,
) -> Result<Mark> {
    let WindowRelease { space: name, instance, timeline, held, .. } = release;
    let mut space = space_above(tx, name, floor).await?;
    let row = worker(tx, name, held.worker).await?;
    let lease = tx.query(&LEASE_START, &values![name, held.lease, instance], &[]).await?;
    let Some(lease) = lease.first().filter(|_| row.is_some_and(|row| held.is(&row))) else {
        return Ok(space.mark);
    };
    let ticks = release.rest(lease.get(0));
    let end = ticks.start;
    let rest = timeline.ordinals(held.worker, ticks);
    let Step { sql, values } = closed(name, held.lease, instance, Some(rest));
    if tx.execute(sql, &values, &[]).await? > 0 {
        space.release_window();
        let ended = Step::new(&WORKER_END, values![name, held.worker, end]);
        tx.run_all(&[ended, moved(&space)]).await?;
    }
    Ok(space.mark)
}

async fn extend<T: Transaction>(
    tx: &mut T,
    space: &mut SpaceRecord,
    ask: &WindowAsk,
    held: HeldWindow,
    now_ms: i64,
    floor: &Floor,
) -> Result<Window> {
    let window = space.extend_window(ask, held, now_ms)?;
    if window.ticks.is_empty() {
        return Ok(window);
    }
    let ordinals = ask.timeline.ordinals(window.worker, window.ticks.clone());
    let extended = values![&ask.space, window.lease, &ask.instance.id, ordinals.end];
    if tx.execute(&LEASE_EXTEND, &extended, &[]).await? != 1 {
        return Err(ask.lost_lease(window.lease, floor));
    }
    let ended = Step::new(&WORKER_END, values![&ask.space, window.worker, window.ticks.end]);
    tx.run_all(&[ended, moved(space)]).await?;
    Ok(window)
}

async fn lease<T: Transaction>(
    tx: &mut T,
    space: &mut SpaceRecord,
    ask: &WindowAsk,
    now_ms: i64,
) -> Result<Window> {
    let rows = tx.query(&WORKERS, &values![&ask.space], &[]).await?;
    let workers: Vec<WorkerRecord> = rows.iter().map(worker_from).collect();
    let window = space.lease_window(ask, &workers, now_ms)?;
    let instance = &ask.instance.id;
    let ordinals = ask.timeline.ordinals(window.worker, window.ticks.clone());
    let worker = values![&ask.space, window.worker, instance, window.lease, window.ticks.end];
    tx.run_all(&[
        know(&ask.instance),
        recorded(space, ordinals, Purpose::Window, instance),
        Step::new(&WORKER_PUT, worker),
        moved(space),
    ])
    .await?;
    Ok(window)
}

async fn worker<T: Transaction>(
    tx: &mut T,
    space: &str,
    worker: u32,
) -> Result<Option<WorkerRecord>> {
    Ok(tx.query(&WORKER, &values![space, worker], &[]).await?.first().map(worker_from))
}
