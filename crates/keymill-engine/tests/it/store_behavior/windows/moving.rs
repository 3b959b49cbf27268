//! Moving windows: a worker that is held stays held until its window has ended.

use super::*;
use crate::store_behavior::moving::{begun, completed};

pub(crate) async fn a_worker_is_held_wherever_its_window_is_moved_to(case: &Case) {
    let timeline = case.with_layout("41/1/12").await;
    let window = case.window(timeline, LONG).await;
    let (there, space) = begun(case).await;
    let other = there.someone_else();
    let certain = WindowAsk { worker: Some(window.worker), ..other.window_ask(timeline, LONG) };
    let refusal = other.window_as(&certain).await;
    assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
    let opened = completed(case, &there, &space).await;
    assert_eq!(opened.mark.next, window.ticks.end);
    let lease = there.lease_at(timeline, window.worker, window.ticks.start).await.unwrap();
    assert_eq!((lease.lease, lease.closed_at), (window.lease, None));
    assert_eq!(free_at(&other.window_as(&certain).await), timeline.time_of(window.ticks.end));
    assert_ne!(other.window(timeline, LONG).await.worker, window.worker);
    // Its holder may go on with it, if that has moved too.
    let more = there.extend(timeline, held(&window), 2 * LONG).await.unwrap();
    assert_eq!((more.lease, more.ticks.start), (window.lease, window.ticks.end));
}
