//! Windows of snowflake workers through the fence.

use tokio::time::Instant;

use super::Fence;
use crate::store::{Confirm, Evidence, StoreError, Window, WindowAsk, WindowRelease};

/// A window that the store has granted. It is on record whatever `sure` says, so its holder keeps it in mind:
/// the next request extends it. But no tick of it may be used before it is sure.
#[derive(Debug)]
pub(crate) struct WindowOnRecord {
    pub(crate) window: Window,
    /// When the store answered, by the clock of the request that only runs.
    pub(crate) at: Instant,
    /// Whether it was found on record once more.
    pub(crate) sure: Result<(), StoreError>,
}

impl Fence {
    /// Has a window extended, or a worker leased, and makes sure of it.
    pub(crate) async fn window(&self, ask: &WindowAsk) -> Result<WindowOnRecord, StoreError> {
        let floor = self.floor(&ask.space).await?;
        let window = self.store.windows.window(ask, &floor).await?;
        let at = ask.clock.monotonic();
        check_window(&window, ask);
        let last = window.ticks.end.saturating_sub(1);
        let change = Confirm {
            space: ask.space.clone(),
            reached: window.mark,
            evidence: Evidence::Lease {
                lease: window.lease,
                holder: ask.instance.id.clone(),
                end: ask.timeline.ordinals(window.worker, last..last).start + 1,
            },
            skips_in: 0..0,
        };
        let sure = self.make_sure(&change).await.map(drop);
        Ok(WindowOnRecord { window, at, sure })
    }

    /// Frees a worker.
    pub(crate) async fn release_window(&self, release: &WindowRelease) -> Result<(), StoreError> {
        let floor = self.floor(&release.space).await?;
        let mark = self.store.windows.release_window(release, &floor).await?;
        self.raise(&release.space, mark).await
    }
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
