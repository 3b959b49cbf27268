//! Used keys: their listing, their time to live and their end.

use super::*;

pub(crate) async fn a_retired_key_keeps_its_first_time_of_retiring(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let claimed = case.claim(1).await.keys.remove(0);
    let (used, before) = (case.used(&claimed).await, case.mark().await);
    // Who used it, and when, its row tells better than the request.
    let ask = Retire { instance: "somebody".to_owned(), ..case.retire_ask(&claimed).await };
    let retired = case.rows().use_log.retire(&ask).await.unwrap();
    assert!(retired.retired_at.is_some());
    assert_eq!(retired, UsedKey { retired_at: retired.retired_at, ..used });
    assert_eq!(case.mark().await.revision, before.revision + 1, "retiring is a change");
    tick().await;
    assert_eq!(case.rows().use_log.retire(&ask).await.unwrap(), retired);
    assert_eq!(case.found(&claimed).await, Some(Found::Used(retired.clone())));
    assert_eq!(case.used_keys(case.used_ask()).await, [retired]);
}

pub(crate) async fn a_retired_key_is_not_released(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let claimed = case.claim(2).await.keys;
    case.rows().use_log.retire(&case.retire_ask(&claimed[0]).await).await.unwrap();
    case.release(&claimed).await;
    assert_eq!(case.available().await, 4);
    assert!(case.used(&claimed[0]).await.retired_at.is_some());
    assert!(!keys_in(&case.claim(100).await.keys).contains(&claimed[0].key));
}

pub(crate) async fn a_key_that_is_retired_in_the_pool_is_never_claimed(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let available = case.pool().await;
    let retired = case.rows().use_log.retire(&case.retire_ask(&available[0]).await).await.unwrap();
    assert_eq!(case.found(&available[0]).await, Some(Found::Used(retired)));
    assert_eq!(case.available().await, 4);
    let claim = case.claim(100).await;
    assert_eq!((keys_in(&claim.keys), claim.available), (keys_in(&available[1..]), 0));
}

pub(crate) async fn a_key_without_a_row_is_retired_as_used(case: &Case) {
    case.with_capacity(100).await;
    case.lease(10).await;
    let leased = Claimed { id: 5, key: "k5".to_owned() };
    assert_eq!(case.found(&leased).await, None);
    let ask = case.retire_ask(&leased).await;
    let retired = case.rows().use_log.retire(&ask).await.unwrap();
    assert_eq!((retired.key.as_str(), retired.caller.as_str()), ("k5", ""));
    assert_eq!((retired.used_at, &retired.instance), (ask.used_at, &case.instance.id));
    assert!(retired.retired_at.is_some() && retired.expires_at.is_none());
    assert_eq!(case.found(&leased).await, Some(Found::Used(retired)));
}

pub(crate) async fn a_claimed_key_lives_as_long_as_its_ttl(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let ask = ClaimAsk { ttl: Some(HOUR), ..case.claim_ask(2).await };
    for claimed in case.rows().pools.claim(&ask).await.unwrap().keys {
        let used = case.used(&claimed).await;
        let end = an_hour_after(used.used_at);
        assert_eq!(used.expires_at, Some(end));
        assert_eq!((used.ended_at(used.used_at), used.ended_at(end)), (None, Some(end)));
    }
}

pub(crate) async fn used_keys_are_listed_by_time_page_by_page(case: &Case) {
    case.with_capacity(100).await;
    case.fill(50).await;
    for size in [20, 1, 19, 10] {
        case.claim(size).await;
        tick().await;
    }
    let page = UsedPage { limit: 7, ..case.used_ask() };
    assert_eq!(case.rows().use_log.used_page(&page).await.unwrap().len(), 7);
    let listed = case.used_keys(page).await;
    assert_eq!(keys_used(&listed), keys_of(0..50));
    assert!(listed.is_sorted_by_key(|used| used.used_at));
    let nobodys = UsedPage { caller: Some("ann".to_owned()), ..case.used_ask() };
    assert!(case.used_keys(nobodys).await.is_empty());
}

pub(crate) async fn used_keys_are_listed_from_one_time_to_another(case: &Case) {
    case.with_capacity(100).await;
    case.fill(30).await;
    let (mut claims, mut times) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        tick().await;
        let keys = case.claim(10).await.keys;
        let mut at = case.used(&keys[0]).await.used_at;
        for claimed in &keys {
            at = at.min(case.used(claimed).await.used_at);
        }
        claims.push(keys);
        times.push(at);
    }
    let listed = async |from: Option<Timestamp>, to: Option<Timestamp>| {
        keys_used(&case.used_keys(UsedPage { from, to, limit: 7, ..case.used_ask() }).await)
    };
    assert_eq!(listed(None, Some(times[1])).await, keys_in(&claims[0]));
    assert_eq!(listed(Some(times[1]), Some(times[2])).await, keys_in(&claims[1]));
    assert_eq!(listed(Some(times[2]), None).await, keys_in(&claims[2]));
    assert_eq!(listed(Some(times[0]), None).await, keys_of(0..30));
    assert!(listed(Some(times[2]), Some(times[0])).await.is_empty());
}

pub(crate) async fn available_keys_are_listed_page_by_page_as_they_are_claimed(case: &Case) {
    case.with_capacity(100).await;
    case.fill(20).await;
    case.take_names(NamePurpose::Pool, &[("mine-a", None), ("mine-b", None)]).await;
    case.fill(10).await;
    let page = AvailablePage { space: case.space.clone(), after: None, limit: 7 };
    assert_eq!(case.rows().pools.available_page(&page).await.unwrap().len(), 7);
    let listed = case.pool().await;
    let mut expected = keys_of(0..30);
    expected.extend(["mine-a".to_owned(), "mine-b".to_owned()]);
    assert_eq!(keys_in(&listed), expected);
    assert_eq!(keys_in(&case.claim(25).await.keys), keys_in(&listed[..25]));
    assert_eq!(keys_in(&case.pool().await), keys_in(&listed[25..]));
}

