//! A process that is paused between a commit and the moment when it remembers it: meanwhile the store is rolled
//! back to before that commit, and others move it on. What was committed is gone, though the store has come as
//! far again; so nothing of it may be told or handed out.

use std::path::Path;
use std::sync::Arc;

use keymill_engine::ServiceError;
use keymill_engine::operations::{Filling, Service, State};
use keymill_engine::space::{Audit, Kind, SpaceSpec};

use crate::rollback::{back_up, pages, restore, tickets};
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
async fn keys_whose_lease_was_rolled_back_meanwhile_are_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, paused) = start(folder.path(), "one").await;
    let (_, maker) = start(folder.path(), "three").await;
    tickets(&maker, 1_000).await;
    roll_back_in_the_pause(&store, folder.path(), |other| async move {
        take_first(&other, "tickets", 5).await.unwrap();
    })
    .await;
    let answer = take_first(&paused, "tickets", 5).await;
    assert!(matches!(answer, Err(ServiceError::RolledBack(_))), "{answer:?}");
}

#[tokio::test]
async fn ids_whose_window_was_rolled_back_meanwhile_are_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, paused) = start(folder.path(), "one").await;
    let (_, maker) = start(folder.path(), "three").await;
    let ids = SpaceSpec { kind: Some(Kind::Snowflake), ..SpaceSpec::default() };
    maker.ensure_space("ids", &ids).await.unwrap();
    roll_back_in_the_pause(&store, folder.path(), |other| async move {
        take_first(&other, "ids", 5).await.unwrap();
    })
    .await;
    let answer = take_first(&paused, "ids", 5).await;
    assert!(matches!(answer, Err(ServiceError::RolledBack(_))), "{answer:?}");
}

#[tokio::test]
async fn keys_whose_note_was_rolled_back_meanwhile_are_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, paused) = start(folder.path(), "one").await;
    let noted = SpaceSpec { audit: Some(Audit::Key), ..SpaceSpec::default() };
    paused.ensure_space("codes", &noted).await.unwrap();
    take_first(&paused, "codes", 5).await.unwrap();
    roll_back_in_the_pause(&store, folder.path(), |other| async move {
        for _ in 0..3 {
            take_first(&other, "codes", 5).await.unwrap();
        }
    })
    .await;
    let answer = take_first(&paused, "codes", 5).await;
    assert!(matches!(answer, Err(ServiceError::RolledBack(_))), "{answer:?}");
}

#[tokio::test]
async fn an_alias_that_was_rolled_back_meanwhile_is_not_told_to_be_added() {
    let folder = tempfile::tempdir().unwrap();
    let (store, paused) = start(folder.path(), "one").await;
    tickets(&paused, 1_000).await;
    roll_back_in_the_pause(&store, folder.path(), |other| async move {
        for alias in ["a", "b", "sale"] {
            other.add_alias("tickets", alias, "others").await.unwrap();
        }
    })
    .await;
    let answer = paused.add_alias("tickets", "sale", "me").await;
    assert!(matches!(answer, Err(ServiceError::RolledBack(_))), "{answer:?}");
    assert_eq!(paused.alias("tickets", "sale").await.unwrap().owner, "others");
}

#[tokio::test]
async fn a_digest_that_was_rolled_back_meanwhile_is_not_told_to_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let (store, paused) = start(folder.path(), "one").await;
    pages(&paused).await;
    roll_back_in_the_pause(&store, folder.path(), |other| async move {
        for input in ["a", "b", "c"] {
            other.digest("pages", "", input).await.unwrap();
        }
    })
    .await;
    let answer = paused.digest("pages", "", "mine").await;
    assert!(matches!(answer, Err(ServiceError::RolledBack(_))), "{answer:?}");
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

/// Takes keys of a keyspace that the instance may not have used before.
async fn take_first(
    service: &Service,
    space: &str,
    count: u32,
) -> Result<Vec<String>, ServiceError> {
    let space = service.space(space).await?;
    let mut keys = Vec::new();
    let each = |key: &[u8]| keys.push(String::from_utf8_lossy(key).into_owned());
    service.take(&space, count, "", each).await?;
    Ok(keys)
}
