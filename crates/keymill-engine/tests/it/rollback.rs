//! A store that is rolled back under instances that share nothing but the store: how far an advance
//! goes, what becomes of leases that it does not know of, and what digests do instead.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keymill_engine::ServiceError;
use keymill_engine::operations::{AdvanceAsk, Service, Space, Withdrawn};
use keymill_engine::space::{Kind, SpaceSpec};
use rusqlite::Connection;
use rusqlite::backup::Backup;
use tokio::task::JoinSet;

use crate::unreliable::{Unreliable, setup};

#[tokio::test]
async fn an_advance_says_how_to_go_on_where_nothing_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    let space = tickets(&service, 1_000).await;
    take(&service, &space, 10).await.unwrap();
    let refusal = service.plan_advance("tickets", AdvanceAsk::default()).await.unwrap_err();
    let says = refusal.to_string();
    assert!(says.contains("--to ORDINAL") && says.contains("--beyond-keys FILE"), "{says}");
    let ask = AdvanceAsk { to: Some(5_000), ..AdvanceAsk::default() };
    let plan = service.plan_advance("tickets", ask).await.unwrap();
    assert_eq!((plan.before.mark.next, plan.next), (1_000, 5_000));
    assert_eq!(service.advance(&plan).await.unwrap().mark.next, 5_000);
}

#[tokio::test]
async fn an_advance_beyond_keys_counts_those_that_were_generated_and_leases_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    let space = tickets(&service, 1_000).await;
    take(&service, &space, 10).await.unwrap();
    service.add_alias("tickets", "500000", "me").await.unwrap();
    service.import_used("tickets", &["600000".to_owned()]).await.unwrap();
    let mut keys = service.highest_keys("tickets").await.unwrap();
    for key in ["000003", "000777", "500000", "600000", "000777", "12345", "no key"] {
        keys.add(key);
    }
    assert_eq!((keys.counted, keys.elsewhere, keys.other), (5, 0, 2));
    let ask = AdvanceAsk { beyond: Some(keys), ..AdvanceAsk::default() };
    let plan = service.plan_advance("tickets", ask).await.unwrap();
    let expected = [(777, "000777".to_owned()), (3, "000003".to_owned())];
    assert_eq!(plan.highest, expected, "neither the alias nor the imported key");
    assert_eq!((plan.in_flight, plan.next), (2_000, 777 + 1 + 2_000));
    assert_eq!(service.advance(&plan).await.unwrap().mark.next, 2_778);
    // Names alone tell nothing.
    let mut keys = service.highest_keys("tickets").await.unwrap();
    ["500000", "600000"].into_iter().for_each(|key| keys.add(key));
    let ask = AdvanceAsk { beyond: Some(keys), ..AdvanceAsk::default() };
    let refusal = service.plan_advance("tickets", ask).await.unwrap_err().to_string();
    assert!(refusal.contains("no generated key"), "{refusal}");
}

#[tokio::test]
async fn keys_in_use_are_read_line_by_line_however_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    tickets(&service, 1_000).await;
    let file = b"\xef\xbb\xbf000007\r\n\n 000009 \n\xff\xfe\nno key\n000003";
    for size in [1, 2, 5, file.len()] {
        // Only the highest is remembered, and all are counted.
        let mut keys = service.highest_keys("tickets").await.unwrap().keeping(1);
        file.chunks(size).for_each(|chunk| keys.push(chunk));
        keys.finish();
        assert_eq!((keys.counted, keys.other), (3, 2), "{size} bytes at a time");
        let ask = AdvanceAsk { beyond: Some(keys), ..AdvanceAsk::default() };
        let plan = service.plan_advance("tickets", ask).await.unwrap();
        assert_eq!(plan.highest, [(9, "000009".to_owned())]);
    }
}

