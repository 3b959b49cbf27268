//! Growth as instances meet it: at the seam, at the end, and with names that are older than the
//! generation they turn out to be of.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keymill_engine::ServiceError;
use keymill_engine::operations::{OpenedStore, Opening, Service, Space, State};
use keymill_engine::space::{Kind, SpaceSpec};

use crate::setup::setup;

#[tokio::test]
async fn an_instance_that_knows_nothing_of_a_growth_goes_on_past_the_seam() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (start(folder.path()).await, start(folder.path()).await);
    let here = open(&first, "decimal").await;
    let there = second.space("tickets").await.unwrap();
    let mut keys = Vec::new();
    second.take(&there, 4, "", |key| keys.push(text(key))).await.unwrap();
    first.grow("tickets", 2).await.unwrap();
    // Both go on to the very end.
    drain(&second, &there, &mut keys).await;
    drain(&first, &here, &mut keys).await;
    let unique: HashSet<&String> = keys.iter().collect();
    assert_eq!((unique.len(), keys.len()), (110, 110));
    for (key, ordinal, number) in [("7", 7, 7), ("00", 10, 0), ("42", 52, 42)] {
        let told = second.explain("tickets", key).await.unwrap();
        assert_eq!((told.ordinal, told.number), (Some(ordinal), Some(number)), "{key}");
        assert!(told.lease.is_some(), "{key}: {}", told.reason);
    }
}

#[tokio::test]
async fn an_instance_that_has_come_to_the_end_finds_a_growth_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (start(folder.path()).await, start(folder.path()).await);
    let space = open(&first, "decimal").await;
    first.announce("127.0.0.1:1".to_owned());
    let mut keys = Vec::new();
    drain(&first, &space, &mut keys).await;
    assert_eq!(keys.len(), 10);
    second.grow("tickets", 2).await.unwrap();
    let found = async {
        while first.take(&space, 1, "", |key| keys.push(text(key))).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.unwrap();
    assert_eq!(keys[10], "00");
    first.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_name_that_is_older_than_its_generation_is_never_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (start(folder.path()).await, start(folder.path()).await);
    let here = open(&first, "hex").await;
    let there = second.space("tickets").await.unwrap();
    // A key, two that will be keys in another spelling, one of which is removed, and no key at all.
    for alias in ["F", "aB", "C0", "zz"] {
        assert!(first.add_alias("tickets", alias, "me").await.unwrap(), "{alias}");
    }
    first.remove_alias("tickets", "C0", "me").await.unwrap();
    first.grow("tickets", 2).await.unwrap();
    // The second instance has not heard of the growth, and must not make a second name of one key.
    let taken = second.add_alias("tickets", "AB", "you").await;
    assert!(matches!(taken, Err(ServiceError::Taken { .. })), "{taken:?}");
    assert!(!second.add_alias("tickets", "ab", "me").await.unwrap(), "it is mine already");
    let told = second.explain("tickets", "Ab").await.unwrap();
    let expected = (State::Alias, Some(16 + 0xab), Some(0xab));
    assert_eq!((told.state, told.ordinal, told.number), expected);
    let mut keys = Vec::new();
    drain(&second, &there, &mut keys).await;
    drain(&first, &here, &mut keys).await;
    let unique: HashSet<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!((unique.len(), keys.len()), (16 + 256 - 3, 16 + 256 - 3));
    for named in ["f", "ab", "c0"] {
        assert!(!unique.contains(named), "{named} was handed out");
    }
    // Removed in whatever spelling, it can be had again, and nobody got it meanwhile.
    first.remove_alias("tickets", "AB", "me").await.unwrap();
    assert_eq!(first.explain("tickets", "ab").await.unwrap().state, State::Skipped);
    assert!(second.add_alias("tickets", "Ab", "you").await.unwrap());
    let other = first.add_alias("tickets", "ab", "me").await;
    assert!(matches!(other, Err(ServiceError::Taken { .. })), "{other:?}");
}

#[tokio::test]
async fn names_that_became_one_key_keep_their_owners() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path()).await;
    let space = open(&service, "hex").await;
    for (alias, owner) in [("ab", "me"), ("AB", "you")] {
        assert!(service.add_alias("tickets", alias, owner).await.unwrap(), "{alias}");
    }
    service.grow("tickets", 2).await.unwrap();
    assert!(!service.add_alias("tickets", "ab", "me").await.unwrap());
    assert!(!service.add_alias("tickets", "AB", "you").await.unwrap());
    service.remove_alias("tickets", "ab", "me").await.unwrap();
    let mut keys = Vec::new();
    drain(&service, &space, &mut keys).await;
    assert_eq!(keys.len(), 16 + 256 - 1);
    assert!(!keys.contains(&"ab".to_owned()));
}

async fn start(folder: &Path) -> Service {
    let url = format!("sqlite:{}", folder.join("keymill.db").display());
    let store = OpenedStore::open(&url, Opening::default()).await.unwrap();
    Service::start(setup(store, folder)).await.unwrap()
}

/// The space `tickets`, with keys of one character.
async fn open(service: &Service, alphabet: &str) -> Arc<Space> {
    let wanted = SpaceSpec {
        kind: Some(Kind::Sequential),
        alphabet: Some(alphabet.to_owned()),
        length: Some(1),
        lease_size_min: Some(1),
        ..SpaceSpec::default()
    };
    service.ensure_space("tickets", &wanted).await.unwrap();
    service.space("tickets").await.unwrap()
}

/// Takes until there is nothing left to take.
async fn drain(service: &Service, space: &Arc<Space>, keys: &mut Vec<String>) {
    loop {
        match service.take(space, 7, "", |key| keys.push(text(key))).await {
            Ok(_) => {}
            Err(ServiceError::Exhausted { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8(key.to_vec()).unwrap()
}
