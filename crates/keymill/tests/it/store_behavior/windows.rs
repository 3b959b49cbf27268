//! Windows: a worker has one holder at a time, and its windows never overlap.
//!
//! The clock is the store's on most stores, so a case never says what time it is: it compares with
//! the time that a window tells, and waits where one has to end.

use std::time::Duration;

use jiff::Timestamp;
use keymill::floor::{Floor, Mark};
use keymill::instance::Instance;
use keymill::space::{Definition, Kind, Timeline, Tuning};
use keymill::store::{
    HeldWindow, LeasePage, LeaseRecord, NewSpace, Pulse, Purpose, StoreError, Window, WindowAsk,
    WindowRelease,
};

use super::{Case, is_went_back, to};

/// A length in ticks that no case outlives.
const LONG: u64 = 60_000;

pub(super) async fn a_worker_is_leased_with_a_window_that_is_on_record(case: &Case) {
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

pub(super) async fn an_extension_begins_where_the_window_ended(case: &Case) {
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

pub(super) async fn an_extension_that_adds_nothing_changes_nothing(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let window = case.window(timeline, LONG).await;
    let same = case.extend(timeline, held(&window), 10).await.unwrap();
    assert_eq!((same.worker, same.lease), (window.worker, window.lease));
    assert_eq!((same.ticks, same.mark), (window.ticks.end..window.ticks.end, window.mark));
    assert_eq!(case.mark().await, window.mark);
}

pub(super) async fn instances_get_the_lowest_workers_that_are_free(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    for number in 0..3 {
        let other = case.someone_else();
        let window = other.window(timeline, LONG).await;
        assert_eq!(window.worker, number);
        let lease = case.lease_at(timeline, number, window.ticks.start).await.unwrap();
        assert_eq!((lease.lease, lease.holder.id), (window.lease, other.instance.id));
    }
}

pub(super) async fn what_is_not_held_just_so_is_not_extended(case: &Case) {
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

pub(super) async fn where_every_worker_is_held_there_is_none(case: &Case) {
    let timeline = case.with_layout("41/1/12").await;
    let first = case.window(timeline, 2 * LONG).await;
    let second = case.someone_else().window(timeline, LONG).await;
    let third = case.someone_else();
    let refusal = third.window_as(&third.window_ask(timeline, LONG).await).await;
    assert!(matches!(refusal, Err(StoreError::NoWorker { worker: None, workers: 2, .. })));
    assert_eq!(free_at(&refusal), timeline.time_of(second.ticks.end));
    assert_eq!(case.mark().await, second.mark, "a refusal changes nothing");
    let more = case.extend(timeline, held(&first), 3 * LONG).await.unwrap();
    assert_eq!(more.worker, first.worker, "whoever has one goes on");
}

pub(super) async fn a_worker_is_free_once_its_window_has_ended(case: &Case) {
    let timeline = case.with_layout("41/1/12").await;
    case.window(timeline, LONG).await;
    let second = case.someone_else();
    let ended = second.window(timeline, 150).await;
    let third = case.someone_else();
    let window = third.window_soon(&third.window_ask(timeline, LONG).await).await;
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

pub(super) async fn a_released_worker_is_free_from_where_it_was_not_used(case: &Case) {
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

pub(super) async fn a_worker_is_released_once_and_by_its_holder(case: &Case) {
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

pub(super) async fn a_certain_worker_is_leased_or_none(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let ask = case.window_ask(timeline, LONG).await;
    let certain = |worker| WindowAsk { worker: Some(worker), ..ask.clone() };
    let window = case.window_as(&certain(5)).await.unwrap();
    assert_eq!(window.worker, 5);
    let other = WindowAsk { instance: Instance::this_process(), ..certain(5) };
    let refusal = case.window_as(&other).await;
    assert!(matches!(refusal, Err(StoreError::NoWorker { worker: Some(5), workers: 8, .. })));
    assert_eq!(free_at(&refusal), timeline.time_of(window.ticks.end));
    let refusal = case.window_as(&certain(8)).await;
    assert!(matches!(refusal, Err(StoreError::NoWorker { worker: Some(8), workers: 8, .. })));
    assert_eq!(case.mark().await, window.mark);
    let extension = WindowAsk { held: Some(held(&window)), length: 2 * LONG, ..certain(5) };
    let more = case.window_as(&extension).await.unwrap();
    assert_eq!((more.lease, more.ticks.start), (window.lease, window.ticks.end));
    assert_eq!(case.window_as(&certain(7)).await.unwrap().worker, 7);
    assert_eq!(case.window(timeline, LONG).await.worker, 0);
}

pub(super) async fn next_is_the_highest_end_of_any_window(case: &Case) {
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

pub(super) async fn windows_know_the_floor_and_the_last_lease(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let window = case.window(timeline, LONG).await;
    let Mark { revision, next, .. } = window.mark;
    let ask = case.window_ask(timeline, 2 * LONG).await;
    let release = case.window_release(timeline, &window, window.ticks.start).await;
    let another = Floor { store: "another".to_owned(), mark: Mark::default() };
    let lower = [case.floor(revision + 5, next).await, case.floor(revision, next + 5).await];
    for floor in lower.into_iter().chain([another]) {
        let ask = WindowAsk { floor: floor.clone(), ..ask.clone() };
        assert!(is_went_back(&case.window_as(&ask).await), "{floor:?}");
        let extension = WindowAsk { held: Some(held(&window)), ..ask };
        assert!(is_went_back(&case.window_as(&extension).await), "{floor:?}");
        let release = WindowRelease { floor: floor.clone(), ..release.clone() };
        assert!(is_went_back(&case.store.release_window(&release).await), "{floor:?}");
    }
    let lost = WindowAsk { last_lease: Some(window.lease + 50), ..ask.clone() };
    assert!(is_went_back(&case.window_as(&lost).await));
    let lost = WindowAsk { held: Some(held(&window)), ..lost };
    assert!(is_went_back(&case.window_as(&lost).await));
    assert_eq!(case.mark().await, window.mark, "a refused request changes nothing");
    let floor = case.floor(revision, next).await;
    let last_lease = Some(window.lease);
    let more = WindowAsk { floor, last_lease, held: Some(held(&window)), ..ask };
    assert_eq!(case.window_as(&more).await.unwrap().lease, window.lease);
    for (lease, is_lost) in [(window.lease, false), (window.lease + 50, true)] {
        let pulse = Pulse {
            instance: case.instance.clone(),
            address: None,
            stopping: false,
            last_leases: vec![(case.space.clone(), lease)],
        };
        assert_eq!(!case.store.heartbeat(&pulse).await.unwrap().lost.is_empty(), is_lost);
    }
}

pub(super) async fn a_space_without_a_record_has_no_window(case: &Case) {
    let timeline = snowflake("41/3/12").timeline().unwrap().unwrap();
    let ask = case.window_ask(timeline, LONG).await;
    let answer = case.window_as(&ask).await;
    assert!(matches!(answer, Err(StoreError::UnknownSpace(_))), "{answer:?}");
    let seen = WindowAsk { floor: case.floor(3, 10).await, ..ask };
    assert!(is_went_back(&case.window_as(&seen).await));
}

pub(super) async fn a_sealed_space_has_no_window(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let window = case.window(timeline, LONG).await;
    let floor = case.floor(0, 0).await;
    let sealed = case.store.seal(&case.space, &floor).await.unwrap();
    let ask = case.window_ask(timeline, 2 * LONG).await;
    let extension = WindowAsk { held: Some(held(&window)), ..ask.clone() };
    for ask in [ask, extension] {
        let refusal = case.window_as(&ask).await;
        assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
    }
    assert_eq!(case.mark().await, sealed.mark);
}

pub(super) async fn no_window_begins_below_an_advance(case: &Case) {
    let timeline = case.with_layout("41/1/12").await;
    let before = case.window(timeline, 100).await;
    let base = before.mark.next + 200;
    let record = case.store.advance(&case.space, to(base), &case.instance).await.unwrap();
    assert_eq!((record.mark.next, record.base), (base, base));
    assert_eq!(case.store.space(&case.space).await.unwrap(), record);
    // No tenancy outlives it, and its holder gets another one once the time has come.
    let last_lease = Some(before.lease);
    let ask = case.window_ask(timeline, 100).await;
    let ask = WindowAsk { held: Some(held(&before)), last_lease, ..ask };
    let after = case.window_soon(&ask).await;
    assert_eq!((after.worker, after.lease), (0, record.mark.revision + 1));
    assert!(after.ticks.start >= base, "{after:?} below {base}");
    assert_eq!(after.ticks.end, timeline.tick_at(after.now_ms) + 100);
    for window in [&before, &after] {
        let lease = case.lease_at(timeline, 0, window.ticks.start).await.unwrap();
        assert_eq!((lease.lease, lease.purpose), (window.lease, Purpose::Window));
    }
    assert_eq!(case.lease_at(timeline, 0, base - 1).await, None);
    let far = after.mark.next + 1_000 * LONG;
    case.store.advance(&case.space, to(far), &case.instance).await.unwrap();
    for held in [None, Some(held(&after))] {
        let refusal = case.window_as(&WindowAsk { held, ..ask.clone() }).await;
        assert_eq!(free_at(&refusal), timeline.time_of(far));
    }
    // What was passed over is time, of every worker, and no range of ordinals.
    let page = LeasePage { space: Some(case.space.clone()), after: None, limit: 100 };
    let leases = case.store.leases(&page).await.unwrap();
    let leases: Vec<u64> = leases.iter().map(|lease| lease.lease).collect();
    assert_eq!(leases, [before.lease, after.lease]);
}

pub(super) async fn windows_end_with_the_time_of_their_space(case: &Case) {
    // 2^20 ms are 1,048 s: half a minute is left.
    let epoch = Timestamp::from_second(Timestamp::now().as_second() - 1_018).unwrap();
    let definition = Definition { epoch: Some(epoch), ..snowflake("20/3/12") };
    let timeline = case.with_definition(definition).await;
    let window = case.window(timeline, LONG).await;
    assert_eq!((window.ticks.end, window.mark.next), (timeline.ticks(), timeline.ticks()));
    let same = case.extend(timeline, held(&window), LONG).await.unwrap();
    assert_eq!((same.ticks, same.mark), (timeline.ticks()..timeline.ticks(), window.mark));
}

pub(super) async fn a_space_whose_time_has_run_out_is_exhausted(case: &Case) {
    let timeline = case.with_layout("20/3/12").await;
    let before = case.mark().await;
    let answer = case.window_as(&case.window_ask(timeline, LONG).await).await;
    assert!(matches!(answer, Err(StoreError::Exhausted { .. })), "{answer:?}");
    assert_eq!(case.mark().await, before);
}

pub(super) async fn many_instances_at_once_never_share_a_worker(case: &Case) {
    let timeline = case.with_layout("41/4/12").await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let handle = case.another().await;
        for _ in 0..6 {
            let other = handle.someone_else();
            tasks.spawn(async move {
                let ask = other.window_ask(timeline, 10 * LONG).await;
                loop {
                    match other.window_as(&ask).await {
                        Err(StoreError::Unavailable(_)) => continue,
                        answer => return answer,
                    }
                }
            });
        }
    }
    let (mut workers, mut refused) = (Vec::new(), 0);
    for answer in tasks.join_all().await {
        match answer {
            Ok(window) => workers.push(window.worker),
            Err(StoreError::NoWorker { workers: 16, .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    workers.sort_unstable();
    assert_eq!((workers, refused), ((0..16).collect::<Vec<u32>>(), 8));
}

pub(super) async fn however_instances_race_the_windows_of_a_worker_are_disjoint(case: &Case) {
    let timeline = case.with_layout("41/2/12").await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let other = case.another().await.someone_else();
        tasks.spawn(async move { other.hold_in_turns(timeline, number).await });
    }
    let mut used: Vec<Window> = tasks.join_all().await.into_iter().flatten().collect();
    used.retain(|window| !window.ticks.is_empty());
    used.sort_unstable_by_key(|window| (window.worker, window.ticks.start));
    for pair in used.windows(2) {
        let [first, second] = pair else { unreachable!("windows of two") };
        let apart = first.worker != second.worker || first.ticks.end <= second.ticks.start;
        assert!(apart, "both may have been used: {first:?} and {second:?}");
    }
    assert!(used.len() >= 8, "only {} were used", used.len());
    for window in used {
        for tick in [window.ticks.start, window.ticks.end - 1] {
            let lease = case.lease_at(timeline, window.worker, tick).await;
            assert_eq!(lease.map(|lease| lease.lease), Some(window.lease), "{window:?}");
        }
    }
}

fn snowflake(layout: &str) -> Definition {
    Definition { layout: Some(layout.to_owned()), ..Definition::of_kind(Kind::Snowflake) }
}

/// A window as its holder tells of it.
fn held(window: &Window) -> HeldWindow {
    HeldWindow { worker: window.worker, lease: window.lease, end: window.ticks.end }
}

/// When a worker is free, of an answer that there is none.
#[track_caller]
fn free_at(answer: &Result<Window, StoreError>) -> Timestamp {
    match answer {
        Err(StoreError::NoWorker { free_at, .. }) => *free_at,
        _ => panic!("not for want of a worker: {answer:?}"),
    }
}

impl Case {
    async fn with_layout(&self, layout: &str) -> Timeline {
        self.with_definition(snowflake(layout)).await
    }

    async fn with_definition(&self, definition: Definition) -> Timeline {
        let timeline = definition.timeline().unwrap().unwrap();
        let new = NewSpace {
            name: self.space.clone(),
            definition,
            tuning: Tuning::default(),
            fingerprint: None,
            capacity: timeline.ticks(),
            start: 0,
        };
        let floor = self.floor(0, 0).await;
        self.store.create(&new, &floor).await.unwrap();
        timeline
    }

    /// Another instance, on the same handle.
    fn someone_else(&self) -> Case {
        Case {
            url: self.url.clone(),
            store: self.store.clone(),
            instance: Instance::this_process(),
            space: self.space.clone(),
        }
    }

    async fn window_ask(&self, timeline: Timeline, length: u64) -> WindowAsk {
        WindowAsk {
            space: self.space.clone(),
            instance: self.instance.clone(),
            timeline,
            held: None,
            worker: None,
            length,
            now_ms: 0,
            floor: self.floor(0, 0).await,
            last_lease: None,
        }
    }

    /// What the store answers now.
    async fn window_as(&self, ask: &WindowAsk) -> Result<Window, StoreError> {
        let now_ms = Timestamp::now().as_millisecond();
        self.store.window(&WindowAsk { now_ms, ..ask.clone() }).await
    }

    async fn window(&self, timeline: Timeline, length: u64) -> Window {
        self.window_as(&self.window_ask(timeline, length).await).await.unwrap()
    }

    async fn extend(
        &self,
        timeline: Timeline,
        held: HeldWindow,
        length: u64,
    ) -> Result<Window, StoreError> {
        let ask = WindowAsk { held: Some(held), ..self.window_ask(timeline, length).await };
        self.window_as(&ask).await
    }

    /// What the store answers once a worker is free.
    async fn window_soon(&self, ask: &WindowAsk) -> Window {
        for _ in 0..4_000 {
            match self.window_as(ask).await {
                Ok(window) => return window,
                Err(StoreError::NoWorker { .. } | StoreError::Unavailable(_)) => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no worker was free in all that time");
    }

    async fn window_release(
        &self,
        timeline: Timeline,
        window: &Window,
        unused_from: u64,
    ) -> WindowRelease {
        WindowRelease {
            space: self.space.clone(),
            instance: self.instance.id.clone(),
            timeline,
            held: held(window),
            unused_from,
            floor: self.floor(0, 0).await,
        }
    }

    async fn release_window(
        &self,
        timeline: Timeline,
        window: &Window,
        unused_from: u64,
    ) -> Result<Mark, StoreError> {
        let release = self.window_release(timeline, window, unused_from).await;
        self.store.release_window(&release).await
    }

    /// The lease under which a tick of a worker is on record.
    async fn lease_at(&self, timeline: Timeline, worker: u32, tick: u64) -> Option<LeaseRecord> {
        let ordinal = timeline.ordinals(worker, tick..tick).start;
        self.store.lease_of(&self.space, ordinal).await.unwrap()
    }

    /// Has workers for a while, and tells which ticks of which may have been used. Some are released
    /// half used, some at once, and some are left to end by themselves.
    async fn hold_in_turns(&self, timeline: Timeline, number: u64) -> Vec<Window> {
        let mut used = Vec::new();
        for turn in 0..9 {
            let length = 20 + (turn * 13 + number * 7) % 40;
            let ask = self.window_ask(timeline, length).await;
            let mut window = self.window_soon(&ask).await;
            for _ in 0..2 {
                let extension = WindowAsk { held: Some(held(&window)), ..ask.clone() };
                let more = self.window_soon(&extension).await;
                if more.lease == window.lease {
                    assert_eq!((more.worker, more.ticks.start), (window.worker, window.ticks.end));
                    window.ticks.end = more.ticks.end;
                } else {
                    // It had ended, and somebody has the worker now.
                    used.push(std::mem::replace(&mut window, more));
                }
            }
            if turn % 3 > 0 {
                let granted = window.ticks.end - window.ticks.start;
                let unused_from = window.ticks.start + granted / if turn % 3 == 1 { 2 } else { 8 };
                // Trying again is harmless.
                while let Err(error) = self.release_window(timeline, &window, unused_from).await {
                    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                }
                window.ticks.end = unused_from;
            }
            used.push(window);
        }
        used
    }
}
