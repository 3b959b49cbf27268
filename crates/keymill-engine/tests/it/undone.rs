//! Takes that fail: what they had comes back, to other takes, and to other instances at a clean stop.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keymill_engine::ServiceError;
use keymill_engine::internals::store::{LeasePage, UsedPage};
use keymill_engine::operations::{Filling, Service, Space, State};
use keymill_engine::space::{Audit, Kind, SpaceSpec};

use crate::unreliable::{Notes, Unreliable, setup};

/// How long a take waits.
const WAIT: Duration = Duration::from_millis(500);

#[tokio::test]
async fn an_instance_that_puts_each_key_on_record_is_not_ready_while_its_store_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path()).await;
    let space = tickets(&service, Audit::Key).await;
    take(&service, &space, 1).await.unwrap();
    service.announce("here".to_owned());
    let ready = async |wanted: bool| {
        for _ in 0..600 {
            if service.health().ready == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{:?}", service.health());
    };
    ready(true).await;
    store.set_away(true);
    // Keys are at hand, but none of them can be handed out.
    ready(false).await;
    assert!(space.at_hand() > 0);
    store.set_away(false);
    ready(true).await;
}

#[tokio::test]
async fn a_take_that_wants_too_much_leaves_what_is_at_hand_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path()).await;
    let space = tickets(&service, Audit::Batch).await;
    assert_eq!(take(&service, &space, 1).await.unwrap(), [0]);
    assert_eq!(space.at_hand(), 999);
    store.set_away(true);
    let large = tokio::spawn({
        let (service, space) = (service.clone(), space.clone());
        async move { take(&service, &space, 5_000).await }
    });
    store.refuses_one().await;
    let during = take(&service, &space, 500).await.unwrap();
    assert!(!large.is_finished(), "it waits for the rest");
    let refusal = large.await.unwrap().unwrap_err();
    assert!(matches!(refusal, ServiceError::NoKeysReady { .. }), "{refusal}");
    let after = take(&service, &space, 499).await.unwrap();
    assert_eq!([during, after].concat(), (1..1_000).collect::<Vec<u64>>());
    assert_eq!(space.at_hand(), 0);
    store.set_away(false);
    assert_eq!(first_of(&service, &space).await, 1_000);
}

#[tokio::test]
async fn a_take_that_is_dropped_while_it_waits_gives_its_keys_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service, space) = two_leases(folder.path()).await;
    let dropped = tokio::time::timeout(WAIT / 5, take(&service, &space, 5_000)).await;
    assert!(dropped.is_err(), "{dropped:?}");
    assert_eq!(space.at_hand(), 1_200);
    assert_eq!(take(&service, &space, 1_200).await.unwrap(), (800..2_000).collect::<Vec<u64>>());
    store.set_away(false);
    assert_eq!(first_of(&service, &space).await, 2_000);
}

#[tokio::test]
async fn what_a_failed_take_had_drawn_is_given_back_at_a_clean_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service, space) = two_leases(folder.path()).await;
    let refusal = take(&service, &space, 5_000).await.unwrap_err();
    assert!(matches!(refusal, ServiceError::NoKeysReady { .. }), "{refusal}");
    assert_eq!(space.at_hand(), 1_200);
    store.set_away(false);
    service.stop(Duration::from_secs(5)).await;
    let record = store.store().spaces.space("tickets").await.unwrap();
    assert!(record.returned.contains(800) && record.returned.contains(1_999), "{record:?}");
    let later = Service::start(setup(store.store(), &folder.path().join("later"))).await.unwrap();
    let told = later.explain("tickets", "000900").await.unwrap();
    assert_eq!(told.state, State::Unissued, "nobody was given it: {}", told.reason);
    let told = later.explain("tickets", "000799").await.unwrap();
    assert_eq!(told.state, State::Issued, "{}", told.reason);
    let space = later.space("tickets").await.unwrap();
    assert_eq!(take(&later, &space, 1_200).await.unwrap(), (800..2_000).collect::<Vec<u64>>());
    let told = later.explain("tickets", "000900").await.unwrap();
    assert_eq!(told.lease.unwrap().holder.id, later.instance().id, "{}", told.reason);
}

#[tokio::test]
async fn keys_whose_note_is_refused_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path()).await;
    let space = tickets(&service, Audit::Key).await;
    assert_eq!(take(&service, &space, 10).await.unwrap(), (0..10).collect::<Vec<u64>>());
    store.set_notes(Notes::Refused);
    let refusal = take(&service, &space, 100).await.unwrap_err();
    assert!(matches!(refusal, ServiceError::StoreUnavailable(_)), "{refusal}");
    assert_eq!(space.at_hand(), 990);
    store.set_notes(Notes::Answered);
    let taken = take(&service, &space, 100).await.unwrap();
    assert_eq!(taken, (10..110).collect::<Vec<u64>>());
    assert_eq!(on_record(&store).await, (0..110).collect::<Vec<u64>>());
}

#[tokio::test]
async fn keys_whose_note_is_in_doubt_are_never_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path()).await;
    let space = tickets(&service, Audit::Key).await;
    assert_eq!(take(&service, &space, 10).await.unwrap(), (0..10).collect::<Vec<u64>>());
    store.set_notes(Notes::Lost);
    assert!(take(&service, &space, 100).await.is_err());
    assert_eq!(space.at_hand(), 890);
    store.set_notes(Notes::Answered);
    let taken = take(&service, &space, 100).await.unwrap();
    assert_eq!(taken, (110..210).collect::<Vec<u64>>());
    assert_eq!(on_record(&store).await, (0..210).collect::<Vec<u64>>(), "the lost ones, too");
    service.stop(Duration::from_secs(5)).await;
    let returned = store.store().spaces.space("tickets").await.unwrap().returned;
    assert!(!(0..210).any(|ordinal| returned.contains(ordinal)), "{returned:?}");
    assert!((210..1_000).all(|ordinal| returned.contains(ordinal)), "{returned:?}");
}