#[tokio::test]
async fn a_lease_that_an_advance_did_not_know_of_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), "one").await;
    let space = tickets(&first, 1_000).await;
    back_up(folder.path());
    let mut taken: HashSet<u64> = take(&first, &space, 5).await.unwrap().into_iter().collect();
    assert_eq!(space.at_hand(), 995);
    restore(folder.path());
    // Somebody goes on from a guess that is too low, with small leases.
    let second = start(folder.path(), "two").await;
    let ask = AdvanceAsk { to: Some(20), ..AdvanceAsk::default() };
    let plan = second.plan_advance("tickets", ask).await.unwrap();
    second.advance(&plan).await.unwrap();
    let there = tickets(&second, 10).await;
    for ordinal in take(&second, &there, 30).await.unwrap() {
        assert!(taken.insert(ordinal), "{ordinal} came twice");
    }
    first.announce("127.0.0.1:1".to_owned());
    let dropped = async {
        while space.at_hand() == 995 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let dropped = tokio::time::timeout(Duration::from_secs(5), dropped).await;
    assert!(dropped.is_ok(), "it still has keys that are others' now");
    for _ in 0..100 {
        for ordinal in take(&first, &space, 10).await.unwrap_or_default() {
            assert!(taken.insert(ordinal), "{ordinal} came twice");
        }
    }
    first.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn what_a_large_take_has_not_written_when_an_advance_overtakes_it_is_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), "one").await;
    let space = tickets(&first, 1_000).await;
    back_up(folder.path());
    let mut taken: HashSet<u64> = take(&first, &space, 25).await.unwrap().into_iter().collect();
    let mut slow = first.take_later(&space, 5, "").await.unwrap();
    let given_up = first.take_later(&space, 5, "").await.unwrap();
    assert_eq!(space.at_hand(), 965);
    restore(folder.path());
    let second = start(folder.path(), "two").await;
    let ask = AdvanceAsk { to: Some(25), ..AdvanceAsk::default() };
    let plan = second.plan_advance("tickets", ask).await.unwrap();
    second.advance(&plan).await.unwrap();
    let there = tickets(&second, 10).await;
    // The very keys that the first instance has drawn and not written.
    for ordinal in take(&second, &there, 30).await.unwrap() {
        assert!(taken.insert(ordinal), "{ordinal} came twice");
    }
    assert!((25..35).all(|ordinal| taken.contains(&ordinal)));
    first.announce("127.0.0.1:1".to_owned());
    let dropped = async {
        while space.at_hand() == 965 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), dropped).await.expect("the lease is dropped");
    assert_eq!(slow.write(5, |_| panic!("a key that is another's now")), Err(Withdrawn));
    drop((slow, given_up));
    for _ in 0..100 {
        for ordinal in take(&first, &space, 10).await.unwrap_or_default() {
            assert!(taken.insert(ordinal), "{ordinal} came twice");
        }
    }
    first.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn an_advance_of_digests_is_refused_and_names_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    pages(&service).await;
    let refusal = service.plan_advance("pages", AdvanceAsk::default()).await.unwrap_err();
    let says = refusal.to_string();
    assert!(matches!(refusal, ServiceError::WrongKind(_)), "{says}");
    for way in ["keymill space grow pages --length 5", "--inputs-again"] {
        assert!(says.contains(way), "{says}");
    }
}

#[tokio::test]
async fn digests_grow_and_known_inputs_keep_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (start(folder.path(), "one").await, start(folder.path(), "two").await);
    pages(&first).await;
    let before = digest(&first, 0..50).await;
    assert_eq!(digest(&second, 0..50).await, before);
    first.grow("pages", 6).await.unwrap();
    // The second has not heard of it.
    assert_eq!(digest(&second, 0..50).await, before, "what is known keeps its key");
    let (here, there) = tokio::join!(digest(&first, 50..90), digest(&second, 50..90));
    assert_eq!(here, there, "instances agree");
    assert!(here.iter().all(|key| key.len() == 6), "{here:?}");
    assert_eq!(here.iter().collect::<HashSet<_>>().len(), 40);
}

#[tokio::test]
async fn digests_that_grow_after_a_rollback_give_no_key_to_another_input() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (start(folder.path(), "one").await, start(folder.path(), "two").await);
    pages(&first).await;
    let known = digest(&first, 0..20).await;
    back_up(folder.path());
    let lost: HashSet<String> = digest(&first, 20..900).await.into_iter().collect();
    restore(folder.path());
    let refusal = first.digest("pages", "", "anything").await.unwrap_err();
    assert!(matches!(refusal, ServiceError::RolledBack(_)), "{refusal}");
    first.grow("pages", 5).await.unwrap();
    assert_eq!(digest(&second, 0..20).await, known, "what the backup knows keeps its key");
    // Other inputs than before, first: they might have been given the keys of those.
    for key in digest(&second, 1_000..1_900).await {
        assert!(key.len() == 5 && !lost.contains(&key), "{key} was another input's");
    }
    assert_eq!(digest(&first, 1_000..1_010).await, digest(&second, 1_000..1_010).await);
}

/// A growth that the restore has lost may have given keys of its length.
#[tokio::test]
async fn digests_never_grow_to_a_length_that_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    pages(&service).await;
    let known = digest(&service, 0..20).await;
    back_up(folder.path());
    service.grow("pages", 5).await.unwrap();
    digest(&service, 20..60).await;
    restore(folder.path());
    let refusal = service.grow("pages", 5).await.unwrap_err().to_string();
    assert!(refusal.contains("above 5"), "{refusal}");
    service.grow("pages", 6).await.unwrap();
    assert_eq!(digest(&service, 0..20).await, known);
    assert!(digest(&service, 1_000..1_050).await.iter().all(|key| key.len() == 6));
}

