//! A process that is paused between a commit and the moment when it remembers it: meanwhile the store is rolled
//! back to before that commit, and others move it on. What was committed is gone, though the store has come as
//! far again; so nothing of it may be told or handed out.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keymill_engine::ServiceError;
use keymill_engine::clock::{Clock, ClockHand};
use keymill_engine::operations::{Filling, Service, Setup, State};
use keymill_engine::space::{Kind, SpaceSpec};

use crate::rollback::{back_up, restore, tickets};
use crate::unreliable::{Unreliable, setup};

#[tokio::test]
async fn a_key_whose_retirement_was_rolled_back_meanwhile_is_not_told_to_be_retired() {
    let folder = tempfile::tempdir().unwrap();
    let (store, paused) = start(folder.path(), "one").await;
    let space = tickets(&paused, 1_000).await;
    paused.take(&space, 5, "", |_| {}).await.unwrap();
    roll_back_in_the_pause(&store, folder.path(), |other| async move {
        for alias in ["a", "b", "c"] {
            other.add_alias("tickets", alias, "others").await.unwrap();
        }
    })
    .await;
    let answer = paused.retire("tickets", "000003").await;
    assert!(matches!(answer, Err(ServiceError::RolledBack(_))), "{answer:?}");
    assert_eq!(paused.explain("tickets", "000003").await.unwrap().state, State::Leased);
}

#[tokio::test]
async fn an_alias_whose_removal_was_rolled_back_meanwhile_is_not_told_to_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (store, paused) = start(folder.path(), "one").await;
    tickets(&paused, 1_000).await;
    paused.add_alias("tickets", "sale", "me").await.unwrap();
    roll_back_in_the_pause(&store, folder.path(), |other| async move {
        for alias in ["a", "b", "c"] {
            other.add_alias("tickets", alias, "others").await.unwrap();
        }
    })
    .await;
    let answer = paused.remove_alias("tickets", "sale", "me").await;
    assert!(matches!(answer, Err(ServiceError::StoreUnavailable(_))), "{answer:?}");
    assert_eq!(paused.alias("tickets", "sale").await.unwrap().owner, "me", "it is still there");
    // Asked again, it is removed.
    paused.remove_alias("tickets", "sale", "me").await.unwrap();
    assert!(paused.alias("tickets", "sale").await.is_err());
}

#[tokio::test]
async fn keys_whose_claim_was_rolled_back_meanwhile_are_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, paused) = start(folder.path(), "one").await;
    let wanted = SpaceSpec {
        kind: Some(Kind::Pooled),
        alphabet: Some("decimal".to_owned()),
        length: Some(6),
        blocklist: Some(false),
        ..SpaceSpec::default()
    };
    paused.ensure_space("tickets", &wanted).await.unwrap();
    let space = paused.space("tickets").await.unwrap();
    paused.fill_pool("tickets", Filling::Add(100), |_, _| {}).await.unwrap();
    roll_back_in_the_pause(&store, folder.path(), |other| async move {
        let space = other.space("tickets").await.unwrap();
        for _ in 0..3 {
            other.take_exactly(&space, 5, "", |_| true).await.unwrap();
        }
    })
    .await;
    let each = |key: &[u8]| -> bool { panic!("{key:?} is another's now") };
    let answer = paused.take_exactly(&space, 5, "", each).await;
    assert!(matches!(answer, Err(ServiceError::RolledBack(_))), "{answer:?}");
}

#[tokio::test]
async fn keys_of_a_pool_that_expire_while_a_take_waits_for_more_are_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, hand) = (Unreliable::open(folder.path()).await, Arc::<ClockHand>::default());
    let clock = Clock::moved_by(&hand);
    let setup = Setup { clock: clock.clone(), ..setup(store.store(), &folder.path().join("one")) };
    let paused = Service::start(setup).await.unwrap();
    let wanted = SpaceSpec {
        kind: Some(Kind::Pooled),
        ttl_seconds: Some(60),
        lease_size_min: Some(10),
        lease_size_max: Some(10),
        ..SpaceSpec::default()
    };
    paused.ensure_space("coupons", &wanted).await.unwrap();
    let space = paused.space("coupons").await.unwrap();
    paused.fill_pool("coupons", Filling::Add(1_000), |_, _| {}).await.unwrap();
    paused.take(&space, 1, "", |_| {}).await.unwrap();
    // The take has what is in memory, and waits for a claim behind whose commit a minute passes.
    store.pause_for(async move { hand.advance(Duration::from_secs(61)) });
    match paused.take(&space, 500, "", |_| {}).await {
        Ok(taken) => {
            let left = taken.expires_at.unwrap().as_millisecond() - clock.now_ms();
            assert!(left > 0, "a key has expired {} ms ago", -left);
        }
        Err(error) => assert!(error.to_string().contains("grew too old"), "{error}"),
    }
}

/// An instance with a data directory of its own, and its link to the store.
async fn start(folder: &Path, data_dir: &str) -> (Arc<Unreliable>, Service) {
    let store = Unreliable::open(folder).await;
    let service = Service::start(setup(store.store(), &folder.join(data_dir))).await.unwrap();
    (store, service)
}

/// Has the store rolled back to what it is now while an instance is paused behind its next commit, and moved on
/// by an instance that knows nothing of that commit.
async fn roll_back_in_the_pause<F>(
    store: &Unreliable,
    folder: &Path,
    move_on: impl FnOnce(Service) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (_, other) = start(folder, "two").await;
    back_up(folder);
    let folder = folder.to_owned();
    store.pause_for(async move {
        restore(&folder);
        move_on(other).await;
    });
}
