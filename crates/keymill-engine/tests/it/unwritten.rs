//! Large takes below the protocols: what is promised is written, and what is not written comes back.

use keymill_core::Blocklist;
use keymill_engine::ServiceError;
use keymill_engine::operations::{Service, Setup};
use keymill_engine::space::{Kind, SpaceSpec};

use crate::unreliable::{Unreliable, setup};

#[tokio::test]
async fn every_key_is_written_once_whichever_takes_are_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = Unreliable::open(folder.path()).await;
    let service = Service::start(setup(store.store(), folder.path())).await.unwrap();
    let wanted = SpaceSpec {
        kind: Some(Kind::Sequential),
        alphabet: Some("decimal".to_owned()),
        length: Some(3),
        ..SpaceSpec::default()
    };
    service.ensure_space("tickets", &wanted).await.unwrap();
    let space = service.space("tickets").await.unwrap();
    let mut written: Vec<u64> = Vec::new();
    for turn in 0.. {
        let mut taken = match service.take_later(&space, 60, "").await {
            Ok(taken) => taken,
            Err(ServiceError::Exhausted { .. }) => break,
            Err(error) => panic!("{error}"),
        };
        // Every third take is given up half-way, somewhere within a run.
        let rest = if turn % 3 == 0 { taken.count() / 2 } else { 0 };
        while taken.count() > rest {
            let some = (taken.count() - rest).min(7);
            let each =
                |key: &[u8]| written.push(std::str::from_utf8(key).unwrap().parse().unwrap());
            taken.write(some, each).unwrap();
        }
    }
    assert_eq!(space.at_hand(), 0);
    written.sort_unstable();
    assert_eq!(written, (0..1_000).collect::<Vec<u64>>());
}

#[tokio::test]
async fn as_many_keys_and_bytes_are_written_as_were_promised() {
    let folder = tempfile::tempdir().unwrap();
    let store = Unreliable::open(folder.path()).await;
    // Two letters: of the keys with five, about one in ten is blocked.
    let blocklist = Blocklist::new(["ab", "cd", "ef"]).unwrap();
    let setup = Setup { blocklist, ..setup(store.store(), folder.path()) };
    let service = Service::start(setup).await.unwrap();
    let hex = SpaceSpec {
        alphabet: Some("hex".to_owned()),
        length: Some(5),
        prefix: Some("x-".to_owned()),
        ..SpaceSpec::default()
    };
    let integers = SpaceSpec {
        kind: Some(Kind::Sequential),
        alphabet: Some("decimal".to_owned()),
        length: Some(0),
        ..SpaceSpec::default()
    };
    for (name, wanted) in [("hex", hex), ("integers", integers)] {
        service.ensure_space(name, &wanted).await.unwrap();
        let space = service.space(name).await.unwrap();
        let mut taken = service.take_later(&space, 10_000, "").await.unwrap();
        assert_eq!(taken.count(), 10_000, "{name}");
        let (bytes, mut keys) = (taken.bytes(), Vec::new());
        while taken.count() > 0 {
            taken.write(999, |key| keys.push(String::from_utf8(key.to_vec()).unwrap())).unwrap();
        }
        assert_eq!(keys.iter().map(|key| key.len() as u64).sum::<u64>(), bytes, "{name}");
        assert!(keys.iter().all(|key| !["ab", "cd", "ef"].iter().any(|word| key.contains(word))));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!((keys.len(), taken.bytes()), (10_000, 0), "{name}");
    }
}
