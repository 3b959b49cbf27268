//! Windows that are told to be as long as they were asked for, while those on record are short.
//!
//! What is on record is extended as an instance does that runs. One that was paused finds, when it
//! wakes up, that its worker is another's; and goes on with it, as if nothing bounded the time in
//! its IDs.

use std::time::Duration;

use keymill_engine::internals::store::{
    Floor, HeldWindow, Mark, Store, StoreError, Window, WindowAsk,
};

/// How far ahead windows on record reach, in ticks.
const RECORDED: u64 = 1_000;
/// How often they are extended.
const EXTEND_EVERY: Duration = Duration::from_millis(100);

/// Has a short window recorded, and tells of a long one.
pub(crate) async fn endless_window(
    real: &Store,
    ask: &WindowAsk,
    floor: &Floor,
) -> Result<Window, StoreError> {
    let timeline = ask.timeline;
    let short = WindowAsk { held: None, length: RECORDED, last_lease: None, ..ask.clone() };
    // That of what was told is above all that is on record.
    let unseen = Floor { store: floor.store.clone(), mark: Mark::default() };
    let window = real.windows.window(&short, &unseen).await?;
    let Window { worker, lease, .. } = window;
    let held = HeldWindow { worker, lease, end: window.ticks.end };
    tokio::spawn(extend(real.clone(), short, unseen, held));
    let end = timeline.tick_at(window.now_ms).saturating_add(ask.length).min(timeline.ticks());
    let mark = Mark { next: window.mark.next.max(end), ..window.mark };
    Ok(Window { ticks: window.ticks.start..end, mark, ..window })
}

/// Extends the window on record, until another has its worker.
async fn extend(real: Store, ask: WindowAsk, floor: Floor, mut held: HeldWindow) {
    loop {
        tokio::time::sleep(EXTEND_EVERY).await;
        let more = WindowAsk { held: Some(held), worker: Some(held.worker), ..ask.clone() };
        match real.windows.window(&more, &floor).await {
            Ok(window) if window.lease == held.lease => held.end = window.ticks.end,
            _ => {
                eprintln!("worker {} is another's, and used all the same", held.worker);
                return;
            }
        }
    }
}