#[tokio::test]
async fn a_large_take_of_a_space_with_tiny_leases_needs_few_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = Unreliable::open(folder.path()).await;
    let service = Service::start(setup(store.store(), folder.path())).await.unwrap();
    let tiny = SpaceSpec {
        lease_size_min: Some(1),
        lease_size_max: Some(1),
        horizon_seconds: Some(1),
        ..SpaceSpec::default()
    };
    service.ensure_space("links", &tiny).await.unwrap();
    let space = service.space("links").await.unwrap();
    let mut count = 0;
    service.take(&space, 100_000, "", |_| count += 1).await.unwrap();
    assert_eq!(count, 100_000);
    let page = LeasePage { limit: 1_000, ..LeasePage::default() };
    let leases = store.store().leases.leases(&page).await.unwrap().len();
    assert!(leases < 10, "{leases} leases for one take");
}

/// Both claims at hand are drawn, and then the rest does not come.
#[tokio::test]
async fn a_take_of_a_pool_that_fails_half_way_gives_its_keys_back_once() {
    let folder = tempfile::tempdir().unwrap();
    let (store, service) = start(folder.path()).await;
    let wanted = SpaceSpec {
        kind: Some(Kind::Pooled),
        alphabet: Some("decimal".to_owned()),
        length: Some(6),
        blocklist: Some(false),
        lease_size_min: Some(100),
        lease_size_max: Some(100),
        horizon_seconds: Some(1),
        ..SpaceSpec::default()
    };
    service.ensure_space("tickets", &wanted).await.unwrap();
    let space = service.space("tickets").await.unwrap();
    service.fill_pool("tickets", Filling::Add(1_000), |_, _| {}).await.unwrap();
    let mut taken = take(&service, &space, 80).await.unwrap();
    let second = async {
        while space.at_hand() <= 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), second).await.expect("a second claim");
    store.set_away(true);
    take(&service, &space, 400).await.unwrap_err();
    store.set_away(false);
    let mut refusals = 0;
    while refusals < 60 {
        match take(&service, &space, 7).await {
            Ok(some) => taken.extend(some),
            Err(ServiceError::PoolEmpty { .. } | ServiceError::Exhausted { .. }) => break,
            Err(_) => {
                refusals += 1;
                tokio::time::sleep(WAIT / 5).await;
            }
        }
    }
    let count = taken.len();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!((taken.len(), count), (1_000, 1_000), "every key once");
}

async fn start(folder: &Path) -> (Arc<Unreliable>, Service) {
    let store = Unreliable::open(folder).await;
    let mut setup = setup(store.store(), folder);
    setup.limits.wait_max = WAIT;
    (store, Service::start(setup).await.unwrap())
}

/// A space whose keys are their ordinals, with leases of a thousand.
async fn tickets(service: &Service, audit: Audit) -> Arc<Space> {
    let wanted = SpaceSpec {
        kind: Some(Kind::Sequential),
        alphabet: Some("decimal".to_owned()),
        length: Some(6),
        lease_size_min: Some(1_000),
        lease_size_max: Some(1_000),
        // So that what was taken asks for no more than that.
        horizon_seconds: Some(1),
        audit: Some(audit),
        ..SpaceSpec::default()
    };
    service.ensure_space("tickets", &wanted).await.unwrap();
    service.space("tickets").await.unwrap()
}

/// An instance that holds the last 200 of one lease and all of another, on a store that is away.
async fn two_leases(folder: &Path) -> (Arc<Unreliable>, Service, Arc<Space>) {
    let (store, service) = start(folder).await;
    let space = tickets(&service, Audit::Batch).await;
    assert_eq!(take(&service, &space, 800).await.unwrap().len(), 800);
    let filled = async {
        while space.at_hand() != 1_200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), filled).await.expect("a second lease");
    store.set_away(true);
    (store, service, space)
}

/// The ordinals that a take gives. What one that fails gave until then counts for nothing.
async fn take(service: &Service, space: &Arc<Space>, count: u32) -> Result<Vec<u64>, ServiceError> {
    let mut ordinals = Vec::new();
    let each = |key: &[u8]| ordinals.push(std::str::from_utf8(key).unwrap().parse().unwrap());
    service.take(space, count, "", each).await?;
    Ok(ordinals)
}

/// One key, as soon as the instance has found its store again.
async fn first_of(service: &Service, space: &Arc<Space>) -> u64 {
    for _ in 0..40 {
        match take(service, space, 1).await {
            Ok(taken) => return taken[0],
            Err(_) => tokio::time::sleep(WAIT / 5).await,
        }
    }
    panic!("it never found its store again");
}

/// The ordinals whose keys are on record as used.
async fn on_record(store: &Arc<Unreliable>) -> Vec<u64> {
    let space = "tickets".to_owned();
    let page = UsedPage { space, from: None, to: None, caller: None, after: None, limit: 1_000 };
    let used = store.store().rows.unwrap().use_log.used_page(&page).await.unwrap();
    let mut ordinals: Vec<u64> = used.iter().map(|used| used.key.parse().unwrap()).collect();
    ordinals.sort_unstable();
    ordinals
}
