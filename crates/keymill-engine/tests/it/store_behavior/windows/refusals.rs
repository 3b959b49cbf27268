//! Refusals: when there is no window, or none before a time.

use super::*;

pub(crate) async fn where_every_worker_is_held_there_is_none(case: &Case) {
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

pub(crate) async fn a_certain_worker_is_leased_or_none(case: &Case) {
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

pub(crate) async fn windows_know_the_floor_and_the_last_lease(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let window = case.window(timeline, LONG).await;
    let Mark { revision, next, .. } = window.mark;
    let ask = case.window_ask(timeline, 2 * LONG).await;
    let release = case.window_release(timeline, &window, window.ticks.start).await;
    let another = Floor { store: "another".to_owned(), mark: Mark::default() };
    let lower = [case.floor(revision + 5, next).await, case.floor(revision, next + 5).await];
    for floor in lower.into_iter().chain([another]) {
        let ask = WindowAsk { floor: floor.clone(), ..ask.clone() };
        assert!(is_rolled_back(&case.window_as(&ask).await), "{floor:?}");
        let extension = WindowAsk { held: Some(held(&window)), ..ask };
        assert!(is_rolled_back(&case.window_as(&extension).await), "{floor:?}");
        let release = WindowRelease { floor: floor.clone(), ..release.clone() };
        assert!(is_rolled_back(&case.store.windows.release_window(&release).await), "{floor:?}");
    }
    let lost = WindowAsk { last_lease: Some(window.lease + 50), ..ask.clone() };
    assert!(is_rolled_back(&case.window_as(&lost).await));
    let lost = WindowAsk { held: Some(held(&window)), ..lost };
    assert!(is_rolled_back(&case.window_as(&lost).await));
    assert_eq!(case.mark().await, window.mark, "a refused request changes nothing");
    let floor = case.floor(revision, next).await;
    let last_lease = Some(window.lease);
    let more = WindowAsk { floor, last_lease, held: Some(held(&window)), ..ask };
    assert_eq!(case.window_as(&more).await.unwrap().lease, window.lease);
    for (lease, is_lost) in [(window.lease, false), (window.lease + 50, true)] {
        let pulse = Pulse { last_leases: vec![(case.space.clone(), lease)], ..case.pulse() };
        assert_eq!(!case.store.instances.heartbeat(&pulse).await.unwrap().lost.is_empty(), is_lost);
    }
}

pub(crate) async fn a_space_without_a_record_has_no_window(case: &Case) {
    let timeline = snowflake("41/3/12").timeline().unwrap().unwrap();
    let ask = case.window_ask(timeline, LONG).await;
    let answer = case.window_as(&ask).await;
    assert!(matches!(answer, Err(StoreError::UnknownSpace(_))), "{answer:?}");
    let seen = WindowAsk { floor: case.floor(3, 10).await, ..ask };
    assert!(is_rolled_back(&case.window_as(&seen).await));
}

pub(crate) async fn a_sealed_space_has_no_window(case: &Case) {
    let timeline = case.with_layout("41/3/12").await;
    let window = case.window(timeline, LONG).await;
    let floor = case.floor(0, 0).await;
    let sealed = case.store.spaces.seal(&case.space, &floor).await.unwrap();
    let ask = case.window_ask(timeline, 2 * LONG).await;
    let extension = WindowAsk { held: Some(held(&window)), ..ask.clone() };
    for ask in [ask, extension] {
        let refusal = case.window_as(&ask).await;
        assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
    }
    assert_eq!(case.mark().await, sealed.mark);
}

pub(crate) async fn no_window_begins_below_an_advance(case: &Case) {
    let timeline = case.with_layout("41/1/12").await;
    let before = case.window(timeline, 100).await;
    let base = before.mark.next + 200;
    let record = case.store.spaces.advance(&case.space, to(base), &case.instance).await.unwrap();
    assert_eq!((record.mark.next, record.base), (base, base));
    assert_eq!(case.store.spaces.space(&case.space).await.unwrap(), record);
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
    case.store.spaces.advance(&case.space, to(far), &case.instance).await.unwrap();
    for held in [None, Some(held(&after))] {
        let refusal = case.window_as(&WindowAsk { held, ..ask.clone() }).await;
        assert_eq!(free_at(&refusal), timeline.time_of(far));
    }
    // What was passed over is time, of every worker, and no range of ordinals.
    let page = LeasePage { space: Some(case.space.clone()), after: None, limit: 100 };
    let leases = case.store.leases.leases(&page).await.unwrap();
    let leases: Vec<u64> = leases.iter().map(|lease| lease.lease).collect();
    assert_eq!(leases, [before.lease, after.lease]);
}

pub(crate) async fn windows_end_with_the_time_of_their_space(case: &Case) {
    // 2^20 ms are 1,048 s: half a minute is left.
    let epoch = Timestamp::from_second(Timestamp::now().as_second() - 1_018).unwrap();
    let definition = Definition { epoch: Some(epoch), ..snowflake("20/3/12") };
    let timeline = case.with_definition(definition).await;
    let window = case.window(timeline, LONG).await;
    assert_eq!((window.ticks.end, window.mark.next), (timeline.ticks(), timeline.ticks()));
    let same = case.extend(timeline, held(&window), LONG).await.unwrap();
    assert_eq!((same.ticks, same.mark), (timeline.ticks()..timeline.ticks(), window.mark));
}

pub(crate) async fn a_space_whose_time_has_run_out_is_exhausted(case: &Case) {
    let timeline = case.with_layout("20/3/12").await;
    let before = case.mark().await;
    let answer = case.window_as(&case.window_ask(timeline, LONG).await).await;
    assert!(matches!(answer, Err(StoreError::Exhausted { .. })), "{answer:?}");
    assert_eq!(case.mark().await, before);
}
