//! Tokens on record, through the service: what authentication is told of them, whatever happens to the
//! store.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use keymill_engine::ServiceError;
use keymill_engine::operations::{Act, Service, Setup, TokenRecord, TokenSecret};
use keymill_engine::space::secret::Master;
use rusqlite::Connection;
use tokio::task::JoinSet;

use crate::rollback::{back_up, restore, tickets};
use crate::unreliable::{Unreliable, setup};

#[tokio::test]
async fn tokens_are_known_to_all_instances_and_once_there_was_one_that_is_never_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (start(folder.path(), "one").await, start(folder.path(), "two").await);
    let known = first.tokens().await.unwrap();
    assert_eq!((known.revision, known.tokens.len()), (0, 0));
    assert!(!known.ever && !known.rolled_back);
    create(&first, "shop").await.unwrap();
    let known = second.tokens().await.unwrap();
    assert_eq!((known.revision, known.tokens), (1, vec![token("shop")]));
    assert!(known.ever && !known.rolled_back);
    revoke(&second, "shop").await.unwrap();
    for service in [&first, &second] {
        let known = service.tokens().await.unwrap();
        assert!(known.tokens.is_empty() && known.ever, "callers need one, and there is none");
    }
    // A change that changes nothing is none.
    first.change_tokens(|_| Ok(())).await.unwrap();
    assert_eq!(first.tokens().await.unwrap().revision, 2);
}

#[tokio::test]
async fn a_token_list_that_was_rolled_back_is_told_until_it_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (start(folder.path(), "one").await, start(folder.path(), "two").await);
    create(&first, "shop").await.unwrap();
    create(&first, "thief").await.unwrap();
    second.tokens().await.unwrap();
    back_up(folder.path());
    revoke(&first, "thief").await.unwrap();
    create(&first, "late").await.unwrap();
    assert!(!second.tokens().await.unwrap().rolled_back);
    restore(folder.path());
    for service in [&first, &second] {
        let known = service.tokens().await.unwrap();
        assert!(known.rolled_back && known.ever);
        assert_eq!(names(&known.tokens), ["shop", "thief"], "authentication can tell");
        let health = service.health();
        assert!(health.ready, "keys can be handed out");
        assert!(health.problems.iter().any(|it| it.code == "tokens_rolled_back"), "{health:?}");
    }
    // An instance that has seen nothing cannot know of it.
    let third = start(folder.path(), "three").await;
    assert!(!third.tokens().await.unwrap().rolled_back);
    revoke(&first, "thief").await.unwrap();
    for service in [&first, &second, &third] {
        let known = service.tokens().await.unwrap();
        assert!(!known.rolled_back && known.ever);
        assert_eq!(names(&known.tokens), ["shop"]);
        assert!(service.health().problems.is_empty());
    }
    create(&second, "late").await.unwrap();
    assert_eq!(names(&first.tokens().await.unwrap().tokens), ["shop", "late"]);
}

#[tokio::test]
async fn tokens_that_were_all_lost_with_the_store_leave_authentication_on() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    back_up(folder.path());
    create(&service, "shop").await.unwrap();
    restore(folder.path());
    let known = service.tokens().await.unwrap();
    assert!(known.tokens.is_empty() && known.ever && known.rolled_back);
    // An operator who looks and finds nothing to revoke goes on.
    service.change_tokens(|_| Ok(())).await.unwrap();
    let known = service.tokens().await.unwrap();
    assert!(known.tokens.is_empty() && known.ever && !known.rolled_back);
    service.stop(Duration::from_secs(5)).await;
    drop(service);
    // Another store, behind the same data directory.
    for file in ["keymill.db", "keymill.db-wal", "keymill.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(file));
    }
    let service = start_with_secret(folder.path(), "one").await;
    let known = service.tokens().await.unwrap();
    assert_eq!((known.revision, known.tokens.len()), (0, 0));
    assert!(known.ever && !known.rolled_back);
    let refusal = create(&service, "shop").await.unwrap_err();
    assert!(matches!(refusal, ServiceError::OtherStore(_)), "{refusal}");
}

