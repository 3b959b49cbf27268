//! The commit in doubt: a store that grants and then loses the answer.
//!
//! What is in doubt is burned, and burns little: after one doubt the next requests ask for a
//! single ordinal until one succeeds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keymill_engine::clock::{Clock, ClockHand};
use keymill_engine::internals::store::LeasePage;
use keymill_engine::operations::{Service, Setup};
use keymill_engine::space::{Kind, SpaceSpec};

use crate::unreliable::{Unreliable, setup};

/// Starts an instance on a store that loses the answers to so many leases and windows.
async fn start(folder: &Path, to_lose: u32) -> (Arc<Unreliable>, Service) {
    let store = Unreliable::open(folder).await;
    store.lose(to_lose);
    let service = Service::start(setup(store.store(), folder)).await.unwrap();
    service.ensure_space("links", &SpaceSpec::default()).await.unwrap();
    (store, service)
}

#[tokio::test]
async fn a_lease_in_doubt_is_burned_and_the_next_ones_ask_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path(), 4).await;
    let space = service.space("links").await.unwrap();
    let mut first = None;
    service.take(&space, 1, "", |key| first = Some(key.to_vec())).await.unwrap();
    let located = space.generations().ordinal(&first.unwrap()).unwrap();
    // 1000 and three single ones were burned; the fifth, still a single one, was handed out.
    assert_eq!(located, keymill_core::Located::Ordinal(1_003));
    let asked = store.asked();
    assert_eq!(asked[..5], [(1_000, 1_000), (1, 1), (1, 1), (1, 1), (1, 1)]);
    assert_eq!(space.progress().burned, 4);
    // Once one has succeeded, sizes are as before.
    let mut more = 0;
    service.take(&space, 500, "", |_| more += 1).await.unwrap();
    assert_eq!(more, 500);
    let asked = store.asked();
    assert!(asked[5..].iter().all(|(size, _)| *size >= 1_000), "{asked:?}");
    // What was burned is never given back: nobody knows who has it.
    service.stop(Duration::from_secs(5)).await;
    let open: Vec<u64> = store
        .store()
        .leases
        .leases(&LeasePage { limit: 100, ..LeasePage::default() })
        .await
        .unwrap()
        .iter()
        .filter(|lease| lease.closed_at.is_none())
        .map(|lease| lease.ordinals.end - lease.ordinals.start)
        .collect();
    assert_eq!(open, [1_000, 1, 1, 1]);
}

#[tokio::test]
async fn a_link_that_loses_every_answer_cannot_burn_a_space_empty() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path(), u32::MAX).await;
    let space = service.space("links").await.unwrap();
    let take = service.take(&space, 1, "", |_| panic!("a key of a lease in doubt"));
    let many_were_lost = async {
        while store.asked().len() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        taken = take => panic!("it did not wait for an answer: {taken:?}"),
        () = many_were_lost => {}
    }
    let asked = store.asked();
    let burned: u64 = asked.iter().map(|(_, granted)| granted).sum();
    assert!(burned < 1_000 + 100, "{burned} in {} leases", asked.len());
}

#[tokio::test]
async fn a_window_in_doubt_is_not_used_and_the_next_ones_are_short() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path(), 2).await;
    let ids = SpaceSpec { kind: Some(Kind::Snowflake), ..SpaceSpec::default() };
    service.ensure_space("ids", &ids).await.unwrap();
    let space = service.space("ids").await.unwrap();
    let worker = || space.figures().worker;
    service.take(&space, 1, "", |_| {}).await.unwrap();
    // Workers 0 and 1 rest until windows are over that nobody uses.
    assert_eq!(worker(), Some(2));
    let asked = store.asked();
    assert_eq!(asked, [(60_000, 60_000), (1_000, 1_000), (1_000, 1_000)]);
    assert_eq!(space.progress().burned, 2);
    service.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_window_whose_extension_is_in_doubt_is_used_to_its_end_and_no_further() {
    let folder = tempfile::tempdir().unwrap();
    let (store, hand) = (Unreliable::open(folder.path()).await, Arc::<ClockHand>::default());
    let clock = Clock::moved_by(&hand);
    let setup = Setup { clock, ..setup(store.store(), folder.path()) };
    let service = Service::start(setup).await.unwrap();
    let ids =
        SpaceSpec { kind: Some(Kind::Snowflake), window_seconds: Some(2), ..SpaceSpec::default() };
    service.ensure_space("ids", &ids).await.unwrap();
    let space = service.space("ids").await.unwrap();
    let worker = || space.figures().worker;
    service.take(&space, 1, "", |_| {}).await.unwrap();
    assert_eq!(worker(), Some(0));
    store.lose(1);
    // It was made after all, so the next request finds another end on record than it knows.
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while worker() == Some(0) {
        assert!(std::time::Instant::now() < until, "it never goes on with another worker");
        service.take(&space, 1, "", |_| {}).await.unwrap();
        hand.advance(Duration::from_millis(20));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((worker(), space.progress().burned), (Some(1), 1));
    service.stop(Duration::from_secs(5)).await;
}