pub(crate) async fn the_keys_of_two_spaces_are_apart(case: &Case) {
    let other = Case {
        space: format!("{}-too", case.space),
        instance: case.instance.clone(),
        ..case.another_instance().await
    };
    for it in [case, &other] {
        it.with_capacity(100).await;
        it.fill(10).await;
        assert_eq!(it.digest(&[input(1, &["aaa"])]).await, [new_key("aaa", 0)]);
    }
    let claimed = case.claim(4).await.keys;
    assert_eq!((case.available().await, other.available().await), (6, 10));
    other.release(&claimed).await;
    assert_eq!((case.available().await, other.available().await), (6, 10));
    assert!(other.used_keys(other.used_ask()).await.is_empty());
    case.store.spaces.advance(&case.space, to(0), &case.instance).await.unwrap();
    assert_eq!((case.available().await, other.available().await), (0, 10));
    assert_eq!(keys_in(&other.claim(100).await.keys), keys_of(0..10));
}

pub(crate) async fn used_keys_are_listed_by_caller(case: &Case) {
    case.with_capacity(100).await;
    case.fill(20).await;
    let reserved = case.reserve(20).await;
    // In turns, so that no caller has a page of its own.
    for (place, keys) in reserved.chunks(2).enumerate() {
        let caller = if place % 2 == 0 { "ann" } else { "bob" };
        assert_eq!(case.note(keys, caller).await, [true, true]);
    }
    let of = async |caller: &str| {
        let caller = Some(caller.to_owned());
        case.used_keys(UsedPage { caller, limit: 3, ..case.used_ask() }).await
    };
    let (anns, bobs) = (of("ann").await, of("bob").await);
    assert!(anns.iter().all(|used| used.caller == "ann"));
    assert_eq!((keys_used(&anns).len(), keys_used(&bobs).len()), (10, 10));
    assert_eq!(keys_used(&[anns, bobs].concat()), keys_of(0..20));
    // Bytes, not letters.
    assert!(of("Ann").await.is_empty());
}

pub(crate) async fn used_keys_of_the_same_time_are_listed_by_id(case: &Case) {
    case.with_capacity(100).await;
    case.fill(30).await;
    case.claim(25).await;
    case.claim(5).await;
    let listed = case.used_keys(UsedPage { limit: 4, ..case.used_ask() }).await;
    assert_eq!(listed.len(), 30);
    assert!(listed.is_sorted_by_key(|used| (used.used_at, used.id)));
}

pub(crate) async fn a_used_key_is_on_record_for_the_instance_that_claimed_it(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    let claim = case.claim(3).await;
    let left = case.pool().await;
    let me = &case.instance.id;
    for claimed in &claim.keys {
        assert!(case.confirms_use(claim.mark, claimed, me).await, "{claimed:?}");
        assert!(!case.confirms_use(claim.mark, claimed, "somebody").await);
    }
    assert!(!case.confirms_use(claim.mark, &left[0], me).await, "it is available");
    case.release(&claim.keys[..1]).await;
    assert!(!case.confirms_use(claim.mark, &claim.keys[0], me).await, "it came back");
    let above = Mark { revision: case.mark().await.revision + 1, ..claim.mark };
    let (at, instance) = (case.place_of(&claim.keys[1]), me.clone());
    let refusal = case.confirm(above, Evidence::Used { at, instance }, 0..0).await;
    assert!(is_rolled_back(&refusal), "{refusal:?}");
}

pub(crate) async fn a_noted_key_is_on_record_and_a_reserved_one_is_not(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let reserved = case.reserve(2).await;
    let me = &case.instance.id;
    assert!(!case.confirms_use(case.mark().await, &reserved[0], me).await);
    assert_eq!(case.note(&reserved[..1], "ann").await, [true]);
    assert!(case.confirms_use(case.mark().await, &reserved[0], me).await);
    assert!(!case.confirms_use(case.mark().await, &reserved[1], me).await);
    // A key of a lease is found by its ordinal.
    let grant = case.lease(10).await;
    let ordinal = grant.ordinals.start.cast_signed();
    let leased = Claimed { id: ordinal, key: format!("k{ordinal}") };
    assert!(!case.confirms_use(grant.mark, &leased, me).await);
    let uses = Uses { pooled: false, ..case.uses(std::slice::from_ref(&leased), "ann").await };
    let noted = case.rows().use_log.note(&uses).await.unwrap();
    assert!(case.confirms_use(noted.mark, &leased, me).await);
}

/// While it moves from the pool to the used keys and back, it is always in one of them.
pub(crate) async fn a_key_that_moves_is_always_found(case: &Case) {
    case.with_capacity(100).await;
    case.fill(1).await;
    let key = case.pool().await.remove(0);
    let other = case.another_instance().await;
    let moving = tokio::spawn(async move {
        for _ in 0..150 {
            let claim = other.claim(1).await;
            assert_eq!(claim.keys.len(), 1, "nobody else claims it");
            other.release(&claim.keys).await;
        }
    });
    let mut looks = 0;
    while !moving.is_finished() {
        assert!(case.found(&key).await.is_some(), "missed at look {looks}");
        looks += 1;
    }
    moving.await.unwrap();
    assert!(looks > 10, "only {looks} looks");
}
