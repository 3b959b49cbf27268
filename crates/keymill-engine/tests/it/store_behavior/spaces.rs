//! Spaces, secrets and safety.

use keymill_engine::internals::store::{Created, Opening, StoreError};
use keymill_engine::space::{Definition, Tuning};

use super::Case;

pub(super) async fn the_identity_is_the_same_through_every_handle(case: &Case) {
    let again =
        keymill_engine::internals::store::open(&case.url, Opening::default()).await.unwrap();
    let identity = case.store.admin.identity().await.unwrap();
    assert!(!identity.is_empty());
    assert_eq!(again.admin.identity().await.unwrap(), identity);
}

pub(super) async fn a_space_is_made_once_and_found_after(case: &Case) {
    assert!(matches!(
        case.store.spaces.space(&case.space).await,
        Err(StoreError::UnknownSpace(name)) if name == case.space
    ));
    let Created::Made(made) = case.create(&case.space, 500, 3).await else {
        panic!("the first to make a space makes it");
    };
    assert_eq!((made.capacity, made.mark.next, made.sealed), (500, 3, false));
    assert_eq!(made.definition, Definition::default());
    assert_eq!(made.fingerprint.as_deref(), Some("f00d"));
    let Created::Exists(found) = case.create(&case.space, 900, 7).await else {
        panic!("a name is never reused");
    };
    assert_eq!(found, made);
    assert_eq!(case.store.spaces.space(&case.space).await.unwrap(), made);
    assert!(case.store.spaces.spaces().await.unwrap().contains(&made));
}

pub(super) async fn names_are_compared_as_bytes(case: &Case) {
    for name in ["links", "Links", "lınks"] {
        assert!(matches!(case.create(name, 10, 0).await, Created::Made(_)), "{name}");
    }
}

pub(super) async fn tuning_is_a_change_like_any_other(case: &Case) {
    case.with_capacity(100).await;
    let before = case.mark().await;
    let tuning = Tuning { lease_size_min: 7, blocklist: false, ..Tuning::default() };
    let floor = case.floor(before.revision, 0);
    let tuned = case.store.spaces.tune(&case.space, &tuning, &floor).await.unwrap();
    assert_eq!(tuned.tuning, tuning);
    assert_eq!(tuned.mark.revision, before.revision + 1);
    assert_eq!(case.store.spaces.space(&case.space).await.unwrap(), tuned);
}

pub(super) async fn a_sealed_space_grants_nothing(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let sealed = case.store.spaces.seal(&case.space, &case.unseen).await.unwrap();
    assert!(sealed.sealed);
    assert_eq!(case.store.spaces.seal(&case.space, &case.unseen).await.unwrap(), sealed);
    assert!(matches!(case.lease_as(case.ask(1)).await, Err(StoreError::Sealed(_))));
    // What an instance still held can come back all the same.
    case.give_back(&grant, 5).await.unwrap();
    assert_eq!(case.store.spaces.space(&case.space).await.unwrap().returned.count(), 5);
}

pub(super) async fn the_first_secret_stays(case: &Case) {
    assert_eq!(case.store.admin.secret(None).await.unwrap(), None);
    let first = case.store.admin.secret(Some("first")).await.unwrap();
    assert_eq!(first.as_deref(), Some("first"));
    assert_eq!(case.store.admin.secret(Some("second")).await.unwrap(), first);
    assert_eq!(case.store.admin.secret(None).await.unwrap(), first);
    case.store.admin.forget_secret().await.unwrap();
    assert_eq!(case.store.admin.secret(None).await.unwrap(), None);
}

pub(super) async fn a_safe_store_has_no_unsafe_finding(case: &Case) {
    let findings = case.store.admin.check().await.unwrap();
    assert!(!findings.is_empty());
    let bad: Vec<_> = findings
        .iter()
        .filter(|it| it.verdict == keymill_engine::internals::store::Verdict::Unsafe)
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
}
