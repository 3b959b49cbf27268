//! Moving rows of keys: pools, used keys and digests are the same in another store.

use keymill_engine::internals::store::MovedRow;

use super::*;
use crate::store_behavior::moving::{at, begun, completed, counted, import, moved, rows_of};

pub(crate) async fn a_moved_pool_has_the_same_keys(case: &Case) {
    case.with_capacity(1_000).await;
    case.fill(10).await;
    case.take_names(NamePurpose::Pool, &[("mine", None), ("k500", Some(500))]).await;
    let used = case.claim(3).await.keys;
    case.retire(&used[0]).await;
    let (there, space) = begun(case).await;
    let refusal = there.rows().pools.fill(&there.fill_ask(5).await, &there.unseen).await;
    assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
    completed(case, &there, &space).await;
    let pool = there.pool().await;
    let before = case.pool().await;
    assert_eq!((keys_in(&pool), there.available().await), (keys_in(&before), 9));
    // Numbered anew, perhaps, and of equal times in any order.
    let used = async |case: &Case| {
        let used = case.used_keys(case.used_ask()).await.into_iter();
        let mut used: Vec<UsedKey> = used.map(|used| UsedKey { id: 0, ..used }).collect();
        used.sort_by(|a, b| a.key.cmp(&b.key));
        used
    };
    assert_eq!(used(&there).await, used(case).await);
    assert_eq!(keys_used(&used(&there).await), keys_of(0..3));
    let imported = async |case: &Case, key: &str| {
        let found = case.rows().pools.imported(&case.space, key).await.unwrap();
        found.map(|at| at.id)
    };
    for key in ["mine", "k500"] {
        assert!(imported(&there, key).await.is_some(), "{key}");
    }
    assert_eq!(keys_in(&there.claim(100).await.keys), keys_in(&pool));
    there.fill(5).await;
    assert_eq!(keys_in(&there.claim(100).await.keys), keys_of(10..15));
}

pub(crate) async fn nothing_is_claimed_of_a_pool_that_is_being_imported(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    let (there, space) = begun(case).await;
    import(&there, &rows_of(case).await).await;
    let refusal = there.rows().pools.claim(&there.claim_ask(1), &there.unseen).await;
    assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
    completed(case, &there, &space).await;
    assert_eq!(there.available().await, 10, "rows that came twice count once");
    assert_eq!(keys_in(&there.claim(100).await.keys), keys_of(0..10));
    assert_eq!(there.available().await, 0);
}

pub(crate) async fn what_was_available_before_an_advance_is_not_after_a_move(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    case.store.spaces.advance(&case.space, to(20), &case.instance).await.unwrap();
    case.fill(5).await;
    let (there, _) = moved(case).await;
    assert_eq!(there.available().await, 5);
    assert_eq!(keys_in(&there.claim(100).await.keys), keys_of(20..25));
    assert!(there.claim(100).await.keys.is_empty());
}

pub(crate) async fn what_was_available_before_an_advance_is_not_imported_after_it(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    let (there, space) = begun(case).await;
    let rows = rows_of(case).await;
    import(&there, &rows[..rows.len() / 2]).await;
    there.store.spaces.advance(&there.space, to(20), &there.instance).await.unwrap();
    there.store.moves.begin_import(&space).await.unwrap();
    import(&there, &rows).await;
    there.store.moves.finish_import(&space, &there.unseen).await.unwrap();
    assert_eq!(there.available().await, 0);
    assert!(there.claim(100).await.keys.is_empty());
    there.fill(5).await;
    assert_eq!(keys_in(&there.claim(100).await.keys), keys_of(20..25));
}

/// A key may be retired between the pages of an export: then it is read twice.
pub(crate) async fn a_used_key_is_never_available_where_both_were_moved(case: &Case) {
    case.with_capacity(100).await;
    case.fill(3).await;
    let (there, space) = begun(case).await;
    let used = |claimed: &Claimed| MovedRow::Used {
        id: claimed.id,
        key: claimed.key.clone(),
        used_at: at(0),
        caller: String::new(),
        instance: case.instance.id.clone(),
        expires_at: None,
        retired_at: Some(at(1)),
    };
    let pool = case.pool().await;
    import(&there, &[used(&pool[0])]).await;
    import(&there, &rows_of(case).await).await;
    import(&there, &[used(&pool[1])]).await;
    there.store.moves.finish_import(&space, &there.unseen).await.unwrap();
    assert_eq!(there.available().await, 1);
    assert_eq!(keys_in(&there.claim(100).await.keys), keys_in(&pool[2..]));
    assert_eq!(there.used(&pool[1]).await.retired_at, Some(at(1)));
}

pub(crate) async fn moved_digests_give_the_same_keys(case: &Case) {
    case.with_capacity(100).await;
    case.digest(&[input(1, &["aaa"]), input(2, &["bbb"])]).await;
    case.take_names(NamePurpose::Alias, &[("ccc", None)]).await;
    let (there, space) = begun(case).await;
    let refusal =
        there.rows().digests.digest(&there.digest_ask(&[input(1, &["zzz"])]), &there.unseen).await;
    assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
    completed(case, &there, &space).await;
    let keys = there.digest(&[input(1, &["zzz"]), input(3, &["bbb", "ccc", "ddd"])]).await;
    assert_eq!(keys, [old_key("aaa"), new_key("ddd", 2)]);
    assert_eq!((counted(case).await, counted(&there).await), (3, 4));
}

/// Nobody can use them where they come from, because it is sealed.
pub(crate) async fn reserved_keys_are_available_where_they_are_moved_to(case: &Case) {
    case.with_capacity(100).await;
    case.fill(3).await;
    let reserved = case.reserve(2).await;
    assert_eq!((reserved.len(), case.available().await), (2, 1));
    let (there, _) = moved(case).await;
    assert_eq!(there.available().await, 3);
    assert_eq!(keys_in(&there.claim(100).await.keys), keys_of(0..3));
    let refusal = case.rows().use_log.note(&case.uses(&reserved, "ann"), &case.unseen).await;
    assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
}
