//! Windows in Redis.
//!
//! A script cannot count ticks: its numbers are doubles. What to write is therefore decided here, on
//! what one script has seen of the space, its workers and the server's clock, and written by
//! another if the space is still at the revision that was seen.
//!
//! The rows of the workers are the fields of one hash, by their numbers: lease, end and instance.

use std::time::Duration;

use async_trait::async_trait;
use deadpool::managed::Object;

use super::rows::{self, mark_from};
use super::server::Server;
use super::{RedisStore, expect_lease, guard, over};
use crate::store::values::{json, random_number};
use crate::store::{
    Floor, LeaseId, Mark, SpaceRecord, StoreError, Window, WindowAsk, WindowRelease, Windows,
    WorkerRecord,
};

/// How often a window is tried while others change the space.
const TRIES: u32 = 100;
/// How long to wait before another try, at most.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// What a window is decided on.
#[derive(Debug)]
struct Basis {
    space: SpaceRecord,
    /// By the server's clock.
    now_ms: i64,
    /// Whether the tenancy that is held is on record as the instance's, and not closed.
    is_open: bool,
    rows: Vec<WorkerRecord>,
}

#[async_trait]
impl Windows for RedisStore {
    async fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        over!(self, |connection| self.window_over(&connection, ask, floor))
    }

    async fn clock_ms(&self, _own_ms: i64) -> Result<i64, StoreError> {
        let connection = self.connection().await?;
        let (seconds, micros): (i64, i64) = connection.ask(&redis::cmd("TIME")).await?;
        Ok(seconds * 1_000 + micros / 1_000)
    }

    async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        over!(self, |connection| self.free_worker(&connection, release, floor))
    }
}

impl RedisStore {
    /// Extends the window that is held, or leases a worker anew.
    async fn window_over(
        &self,
        connection: &Object<Server>,
        ask: &WindowAsk,
        floor: &Floor,
    ) -> Result<Window, StoreError> {
        for _ in 0..TRIES {
            if let Some(window) = self.try_window(connection, ask, floor).await? {
                return Ok(window);
            }
            // Another was faster; so that both are not again at the same moment.
            let parts = u32::try_from(random_number() % 1_000).unwrap_or_default();
            tokio::time::sleep(PAUSE_MAX * parts / 1_000).await;
        }
        let space = &ask.space;
        Err(StoreError::Unavailable(format!(
            "gave up because of conflicting changes to the workers of `{space}`"
        )))
    }

    /// Frees a worker, where its row says what its holder knows.
    async fn free_worker(
        &self,
        connection: &Object<Server>,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        let history = connection.history();
        let WindowRelease { space, instance, timeline, held, unused_from } = release;
        assert!(*unused_from <= held.end, "{held:?} was used up to {unused_from}");
        let first = timeline.ordinals(held.worker, 0..0).start;
        let rest = timeline.ordinals(held.worker, *unused_from..held.end);
        let mut script = self.scripts.release_window.key(self.paths.space(space));
        guard(&mut script, floor, history);
        script.arg(instance).arg(held.worker).arg(row(held.lease, held.end, instance));
        script.arg(held.lease.to_string()).arg(first.to_string());
        script.arg(rest.start.to_string()).arg(rest.end.to_string());
        let (_, answer) = self.change(connection, space, floor, &script).await?;
        mark_from(&answer, history)
    }

    /// Tries once; `None` where the space has changed meanwhile.
    async fn try_window(
        &self,
        connection: &Object<Server>,
        ask: &WindowAsk,
        floor: &Floor,
    ) -> Result<Option<Window>, StoreError> {
        if let Some(held) = ask.held {
            let mut seen = self.look(connection, ask, floor, Some(held.worker)).await?;
            let revision = seen.space.mark.revision;
            if seen.is_open && ask.extends(seen.rows.first(), revision).is_some() {
                let window = seen.space.extend_window(ask, held, seen.now_ms)?;
                return self.write(connection, ask, floor, revision, window).await;
            }
        }
        let mut seen = self.look(connection, ask, floor, ask.worker).await?;
        let revision = seen.space.mark.revision;
        let window = seen.space.lease_window(ask, &seen.rows, seen.now_ms)?;
        self.write(connection, ask, floor, revision, window).await
    }

