//! Keyspaces whose next keys all match the blocklist: takes end, others go on, and somebody gets
//! through.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use keymill_core::Blocklist;
use keymill_engine::ServiceError;
use keymill_engine::internals::store::LeasePage;
use keymill_engine::operations::{Filling, Service, Space};
use keymill_engine::space::{Kind, SpaceSpec};

use crate::unreliable::{Unreliable, setup};

#[tokio::test]
async fn takes_of_a_blocked_stretch_fail_one_after_the_other_and_get_through() {
    let folder = tempfile::tempdir().unwrap();
    let (_, service) = start(folder.path(), &["77"]).await;
    // A million keys that begin with 77, and ten before them.
    let space = numbers(&service, 8, 76_999_990, 200_000).await;
    let taken = take(&service, &space, 10).await.unwrap();
    assert_eq!((taken[0].as_str(), taken[9].as_str()), ("76999990", "76999999"));
    for refused in 0.. {
        match take(&service, &space, 5).await {
            Ok(taken) => {
                assert_eq!(taken[0], "78000000");
                assert!((5..=11).contains(&refused), "{refused} takes were refused");
                break;
            }
            Err(error) => is_blocked(&error),
        }
    }
}

/// Tests run on one thread, as the requests of a connection do.
#[tokio::test]
async fn others_have_their_turns_while_a_take_finds_only_blocked_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (_, service) = start(folder.path(), &["77"]).await;
    let blocked = numbers(&service, 8, 76_999_999, 300_000).await;
    // As many as the other takes can need: they wait for no lease either.
    let plenty = SpaceSpec { lease_size_min: Some(10_000_000), ..SpaceSpec::default() };
    service.ensure_space("links", &plenty).await.unwrap();
    let links = service.space("links").await.unwrap();
    for space in [&blocked, &links] {
        take(&service, space, 1).await.unwrap();
    }
    let turns = Arc::new(AtomicU32::new(0));
    let other = tokio::spawn({
        let (service, turns) = (service.clone(), turns.clone());
        async move {
            loop {
                take(&service, &links, 1).await.unwrap();
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    // All that they look at is in memory: the store is not waited for.
    for count in [1, 10_000] {
        let before = turns.load(Ordering::Relaxed);
        is_blocked(&take(&service, &blocked, count).await.unwrap_err());
        let turns = turns.load(Ordering::Relaxed) - before;
        assert!(turns >= 10, "others had {turns} turns during a take of {count}");
    }
    other.abort();
}

#[tokio::test]
async fn an_exact_take_gives_up_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (_, service) = start(folder.path(), &["77"]).await;
    // Ten million keys.
    let space = numbers(&service, 9, 770_000_000, 1_000).await;
    let mut keys: Vec<String> = Vec::new();
    let mut each = |key: &[u8]| {
        keys.push(text(key));
        true
    };
    let refusal = service.take_exactly(&space, 100_000, "", &mut each).await.unwrap_err();
    is_blocked(&refusal);
    assert_eq!(service.take_exactly(&space, 2, "", &mut each).await.unwrap(), 2);
    assert_eq!(keys, ["780000000", "780000001"]);
}

#[tokio::test]
async fn an_exact_take_of_one_key_passes_a_blocked_stretch_with_few_leases() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path(), &["7777"]).await;
    // A thousand keys.
    let space = numbers(&service, 7, 7_777_000, 1_000).await;
    let mut keys: Vec<String> = Vec::new();
    let each = |key: &[u8]| {
        keys.push(text(key));
        true
    };
    service.take_exactly(&space, 1, "", each).await.unwrap();
    assert_eq!(keys, ["7778000"]);
    let leases = leases(&store).await;
    assert!(leases < 100, "{leases} leases for one key");
}

#[tokio::test]
async fn a_pool_whose_keys_are_all_blocked_is_not_filled_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path(), &["aa", "ab", "ba", "bb"]).await;
    let mut wanted = SpaceSpec {
        kind: Some(Kind::Pooled),
        alphabet: Some("ab".to_owned()),
        length: Some(20),
        ..SpaceSpec::default()
    };
    service.ensure_space("pool", &wanted).await.unwrap();
    for filling in [Filling::Add(10), Filling::UpTo(10)] {
        let before = leases(&store).await;
        is_blocked(&service.fill_pool("pool", filling, |_, _| {}).await.unwrap_err());
        let fills = leases(&store).await - before;
        assert!((1..=32).contains(&fills), "{fills} fills");
    }
    wanted.blocklist = Some(false);
    service.ensure_space("pool", &wanted).await.unwrap();
    assert_eq!(service.fill_pool("pool", Filling::Add(10), |_, _| {}).await.unwrap(), 10);
}

async fn start(folder: &Path, words: &[&str]) -> (Arc<Unreliable>, Service) {
    let store = Unreliable::open(folder).await;
    let mut setup = setup(store.store(), folder);
    setup.blocklist = Blocklist::new(words).unwrap();
    (store, Service::start(setup).await.unwrap())
}

/// Decimal numbers of a length from `start` on, with leases of this size.
async fn numbers(service: &Service, length: u8, start: u64, lease_size: u64) -> Arc<Space> {
    let wanted = SpaceSpec {
        kind: Some(Kind::Sequential),
        alphabet: Some("decimal".to_owned()),
        length: Some(length),
        start: Some(start),
        lease_size_min: Some(lease_size),
        lease_size_max: Some(lease_size),
        ..SpaceSpec::default()
    };
    service.ensure_space("numbers", &wanted).await.unwrap();
    service.space("numbers").await.unwrap()
}

async fn take(
    service: &Service,
    space: &Arc<Space>,
    count: u32,
) -> Result<Vec<String>, ServiceError> {
    let mut keys = Vec::new();
    service.take(space, count, "", |key| keys.push(text(key))).await?;
    Ok(keys)
}

#[track_caller]
fn is_blocked(error: &ServiceError) {
    let says = error.to_string();
    assert!(
        matches!(error, ServiceError::NoKeysReady { .. }) && says.contains("blocklist"),
        "{says}"
    );
}

async fn leases(store: &Arc<Unreliable>) -> usize {
    store
        .store()
        .leases
        .leases(&LeasePage { limit: 10_000, ..LeasePage::default() })
        .await
        .unwrap()
        .len()
}

fn text(key: &[u8]) -> String {
    String::from_utf8(key.to_vec()).unwrap()
}
