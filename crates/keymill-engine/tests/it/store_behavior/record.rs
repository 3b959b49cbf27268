//! The record: which lease, who held it.

use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{InstancePage, LeasePage, Pulse};

use super::Case;

pub(super) async fn the_lease_of_an_ordinal_is_the_one_that_drew_it(case: &Case) {
    case.with_capacity(1_000).await;
    let first = case.lease(10).await;
    let open = case.store.leases.lease_of(&case.space, 9).await.unwrap().unwrap();
    assert_eq!((open.lease, open.ordinals, open.closed_at), (first.lease, 0..10, None));
    assert_eq!((open.holder.id, open.holder.pid), (case.instance.id.clone(), std::process::id()));
    case.give_back(&first, 8).await.unwrap();
    let of = async |ordinal| {
        let found = case.store.leases.lease_of(&case.space, ordinal).await.unwrap();
        found.map(|lease| lease.lease)
    };
    assert_eq!((of(1).await, of(2).await), (Some(first.lease), None));
    // Granted again, given back whole, and granted once more: only the last one counts.
    let second = case.lease(3).await;
    case.give_back(&second, 3).await.unwrap();
    assert_eq!((of(1).await, of(2).await), (Some(first.lease), None));
    let third = case.lease(8).await;
    assert_eq!(third.ordinals, 2..5);
    assert_eq!((of(1).await, of(2).await, of(4).await), {
        (Some(first.lease), Some(third.lease), Some(third.lease))
    });
}

pub(super) async fn leases_are_listed_page_by_page(case: &Case) {
    case.with_capacity(1_000).await;
    let mut granted = Vec::new();
    for _ in 0..5 {
        granted.push(case.lease(1).await.lease);
    }
    let mut listed = Vec::new();
    let mut page = LeasePage { space: Some(case.space.clone()), after: None, limit: 2 };
    loop {
        let leases = case.store.leases.leases(&page).await.unwrap();
        let Some(last) = leases.last() else { break };
        assert!(leases.len() <= 2);
        page.after = Some((last.space.clone(), last.lease));
        listed.extend(leases.into_iter().map(|lease| lease.lease));
    }
    assert_eq!(listed, granted);
    let all = LeasePage { limit: 1_000, ..LeasePage::default() };
    let all = case.store.leases.leases(&all).await.unwrap();
    assert!(all.iter().filter(|lease| lease.space == case.space).count() == 5);
}

pub(super) async fn instances_are_listed_with_their_last_word(case: &Case) {
    let mut pulse = Pulse { address: Some("127.0.0.1:8080".to_owned()), ..case.pulse() };
    case.store.instances.heartbeat(&pulse).await.unwrap();
    let other = Pulse { instance: Instance::this_process(), ..pulse.clone() };
    case.store.instances.heartbeat(&other).await.unwrap();
    (pulse.stopping, pulse.address) = (true, None);
    case.store.instances.heartbeat(&pulse).await.unwrap();
    let mut seen = Vec::new();
    let mut page = InstancePage { after: None, limit: 1 };
    while let [one] = &case.store.instances.instances(&page).await.unwrap()[..] {
        page.after = Some(one.instance.id.clone());
        seen.push(one.clone());
    }
    let of = |id: &str| seen.iter().find(|record| record.instance.id == id).unwrap();
    let (mine, others) = (of(&case.instance.id), of(&other.instance.id));
    assert_eq!(mine.address.as_deref(), Some("127.0.0.1:8080"));
    assert!(mine.stopped_at.is_some() && others.stopped_at.is_none());
    assert_eq!(mine.instance.host, case.instance.host);
}
