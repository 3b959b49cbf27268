//! Tenancies: how a worker is leased, its window extended, and freed.

use super::*;

pub(crate) async fn a_worker_is_leased_with_a_window_that_is_on_record(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let before = case.mark().await;
    let window = case.window(timeline, LONG).await;
    let now = timeline.tick_at(window.now_ms);
    assert_eq!((window.worker, window.ticks.clone()), (0, now..now + LONG));
    // Two clocks may differ, but not by the hours of a time zone.
    let off_ms = window.now_ms.abs_diff(Timestamp::now().as_millisecond());
    assert!(off_ms < 60_000, "the clock is off by {off_ms} ms");
    let mark = Mark { revision: before.revision + 1, next: window.ticks.end, ..before };
    assert_eq!((window.lease, window.mark, case.mark().await), (mark.revision, mark, mark));
    let lease = case.lease_at(timeline, 0, window.ticks.start).await.unwrap();
    assert_eq!((lease.lease, lease.purpose), (window.lease, Purpose::Window));
    assert_eq!((lease.holder.id, lease.closed_at), (case.instance.id.clone(), None));
    assert_eq!(lease.ordinals, timeline.ordinals(0, window.ticks.clone()));
    assert_eq!(case.lease_at(timeline, 0, window.ticks.start - 1).await, None);
    assert_eq!(case.lease_at(timeline, 0, window.ticks.end).await, None);
    assert_eq!(case.lease_at(timeline, 1, window.ticks.start).await, None);
}

pub(crate) async fn an_extension_begins_where_the_window_ended(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    // Also where that was a while ago, and nobody else has come since.
    let mut window = case.window(timeline, 1).await;
    for length in [LONG, 2 * LONG] {
        let more = case.extend(timeline, held(&window), length).await.unwrap();
        assert_eq!((more.worker, more.lease), (window.worker, window.lease));
        let end = timeline.tick_at(more.now_ms) + length;
        assert_eq!(more.ticks, window.ticks.end..end);
        let revision = window.mark.revision + 1;
        assert_eq!(more.mark, Mark { revision, next: end, ..window.mark });
        assert_eq!(case.mark().await, more.mark);
        window = Window { ticks: window.ticks.start..end, ..more };
        for tick in [window.ticks.start, end - 1] {
            let lease = case.lease_at(timeline, window.worker, tick).await.unwrap();
            assert_eq!(lease.lease, window.lease);
            assert_eq!(lease.ordinals, timeline.ordinals(window.worker, window.ticks.clone()));
        }
    }
}

pub(crate) async fn a_tenancy_is_on_record_as_far_as_its_window_reaches(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let window = case.window(timeline, 1_000).await;
    let last_of = |end: u64| timeline.ordinals(window.worker, end - 1..end - 1).start + 1;
    let is_on_record = async |holder: &str, end: u64| {
        let (lease, holder) = (window.lease, holder.to_owned());
        let evidence = Evidence::Lease { lease, holder, end: last_of(end) };
        case.confirm(window.mark, evidence, 0..0).await.unwrap().on_record
    };
    let (me, end) = (case.instance.id.as_str(), window.ticks.end);
    assert!(is_on_record(me, end).await);
    assert!(!is_on_record(me, end + LONG).await);
    assert!(!is_on_record("somebody", end).await);
    let more = case.extend(timeline, held(&window), 2 * LONG).await.unwrap();
    assert!(is_on_record(me, end + LONG).await, "{more:?}");
}

pub(crate) async fn an_extension_that_adds_nothing_changes_nothing(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let window = case.window(timeline, LONG).await;
    let same = case.extend(timeline, held(&window), 10).await.unwrap();
    assert_eq!((same.worker, same.lease), (window.worker, window.lease));
    assert_eq!((same.ticks, same.mark), (window.ticks.end..window.ticks.end, window.mark));
    assert_eq!(case.mark().await, window.mark);
}

pub(crate) async fn instances_get_the_lowest_workers_that_are_free(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    for number in 0..3 {
        let other = case.someone_else();
        let window = other.window(timeline, LONG).await;
        assert_eq!(window.worker, number);
        let lease = case.lease_at(timeline, number, window.ticks.start).await.unwrap();
        assert_eq!((lease.lease, lease.holder.id), (window.lease, other.instance.id));
    }
}

pub(crate) async fn what_is_not_held_just_so_is_not_extended(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let mine = case.window(timeline, LONG).await;
    let theirs = case.someone_else().window(timeline, LONG / 2).await;
    let known = held(&mine);
    let wrong = [
        HeldWindow { end: known.end + 1, ..known },
        HeldWindow { end: known.end - 1, ..known },
        HeldWindow { lease: theirs.lease, ..known },
        HeldWindow { worker: theirs.worker, ..known },
        HeldWindow { worker: 7, ..known },
    ];
    for (wrong, next_free) in wrong.into_iter().zip(2..) {
        let other = case.extend(timeline, wrong, LONG).await.unwrap();
        assert_eq!(other.worker, next_free, "{wrong:?}");
        assert_eq!(other.ticks.start, timeline.tick_at(other.now_ms), "{wrong:?}");
        assert_eq!(other.lease, other.mark.revision, "{wrong:?}");
    }
    // Nor is it by somebody else, who knows what its holder knows.
    let answer = case.someone_else().extend(timeline, known, 2 * LONG).await;
    assert!(!answer.as_ref().is_ok_and(|other| other.worker == known.worker), "{answer:?}");
    // None of that has touched the worker.
    let more = case.extend(timeline, known, 2 * LONG).await.unwrap();
    assert_eq!((more.worker, more.lease), (mine.worker, mine.lease));
    assert_eq!(more.ticks.start, mine.ticks.end);
}

