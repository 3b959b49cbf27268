//! Leases: disjoint, bounded, given back, to the very last ordinal.

use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{GiveBack, Grant, LeaseAsk, Mark, Opening, StoreError};

use super::{Case, give_back_one, to};

pub(super) async fn leases_are_disjoint_and_follow_each_other(case: &Case) {
    case.with_capacity(1_000).await;
    let start = case.mark().await.revision;
    let (first, second) = (case.lease(10).await, case.lease(20).await);
    assert_eq!((first.ordinals, first.left), (0..10, 990));
    assert_eq!((second.ordinals.clone(), second.left), (10..30, 970));
    assert_eq!((first.lease, second.lease), (start + 1, start + 2));
    assert_eq!(second.mark, Mark { revision: start + 2, next: 30, ..second.mark });
    assert_eq!(case.mark().await, second.mark);
}

pub(super) async fn a_lease_never_takes_more_than_its_share_but_always_one(case: &Case) {
    case.with_capacity(130).await;
    let share = |share| LeaseAsk { share, ..case.ask(1_000) };
    assert_eq!(case.lease_as(share(64)).await.unwrap().ordinals, 0..2);
    assert_eq!(case.lease_as(share(1_000)).await.unwrap().ordinals, 2..3);
    assert_eq!(case.lease_as(share(2)).await.unwrap().ordinals, 3..66);
}

pub(super) async fn a_space_ends_with_its_last_ordinal(case: &Case) {
    case.with_capacity(5).await;
    assert_eq!(case.lease(4).await.ordinals, 0..4);
    let last = case.lease(100).await;
    assert_eq!((last.ordinals, last.left), (4..5, 0));
    for _ in 0..2 {
        let answer = case.lease_as(case.ask(1)).await;
        assert!(matches!(answer, Err(StoreError::Exhausted { .. })), "{answer:?}");
    }
}

pub(super) async fn exhausted_says_how_many_are_held_elsewhere(case: &Case) {
    case.with_capacity(10).await;
    let other = LeaseAsk { instance: Instance::this_process(), ..case.ask(6) };
    case.lease_as(other).await.unwrap();
    case.lease(10).await;
    assert!(matches!(
        case.lease_as(case.ask(1)).await,
        Err(StoreError::Exhausted { held_elsewhere: 6, .. })
    ));
}

pub(super) async fn a_spent_lease_is_closed_at_its_end(case: &Case) {
    case.with_capacity(10).await;
    let first = case.lease(6).await;
    let second = case.lease_as(LeaseAsk { spent: vec![first.lease], ..case.ask(6) }).await.unwrap();
    let closed = case.store.leases.lease_of(&case.space, 3).await.unwrap().unwrap();
    assert_eq!((closed.lease, closed.closed_at_ordinal), (first.lease, Some(6)));
    assert!(closed.closed_at.is_some());
    // Also when there is nothing more to grant.
    let end = case.lease_as(LeaseAsk { spent: vec![second.lease], ..case.ask(1) }).await;
    assert!(matches!(end, Err(StoreError::Exhausted { .. })));
    let closed = case.store.leases.lease_of(&case.space, 8).await.unwrap().unwrap();
    assert_eq!(closed.closed_at_ordinal, Some(10));
}

pub(super) async fn what_came_back_is_granted_first(case: &Case) {
    case.with_capacity(1_000).await;
    let (first, second) = (case.lease(10).await, case.lease(10).await);
    let mark = case.give_back(&first, 4).await.unwrap();
    assert_eq!(mark, Mark { revision: second.mark.revision + 1, next: 20, ..second.mark });
    let record = case.store.spaces.space(&case.space).await.unwrap();
    assert_eq!((record.mark, record.returned.count(), record.left()), (mark, 4, 984));
    assert_eq!(case.lease(3).await.ordinals, 6..9);
    assert_eq!(case.lease(3).await.ordinals, 9..10);
    assert_eq!(case.lease(3).await.ordinals, 20..23);
}