    /// Looks at the space and at one worker, or at all that were ever leased.
    async fn look(
        &self,
        connection: &Object<Server>,
        ask: &WindowAsk,
        floor: &Floor,
        worker: Option<u32>,
    ) -> Result<Basis, StoreError> {
        let mut script = self.scripts.workers.key(self.paths.space(&ask.space));
        guard(&mut script, floor, connection.history());
        script.arg(&ask.instance.id);
        expect_lease(&mut script, ask.last_lease);
        script.arg(ask.held.map_or_else(String::new, |held| held.lease.to_string()));
        script.arg(worker.map_or_else(String::new, |worker| worker.to_string()));
        let seen = self.change(connection, &ask.space, floor, &script).await;
        let (status, answer) = seen.map_err(StoreError::changing_nothing)?;
        if status == "lost" {
            return Err(ask.lost_lease(ask.last_lease.unwrap_or_default(), floor));
        }
        let rows_end = 3 + rows::number::<usize>(answer.get(2))?;
        let Some((head, fields)) = answer.split_at_checked(rows_end) else {
            return Err(StoreError::Broken("a script's answer is cut short".to_owned()));
        };
        let workers = head[3..].chunks_exact(2).map(|pair| worker_from(&pair[0], &pair[1]));
        Ok(Basis {
            space: self.record_from(connection, &ask.space, fields)?,
            now_ms: rows::number(head.first())?,
            is_open: head[1] == "1",
            rows: workers.collect::<Result<_, _>>()?,
        })
    }

    /// Writes a window down; `None` where the space is not at the revision any more on which it was
    /// decided.
    async fn write(
        &self,
        connection: &Object<Server>,
        ask: &WindowAsk,
        floor: &Floor,
        seen: u64,
        window: Window,
    ) -> Result<Option<Window>, StoreError> {
        if window.ticks.is_empty() {
            return Ok(Some(window));
        }
        let Window { worker, lease, mark, .. } = window;
        let instance = &ask.instance.id;
        let ordinals = ask.timeline.ordinals(worker, window.ticks.clone());
        let mut script = self.scripts.window.key(self.paths.space(&ask.space));
        guard(&mut script, floor, connection.history());
        script.arg(instance);
        expect_lease(&mut script, ask.last_lease);
        script.arg(seen.to_string()).arg(mark.revision.to_string()).arg(mark.next.to_string());
        script.arg(worker).arg(row(lease, window.ticks.end, instance)).arg(lease.to_string());
        script.arg(ordinals.start.to_string()).arg(ordinals.end.to_string());
        script.arg(json(&ask.instance));
        let (status, _) = self.change(connection, &ask.space, floor, &script).await?;
        match status.as_str() {
            "changed" => Ok(None),
            "lost" => Err(ask.lost_lease(ask.last_lease.unwrap_or_default(), floor)),
            _ => Ok(Some(window)),
        }
    }
}

pub(super) fn row(lease: LeaseId, end: u64, instance: &str) -> String {
    format!("{lease} {end} {instance}")
}

/// From what [`row`] wrote. A row that cannot be read must not pass for a worker that is free.
pub(super) fn worker_from(worker: &str, row: &str) -> Result<WorkerRecord, StoreError> {
    let mut parts = row.split(' ').map(|part| part.parse().ok());
    match (worker.parse(), parts.next().flatten(), parts.next().flatten()) {
        (Ok(worker), Some(lease), Some(end)) => Ok(WorkerRecord { worker, lease, end }),
        _ => Err(StoreError::Broken(format!("redis holds {row:?}, not the row of a worker"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written_and_no_other_is() {
        let end = u64::MAX / 2;
        let expected = WorkerRecord { worker: 7, lease: 42, end };
        assert_eq!(worker_from("7", &row(42, end, "i-1")).unwrap(), expected);
        for (worker, bad) in [("7", ""), ("7", "42"), ("7", "42 soon i-1"), ("x", "42 43 i-1")] {
            assert!(worker_from(worker, bad).is_err(), "{worker} {bad:?}");
        }
    }
}