/// The floor files are read and compared with every heartbeat, name by name.
#[tokio::test]
async fn the_token_list_is_no_keyspace_that_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    tickets(&service, 10).await;
    create(&service, "shop").await.unwrap();
    let before = beats(folder.path());
    service.announce("127.0.0.1:1".to_owned());
    let beaten = async {
        while beats(folder.path()) == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), beaten).await.expect("it beats");
    service.stop(Duration::from_secs(5)).await;
    let problems = service.health().problems;
    assert!(!problems.iter().any(|it| it.code.contains("rolled_back")), "{problems:?}");
}

#[tokio::test]
async fn changes_at_once_are_all_made() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (start(folder.path(), "one").await, start(folder.path(), "two").await);
    let mut creating = JoinSet::new();
    for number in 0..8 {
        let service = if number % 2 == 0 { first.clone() } else { second.clone() };
        creating.spawn(async move { create(&service, &format!("t{number}")).await.unwrap() });
    }
    creating.join_all().await;
    let known = first.tokens().await.unwrap();
    assert_eq!((known.revision, known.tokens.len()), (8, 8));
}

#[tokio::test]
async fn a_change_that_is_refused_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    create(&service, "shop").await.unwrap();
    for (name, is_expected) in [
        (
            "shop",
            (|it| matches!(it, ServiceError::TokenExists { .. })) as fn(&ServiceError) -> bool,
        ),
        ("Shop", |it| matches!(it, ServiceError::BadToken(_))),
    ] {
        let refusal = create(&service, name).await.unwrap_err();
        assert!(is_expected(&refusal), "{name}: {refusal}");
    }
    let refusal = revoke(&service, "other").await.unwrap_err();
    assert!(matches!(refusal, ServiceError::UnknownToken { .. }), "{refusal}");
    let known = service.tokens().await.unwrap();
    assert_eq!((known.revision, names(&known.tokens)), (1, vec!["shop"]));
}

/// A revocation that was committed, and lost before anybody relied on it, is not reported as done.
#[tokio::test]
async fn a_change_that_is_lost_before_it_is_sure_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Unreliable::open(folder.path()).await;
    let data_dir = folder.path().join("one");
    let service = Service::start(setup(store.store(), &data_dir)).await.unwrap();
    create(&service, "shop").await.unwrap();
    back_up(folder.path());
    let path = folder.path().to_owned();
    store.pause_for(async move { restore(&path) });
    let refusal = revoke(&service, "shop").await.unwrap_err();
    assert!(matches!(refusal, ServiceError::RolledBack(_)), "{refusal}");
    assert!(refusal.to_string().contains("token list"), "{refusal}");
    let known = service.tokens().await.unwrap();
    assert!(known.rolled_back && names(&known.tokens) == ["shop"]);
    // The same where another has gone on from the backup, just as far.
    service.change_tokens(|_| Ok(())).await.unwrap();
    back_up(folder.path());
    let path = folder.path().to_owned();
    store.pause_for(async move {
        restore(&path);
        let other = start(&path, "two").await;
        create(&other, "other").await.unwrap();
    });
    let refusal = revoke(&service, "shop").await.unwrap_err();
    assert!(matches!(refusal, ServiceError::RolledBack(_)), "{refusal}");
}

#[tokio::test]
async fn a_token_list_that_cannot_be_read_is_an_error_and_its_hashes_are_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    create(&service, "shop").await.unwrap();
    let database = Connection::open(folder.path().join("keymill.db")).unwrap();
    let damage = "UPDATE tokens SET document = replace(document, '\"secrets\"', '\"secret\"')";
    assert_eq!(database.execute(damage, []).unwrap(), 1);
    for refusal in [service.tokens().await.err(), create(&service, "other").await.err()] {
        let refusal = refusal.unwrap();
        assert!(matches!(refusal, ServiceError::Broken(_)), "{refusal}");
        assert!(!refusal.to_string().contains(&hash()), "{refusal}");
    }
}

