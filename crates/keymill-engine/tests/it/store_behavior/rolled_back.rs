//! A store that was rolled back to an earlier state is noticed, and reopened beyond what was seen.

use keymill_engine::internals::store::{
    Created, Floor, LeaseAsk, Mark, NewSpace, Pulse, Purpose, StoreError,
};
use keymill_engine::space::{Definition, Tuning};

use super::{Case, give_back_one, is_rolled_back, to};

pub(super) async fn a_change_below_the_floor_is_refused(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let Mark { revision, next, .. } = grant.mark;
    let floor = case.floor(revision, next);
    assert!(case.lease_above(&floor, &case.ask(1)).await.is_ok());
    for (revision, next) in [(revision + 5, next), (revision, next + 5)] {
        let floor = case.floor(revision, next);
        let before = case.mark().await;
        let back = case.back(&grant, 5);
        assert!(is_rolled_back(&case.lease_above(&floor, &case.ask(1)).await));
        assert!(is_rolled_back(&give_back_one(&case.store, &back, &floor).await));
        assert!(is_rolled_back(
            &case.store.spaces.tune(&case.space, &Tuning::default(), &floor).await
        ));
        assert!(is_rolled_back(&case.store.spaces.seal(&case.space, &floor).await));
        assert_eq!(case.mark().await, before, "a refused request changes nothing");
    }
}

pub(super) async fn another_store_is_refused(case: &Case) {
    case.with_capacity(100).await;
    let floor = Floor { store: "another".to_owned(), mark: Mark::default() };
    assert!(is_rolled_back(&case.lease_above(&floor, &case.ask(1)).await));
}

pub(super) async fn a_space_that_is_gone_is_a_store_that_was_rolled_back(case: &Case) {
    let floor = case.floor(3, 10);
    assert!(is_rolled_back(&case.lease_above(&floor, &case.ask(1)).await));
    let answer = case.lease_as(case.ask(1)).await;
    assert!(matches!(answer, Err(StoreError::UnknownSpace(_))), "{answer:?}");
}

pub(super) async fn a_last_lease_that_is_gone_is_a_store_that_was_rolled_back(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let last = |last_lease| LeaseAsk { last_lease, ..case.ask(1) };
    assert!(case.lease_as(last(Some(grant.lease))).await.is_ok());
    assert!(is_rolled_back(&case.lease_as(last(Some(grant.lease + 50))).await));
    let pulse = |lease| Pulse { last_leases: vec![(case.space.clone(), lease)], ..case.pulse() };
    let beat = case.store.instances.heartbeat(&pulse(grant.lease)).await.unwrap();
    assert!(beat.lost.is_empty());
    assert_eq!(beat.store, case.store.admin.identity().await.unwrap());
    assert!(beat.marks.iter().any(|(name, _)| *name == case.space));
    let beat = case.store.instances.heartbeat(&pulse(grant.lease + 50)).await.unwrap();
    assert_eq!(beat.lost, [case.space.as_str()]);
}

pub(super) async fn an_advance_goes_beyond_everything_seen(case: &Case) {
    case.with_capacity(1_000).await;
    let grant = case.lease(10).await;
    case.give_back(&grant, 5).await.unwrap();
    let lost = grant.lease + 50;
    let record = case.store.spaces.advance(&case.space, to(300), &case.instance).await.unwrap();
    assert_eq!((record.mark.next, record.returned.count()), (300, 0));
    // Beyond any revision that an instance may have seen, and any lease that is gone.
    let floor = case.floor(lost + 1_000, 300);
    let ask = LeaseAsk { last_lease: Some(lost), ..case.ask(10) };
    let grant = case.lease_above(&floor, &ask).await.unwrap();
    assert_eq!(grant.ordinals, 300..310);
    let pulse = Pulse { last_leases: vec![(case.space.clone(), lost)], ..case.pulse() };
    assert!(case.store.instances.heartbeat(&pulse).await.unwrap().lost.is_empty());
    let between = case.store.leases.lease_of(&case.space, 200).await.unwrap().unwrap();
    assert_eq!((between.purpose, between.ordinals), (Purpose::Advance, 10..300));
}

pub(super) async fn an_advance_never_goes_back_or_past_the_end(case: &Case) {
    case.with_capacity(100).await;
    case.lease(50).await;
    let record = case.store.spaces.advance(&case.space, to(20), &case.instance).await.unwrap();
    assert_eq!(record.mark.next, 50);
    let record = case.store.spaces.advance(&case.space, to(500), &case.instance).await.unwrap();
    assert_eq!((record.mark.next, record.left()), (100, 0));
}

pub(super) async fn an_advance_goes_beyond_the_eras_that_were_seen(case: &Case) {
    case.with_capacity(100).await;
    // A backup from before an earlier advance was restored: what was seen is eras ahead.
    let seen = Mark {
        revision: 3 * keymill_engine::internals::store::ERA + 7,
        next: 40,
        ..Mark::default()
    };
    let record = case.store.spaces.advance(&case.space, seen, &case.instance).await.unwrap();
    assert!(record.mark.has_reached(seen), "{:?}", record.mark);
    let floor = case.floor(seen.revision, seen.next);
    let grant = case.lease_above(&floor, &case.ask(1)).await.unwrap();
    assert_eq!(grant.ordinals, 40..41);
}

pub(super) async fn a_space_that_was_seen_and_is_gone_is_not_made_again(case: &Case) {
    let new = NewSpace {
        name: case.space.clone(),
        definition: Definition::default(),
        tuning: Tuning::default(),
        fingerprint: None,
        capacity: 100,
        start: 0,
    };
    let seen = case.floor(5, 50);
    assert!(is_rolled_back(&case.store.spaces.create(&new, &seen).await));
    let another = Floor { store: "another".to_owned(), mark: Mark::default() };
    assert!(is_rolled_back(&case.store.spaces.create(&new, &another).await));
    assert!(matches!(case.store.spaces.create(&new, &case.unseen).await, Ok(Created::Made(_))));
}