/// The end of a key is a change like any other: what it has led to is remembered.
#[tokio::test]
async fn a_store_that_has_lost_the_end_of_a_key_is_noticed_by_the_next_change() {
    for end in ["a retired key", "a removed alias"] {
        let folder = tempfile::tempdir().unwrap();
        let service = start(folder.path(), "one").await;
        let space = tickets(&service, 1_000).await;
        take(&service, &space, 5).await.unwrap();
        service.add_alias("tickets", "sale", "me").await.unwrap();
        back_up(folder.path());
        match end {
            "a retired key" => drop(service.retire("tickets", "000003").await.unwrap()),
            _ => service.remove_alias("tickets", "sale", "me").await.unwrap(),
        }
        restore(folder.path());
        let refusal = service.add_alias("tickets", "summer", "me").await.unwrap_err();
        assert!(matches!(refusal, ServiceError::RolledBack(_)), "{end}: {refusal}");
    }
}

#[tokio::test]
async fn a_newcomer_minds_what_a_living_instance_has_seen() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path(), "one").await;
    let space = tickets(&first, 100).await;
    back_up(folder.path());
    take(&first, &space, 50).await.unwrap();
    restore(folder.path());
    first.announce("127.0.0.1:1".to_owned());
    let reported = async {
        let looker = Connection::open(folder.path().join("keymill.db")).unwrap();
        let count = "SELECT count(*) FROM sightings";
        while looker.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), reported).await.unwrap();
    let newcomer = start(folder.path(), "two").await;
    let there = newcomer.space("tickets").await.unwrap();
    let refusal = take(&newcomer, &there, 10).await.unwrap_err();
    assert!(matches!(refusal, ServiceError::RolledBack(_)), "{refusal}");
    first.stop(Duration::from_secs(5)).await;
}

/// No store has to know of them. The check looked at leases, which they have none of, and refused what a
/// take would have given.
#[tokio::test]
async fn uuids_are_handed_out_while_the_store_is_rolled_back_and_the_check_before_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    let wanted = SpaceSpec { kind: Some(Kind::Uuid), ..SpaceSpec::default() };
    service.ensure_space("uuids", &wanted).await.unwrap();
    let space = service.space("uuids").await.unwrap();
    back_up(folder.path());
    service.add_alias("uuids", "home", "me").await.unwrap();
    restore(folder.path());
    service.announce("127.0.0.1:1".to_owned());
    let noticed = async {
        while !service.health().problems.iter().any(|it| it.code == "store_rolled_back") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), noticed).await.expect("the rollback is noticed");
    space.check_take().unwrap();
    assert_eq!(service.take(&space, 2, "", |_| {}).await.unwrap().count, 2);
    service.stop(Duration::from_secs(5)).await;
}

/// An instance with a data directory of its own.
async fn start(folder: &Path, data_dir: &str) -> Service {
    let store = Unreliable::open(folder).await;
    Service::start(setup(store.store(), &folder.join(data_dir))).await.unwrap()
}

/// A space whose keys are their ordinals, with leases of this size from now on.
pub(crate) async fn tickets(service: &Service, lease_size: u64) -> Arc<Space> {
    let wanted = SpaceSpec {
        kind: Some(Kind::Sequential),
        alphabet: Some("decimal".to_owned()),
        length: Some(6),
        lease_size_min: Some(lease_size),
        lease_size_max: Some(lease_size),
        horizon_seconds: Some(1),
        ..SpaceSpec::default()
    };
    service.ensure_space("tickets", &wanted).await.unwrap();
    service.space("tickets").await.unwrap()
}

/// A space of ten thousand digests.
pub(crate) async fn pages(service: &Service) {
    let wanted = SpaceSpec {
        kind: Some(Kind::Digest),
        alphabet: Some("decimal".to_owned()),
        length: Some(4),
        ..SpaceSpec::default()
    };
    service.ensure_space("pages", &wanted).await.unwrap();
}

/// The keys of inputs by number, in their order. All are asked for at once, and share commits.
async fn digest(service: &Service, inputs: Range<u32>) -> Vec<String> {
    let mut asking = JoinSet::new();
    for input in inputs {
        let service = service.clone();
        asking.spawn(async move {
            let found = service.digest("pages", "", &format!("page {input}")).await.unwrap();
            (input, found.key)
        });
    }
    let mut keys = asking.join_all().await;
    keys.sort_unstable();
    keys.into_iter().map(|(_, key)| key).collect()
}

async fn take(service: &Service, space: &Arc<Space>, count: u32) -> Result<Vec<u64>, ServiceError> {
    let mut ordinals = Vec::new();
    let each = |key: &[u8]| ordinals.push(std::str::from_utf8(key).unwrap().parse().unwrap());
    service.take(space, count, "", each).await?;
    Ok(ordinals)
}

pub(crate) fn back_up(folder: &Path) {
    copy(&folder.join("keymill.db"), &folder.join("backup.db"));
}

/// Restores the database in place, under those who have it open.
pub(crate) fn restore(folder: &Path) {
    copy(&folder.join("backup.db"), &folder.join("keymill.db"));
}

fn copy(from: &Path, to: &Path) {
    let from = Connection::open(from).unwrap();
    let mut to = Connection::open(to).unwrap();
    let backup = Backup::new(&from, &mut to).unwrap();
    backup.run_to_completion(1_000, Duration::from_millis(5), None).unwrap();
}