#[tokio::test]
async fn acts_are_on_record_with_their_time_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), "one").await;
    let before = Timestamp::now();
    service.record_act("root", "10.0.0.1", "token create shop\n--allow").await.unwrap();
    let acts = service.acts(None, 10).await.unwrap();
    let [Act { id: 1, at, by, from, what }] = acts.as_slice() else { panic!("{acts:?}") };
    assert!(at.as_millisecond() >= before.as_millisecond() && *at <= Timestamp::now());
    assert_eq!((by.as_str(), from.as_str()), ("root", "10.0.0.1"));
    assert_eq!(what, "token create shop --allow", "no act looks like two");
    // As if there had been ten thousand others.
    let database = Connection::open(folder.path().join("keymill.db")).unwrap();
    let fill =
        "WITH RECURSIVE ids (id) AS (SELECT 2 UNION ALL SELECT id + 1 FROM ids WHERE id < 10000)
        INSERT INTO acts SELECT id, 0, '', '', 'act ' || id FROM ids";
    database.execute(fill, []).unwrap();
    database.execute("UPDATE tokens SET acts_made = 10000", []).unwrap();
    assert_eq!(service.acts(None, 1).await.unwrap()[0].id, 1, "ten thousand are kept");
    for _ in 0..2 {
        service.record_act("root", "", "one more").await.unwrap();
    }
    let acts = service.acts(None, 20_000).await.unwrap();
    assert_eq!((acts.len(), acts[0].id, acts[9_999].id), (10_000, 3, 10_002));
    assert_eq!(acts[9_999].what, "one more");
    let refusal = service.acts(Some(u64::MAX), 10).await.unwrap_err();
    assert!(matches!(refusal, ServiceError::BadAfter), "{refusal}");
}

#[tokio::test]
async fn tokens_of_a_store_that_is_unreachable_are_an_error_and_not_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Unreliable::open(folder.path()).await;
    let service = Service::start(setup(store.store(), folder.path())).await.unwrap();
    create(&service, "shop").await.unwrap();
    store.set_away(true);
    let refusal = service.tokens().await.unwrap_err();
    assert!(matches!(refusal, ServiceError::StoreUnavailable(_)), "{refusal}");
    store.set_away(false);
    assert_eq!(names(&service.tokens().await.unwrap().tokens), ["shop"]);
}

/// An instance with a data directory of its own.
async fn start(folder: &Path, data_dir: &str) -> Service {
    let store = Unreliable::open(folder).await;
    Service::start(setup(store.store(), &folder.join(data_dir))).await.unwrap()
}

/// The same, with a secret that no store has to make.
async fn start_with_secret(folder: &Path, data_dir: &str) -> Service {
    let store = Unreliable::open(folder).await;
    let secret = Some(Master::given(&"s".repeat(64)).unwrap());
    Service::start(Setup { secret, ..setup(store.store(), &folder.join(data_dir)) }).await.unwrap()
}

async fn create(service: &Service, name: &str) -> Result<(), ServiceError> {
    service
        .change_tokens(|tokens| {
            tokens.push(token(name));
            Ok(())
        })
        .await
}

async fn revoke(service: &Service, name: &str) -> Result<(), ServiceError> {
    service
        .change_tokens(|tokens| {
            let place = tokens.iter().position(|token| token.name == name);
            let unknown = || ServiceError::UnknownToken { name: name.to_owned() };
            tokens.remove(place.ok_or_else(unknown)?);
            Ok(())
        })
        .await
}

fn token(name: &str) -> TokenRecord {
    TokenRecord {
        name: name.to_owned(),
        secrets: vec![TokenSecret { sha256: hash(), until: Some(Timestamp::MAX) }],
        allow: vec!["take:links".to_owned()],
        expires_at: Some(Timestamp::UNIX_EPOCH),
        rate: Some(5_000),
        quota: Some(u64::MAX),
        certificate: Some("shop.example".to_owned()),
        created_at: Timestamp::UNIX_EPOCH,
        created_by: "cli".to_owned(),
    }
}

fn hash() -> String {
    "5e".repeat(32)
}

fn names(tokens: &[TokenRecord]) -> Vec<&str> {
    tokens.iter().map(|token| token.name.as_str()).collect()
}

/// How many instances have shown that they live.
fn beats(folder: &Path) -> i64 {
    let looker = Connection::open(folder.join("keymill.db")).unwrap();
    let count = "SELECT count(*) FROM instances WHERE address IS NOT NULL";
    looker.query_row(count, [], |row| row.get(0)).unwrap()
}