pub(super) async fn only_the_holder_gives_back_and_only_once(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let before = case.mark().await;
    let others = GiveBack { instance: "somebody".to_owned(), ..case.back(&grant, 5) };
    assert_eq!(case.give_back_as(&others).await.unwrap(), before);
    let after = case.give_back(&grant, 5).await.unwrap();
    assert_eq!(case.give_back(&grant, 7).await.unwrap(), after);
    assert_eq!(case.store.spaces.space(&case.space).await.unwrap().returned.count(), 5);
    let unknown = Grant { lease: 999, ..grant };
    assert_eq!(case.give_back(&unknown, 1).await.unwrap(), after);
}

pub(super) async fn a_rest_that_does_not_end_where_the_lease_does_is_not_taken(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let wrong = Grant { ordinals: 0..12, ..grant };
    case.give_back(&wrong, 4).await.unwrap();
    assert_eq!(case.store.spaces.space(&case.space).await.unwrap().returned.count(), 0);
}

pub(super) async fn ordinals_beyond_2_to_the_53_come_through_unchanged(case: &Case) {
    let start = (1 << 53) + 1;
    case.create(&case.space, keymill_engine::space::CAPACITY_MAX, start).await;
    let grant = case.lease(10).await;
    assert_eq!(grant.ordinals, start..start + 10);
    case.give_back(&grant, 3).await.unwrap();
    assert_eq!(case.lease(10).await.ordinals, start + 7..start + 10);
    let top = keymill_engine::space::CAPACITY_MAX - 2;
    case.store.spaces.advance(&case.space, to(top), &case.instance).await.unwrap();
    assert_eq!(case.lease(10).await.ordinals, top..top + 2);
    let found = case.store.leases.lease_of(&case.space, top + 1).await.unwrap().unwrap();
    assert_eq!(found.ordinals, top..top + 2);
}

pub(super) async fn many_instances_at_once_never_share_an_ordinal(case: &Case) {
    const CAPACITY: u64 = 3_000;
    case.with_capacity(CAPACITY).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let store =
            keymill_engine::internals::store::open(&case.url, Opening::default()).await.unwrap();
        let space = case.space.clone();
        let floor = case.unseen.clone();
        tasks.spawn(async move {
            let instance = Instance::this_process();
            let mut mine = Vec::new();
            for turn in 0_u64.. {
                let ask = LeaseAsk {
                    space: space.clone(),
                    instance: instance.clone(),
                    size: 1 + (turn * 7 + number) % 40,
                    share: 1,
                    last_lease: None,
                    spent: Vec::new(),
                };
                let grant = match store.leases.lease(&ask, &floor).await {
                    Ok(grant) => grant,
                    Err(StoreError::Exhausted { .. }) => break,
                    Err(StoreError::Unavailable(_)) => continue,
                    Err(error) => panic!("{error}"),
                };
                // Every third lease is drawn only half, and the rest comes back.
                let mut drawn = grant.ordinals.clone();
                if turn % 3 == 0 {
                    drawn.end -= (drawn.end - drawn.start) / 2;
                    let back = GiveBack {
                        space: space.clone(),
                        instance: instance.id.clone(),
                        lease: grant.lease,
                        end: grant.ordinals.end,
                        closed_at: drawn.end,
                        returned: std::iter::once(drawn.end..grant.ordinals.end).collect(),
                    };
                    // Trying again is harmless, and what did not come back is drawn at the end.
                    while let Err(error) = give_back_one(&store, &back, &floor).await {
                        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                    }
                }
                mine.extend(drawn);
            }
            mine
        });
    }
    let mut drawn: Vec<u64> = tasks.join_all().await.into_iter().flatten().collect();
    drawn.sort_unstable();
    // What one gave back after another saw the end may be left: drawn exactly once otherwise.
    while let Ok(grant) = case.lease_as(case.ask(CAPACITY)).await {
        drawn.extend(grant.ordinals);
    }
    drawn.sort_unstable();
    assert_eq!(drawn, (0..CAPACITY).collect::<Vec<_>>());
}