pub(crate) async fn a_worker_is_free_once_its_window_has_ended(case: &Case) {
    let timeline = case.with_layout("41/1/12").await;
    case.window(timeline, LONG).await;
    let second = case.someone_else();
    let ended = second.window(timeline, 150).await;
    let third = case.someone_else();
    let window = third.window_soon(&third.window_ask(timeline, LONG)).await;
    assert_eq!(window.worker, ended.worker);
    assert!(window.ticks.start >= ended.ticks.end, "{window:?} after {ended:?}");
    for (window, holder) in [(&ended, &second), (&window, &third)] {
        let lease = case.lease_at(timeline, window.worker, window.ticks.start).await.unwrap();
        assert_eq!((lease.lease, &lease.holder.id), (window.lease, &holder.instance.id));
    }
    // Whoever had it and comes too late finds it held.
    let late = second.extend(timeline, held(&ended), LONG).await;
    assert!(matches!(late, Err(StoreError::NoWorker { .. })), "{late:?}");
}

pub(crate) async fn a_released_worker_is_free_from_where_it_was_not_used(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let window = case.window(timeline, LONG).await;
    let unused_from = window.ticks.start + 3;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mark = case.release_window(timeline, &window, unused_from).await.unwrap();
    assert_eq!(mark, Mark { revision: window.mark.revision + 1, ..window.mark });
    assert_eq!(case.mark().await, mark);
    for tick in [window.ticks.start, unused_from - 1] {
        let lease = case.lease_at(timeline, 0, tick).await.unwrap();
        assert_eq!((lease.lease, lease.closed_at.is_some()), (window.lease, true));
        let end = timeline.ordinals(0, unused_from..unused_from).end;
        assert_eq!(lease.closed_at_ordinal, Some(end));
    }
    for tick in [unused_from, window.ticks.end - 1] {
        assert_eq!(case.lease_at(timeline, 0, tick).await, None);
    }
    // The next one need not wait for its end, and has it for itself.
    let other = case.someone_else();
    let next = other.window(timeline, LONG).await;
    assert_eq!(next.worker, 0);
    assert!(next.ticks.start >= unused_from, "{next:?} after {unused_from}");
    let lease = case.lease_at(timeline, 0, next.ticks.start).await.unwrap();
    assert_eq!((lease.lease, lease.holder.id), (next.lease, other.instance.id));
    let late = case.extend(timeline, held(&window), LONG).await.unwrap();
    assert_eq!(late.worker, 1, "what was released is not held");
}

pub(crate) async fn a_worker_is_released_once_and_by_its_holder(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let window = case.window(timeline, LONG).await;
    let start = window.ticks.start;
    let wrong = [
        Window { ticks: start..window.ticks.end + 1, ..window.clone() },
        Window { lease: window.lease + 1, ..window.clone() },
        Window { worker: 1, ..window.clone() },
    ];
    for wrong in wrong {
        let mark = case.release_window(timeline, &wrong, start).await.unwrap();
        assert_eq!(mark, window.mark, "{wrong:?}");
    }
    let other = case.someone_else();
    assert_eq!(other.release_window(timeline, &window, start).await.unwrap(), window.mark);
    assert_eq!(case.mark().await, window.mark);
    let lease = case.lease_at(timeline, 0, start).await.unwrap();
    assert_eq!((lease.lease, lease.closed_at), (window.lease, None));
    let mark = case.release_window(timeline, &window, start + 5).await.unwrap();
    assert_eq!(mark.revision, window.mark.revision + 1);
    for unused_from in [start + 5, start, start + 10] {
        assert_eq!(case.release_window(timeline, &window, unused_from).await.unwrap(), mark);
    }
    assert_eq!(case.lease_at(timeline, 0, start + 4).await.unwrap().lease, window.lease);
    assert_eq!(case.lease_at(timeline, 0, start + 5).await, None);
    assert_eq!(case.mark().await, mark);
}

pub(crate) async fn next_is_the_highest_end_of_any_window(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let start = case.mark().await.revision;
    let high = case.window(timeline, 2 * LONG).await;
    let other = case.someone_else();
    let low = other.window(timeline, LONG).await;
    assert!(low.ticks.end < high.ticks.end);
    assert_eq!((low.mark.revision, low.mark.next), (start + 2, high.ticks.end));
    let more = other.extend(timeline, held(&low), 3 * LONG).await.unwrap();
    assert_eq!((more.mark.revision, more.mark.next), (start + 3, more.ticks.end));
    // It stays where it was when nothing of that was used.
    let unused_from = low.ticks.start;
    let mark = other.release_window(timeline, &more, unused_from).await.unwrap();
    assert_eq!((mark.revision, mark.next), (start + 4, more.ticks.end));
    assert_eq!(case.mark().await, mark);
}
