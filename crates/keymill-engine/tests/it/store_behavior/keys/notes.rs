//! Reservations and notes of single keys, on the stores that can put every one on record.

use super::*;

pub(crate) async fn a_reserved_key_is_found_as_reserved_and_not_claimed(case: &Case) {
    case.with_capacity(100).await;
    let before = case.fill(5).await.mark;
    let reserved = case.reserve(2).await;
    assert_eq!(reserved.len(), 2);
    assert_eq!(case.mark().await.revision, before.revision + 1, "a reservation is a change");
    assert_eq!(case.available().await, 3);
    assert_eq!(keys_in(&[reserved.clone(), case.pool().await].concat()), keys_of(0..5));
    assert!(case.used_keys(case.used_ask()).await.is_empty());
    let other = case.another_instance().await;
    let claim = other.claim(100).await;
    assert_eq!((claim.keys.len(), claim.available), (3, 0));
    assert!(other.reserve(100).await.is_empty());
    assert_eq!(other.note(&reserved, "ann").await, [false, false]);
    for claimed in &reserved {
        assert!(case.is_reserved_by(claimed, &case.instance).await);
    }
    assert_eq!(keys_in(&[reserved, claim.keys].concat()), keys_of(0..5));
}

pub(crate) async fn a_reservation_that_has_outlived_its_time_is_anybodys(case: &Case) {
    case.with_capacity(100).await;
    case.fill(1).await;
    let mine = case.reserve(1).await;
    let other = case.another_instance().await;
    let theirs = [other.reserve_outlived().await];
    assert_eq!(theirs[0], mine[0]);
    assert_eq!(case.available().await, 0);
    assert!(case.is_reserved_by(&mine[0], &other.instance).await);
    // The first has lost it, and can neither use it nor give it back.
    assert_eq!(case.note(&mine, "ann").await, [false]);
    case.release_reserved(&mine).await;
    assert!(case.is_reserved_by(&mine[0], &other.instance).await);
    assert_eq!(case.available().await, 0);
    assert_eq!(other.note(&theirs, "bob").await, [true]);
    assert_eq!(other.note(&theirs, "bob").await, [false]);
    assert_eq!(case.note(&mine, "ann").await, [false]);
    let used = case.used(&mine[0]).await;
    assert_eq!((used.caller.as_str(), &used.instance), ("bob", &other.instance.id));
}

pub(crate) async fn what_was_reserved_too_long_can_be_used_at_once(case: &Case) {
    case.with_capacity(100).await;
    case.fill(1).await;
    let mine = case.reserve(1).await;
    let other = case.another_instance().await;
    let theirs = other.claim_outlived(false).await;
    assert_eq!(theirs, mine[0]);
    assert_eq!(case.note(&mine, "ann").await, [false]);
    assert_eq!(case.used(&theirs).await.instance, other.instance.id);
    assert_eq!(case.available().await, 0);
}

pub(crate) async fn many_instances_at_once_never_use_a_reserved_key_twice(case: &Case) {
    const KEYS: u64 = 120;
    case.with_capacity(KEYS).await;
    case.fill(KEYS).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let other = case.another_instance().await;
        tasks.spawn(async move { other.use_to_the_end().await });
    }
    let mut used: Vec<Claimed> = tasks.join_all().await.into_iter().flatten().collect();
    // What one lost after another saw the end may be left.
    while (used.len() as u64) < KEYS {
        let claimed = case.reserve_outlived().await;
        assert_eq!(case.note(std::slice::from_ref(&claimed), "bob").await, [true]);
        used.push(claimed);
    }
    assert_eq!(keys_in(&used), keys_of(0..KEYS));
    let listed = case.used_keys(case.used_ask()).await;
    assert_eq!(keys_used(&listed), keys_of(0..KEYS));
    assert!(case.claim(KEYS).await.keys.is_empty());
    assert_eq!(case.available().await, 0);
}

pub(crate) async fn a_note_moves_a_reserved_key_to_its_caller_once(case: &Case) {
    assert!(case.rows().use_log.notes_keys());
    case.with_capacity(100).await;
    case.fill(5).await;
    let reserved = case.reserve(4).await;
    let Some(Found::Reserved { at, .. }) = case.found(&reserved[0]).await else {
        panic!("it was not reserved");
    };
    tick().await;
    let before = case.mark().await;
    let uses = Uses { ttl: Some(HOUR), ..case.uses(&reserved[..2], "ann").await };
    let noted = case.rows().use_log.note(&uses).await.unwrap();
    assert_eq!(noted.may_go, [true, true]);
    assert_eq!(noted.mark, Mark { revision: before.revision + 1, ..before });
    assert_eq!(case.mark().await, noted.mark);
    for claimed in &reserved[..2] {
        let used = case.used(claimed).await;
        assert_eq!((used.caller.as_str(), &used.instance), ("ann", &case.instance.id));
        assert_eq!((used.expires_at, used.retired_at), (Some(an_hour_after(used.used_at)), None));
        assert!(used.used_at > at, "the time of its use, not of its reservation");
    }
    // Not a second time; the others of a note may go all the same.
    assert_eq!(case.note(&reserved[..3], "bob").await, [false, false, true]);
    assert_eq!(case.used(&reserved[0]).await.caller, "ann");
    assert_eq!(case.used(&reserved[2]).await.expires_at, None);
    let twice = [&reserved[3..], &reserved[3..]].concat();
    assert_eq!(case.note(&twice, "bob").await, [true, false]);
    // Nor one that was not reserved.
    assert_eq!(case.note(&case.pool().await, "bob").await, [false]);
    assert_eq!(case.available().await, 1);
}

pub(crate) async fn reserved_keys_are_released_by_their_holder_and_once(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let reserved = case.reserve(4).await;
    let other = case.another_instance().await;
    other.release_reserved(&reserved).await;
    assert_eq!(case.available().await, 1);
    assert_eq!(case.note(&reserved[3..], "ann").await, [true]);
    // The last of them was handed out, and stays so.
    for _ in 0..2 {
        case.release_reserved(&[&reserved[..2], &reserved[3..]].concat()).await;
        assert_eq!(case.available().await, 3);
    }
    assert_eq!(case.used(&reserved[3]).await.caller, "ann");
    for released in &reserved[..2] {
        assert_eq!(case.found(released).await, Some(Found::Available));
    }
    assert_eq!(case.note(&reserved[..2], "ann").await, [false, false]);
    assert!(case.is_reserved_by(&reserved[2], &case.instance).await);
    assert_eq!(other.claim(100).await.keys.len(), 3);
}

pub(crate) async fn a_reserved_key_that_is_retired_is_not_handed_out(case: &Case) {
    case.with_capacity(100).await;
    case.fill(2).await;
    let reserved = case.reserve(2).await;
    let retired = case.rows().use_log.retire(&case.retire_ask(&reserved[0]).await).await.unwrap();
    assert_eq!(case.note(&reserved, "ann").await, [false, true]);
    assert_eq!(case.found(&reserved[0]).await, Some(Found::Used(retired)));
    assert!(case.claim(100).await.keys.is_empty());
}

pub(crate) async fn notes_of_leased_keys_are_rows(case: &Case) {
    case.with_capacity(100).await;
    case.lease(10).await;
    let leased: Vec<Claimed> =
        (3..6).map(|ordinal| Claimed { id: ordinal, key: format!("k{ordinal}") }).collect();
    let retired = case.rows().use_log.retire(&case.retire_ask(&leased[2]).await).await.unwrap();
    let uses = Uses { pooled: false, ..case.uses(&leased, "ann").await };
    let before = case.mark().await;
    let noted = case.rows().use_log.note(&uses).await.unwrap();
    assert_eq!(noted.may_go, [true, true, false], "the last was retired before");
    assert_eq!(noted.mark, Mark { revision: before.revision + 1, ..before });
    assert_eq!(case.found(&leased[2]).await, Some(Found::Used(retired)));
    for claimed in &leased[..2] {
        let used = case.used(claimed).await;
        assert_eq!((used.id, &used.key), (claimed.id, &claimed.key));
        assert_eq!((used.caller.as_str(), &used.instance), ("ann", &case.instance.id));
        assert_eq!((used.expires_at, used.retired_at), (None, None));
    }
    assert_eq!(case.rows().use_log.note(&uses).await.unwrap().may_go, [false; 3]);
    assert_eq!(keys_used(&case.used_keys(case.used_ask()).await), keys_of(3..6));
    assert_eq!(case.available().await, 0);
}

pub(crate) async fn keys_reserved_before_an_advance_are_not_handed_out(case: &Case) {
    case.with_capacity(100).await;
    case.fill(3).await;
    let reserved = case.reserve(2).await;
    case.store.spaces.advance(&case.space, to(0), &case.instance).await.unwrap();
    assert_eq!(case.note(&reserved, "ann").await, [false, false]);
    case.release_reserved(&reserved).await;
    assert_eq!(case.available().await, 0);
    tick().await;
    for reserve in [true, false] {
        let outlived = Duration::from_millis(1);
        let ask = ClaimAsk { reserve, reserve_max: outlived, ..case.claim_ask(100).await };
        assert!(case.rows().pools.claim(&ask).await.unwrap().keys.is_empty());
    }
    assert!(case.used_keys(case.used_ask()).await.is_empty());
    case.fill(3).await;
    assert_eq!(keys_in(&case.reserve(100).await), keys_of(3..6));
}

pub(crate) async fn notes_and_reservations_below_the_floor_are_refused(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let reserved = case.reserve(2).await;
    let before = case.mark().await;
    let floor = case.floor(before.revision + 5, 0).await;
    for pooled in [true, false] {
        let uses = case.uses(&reserved, "ann").await;
        let uses = Uses { pooled, floor: floor.clone(), ..uses };
        assert!(is_rolled_back(&case.rows().use_log.note(&uses).await));
    }
    let back = case.release_ask(&reserved).await;
    let back = Release { reserved: true, floor: floor.clone(), ..back };
    assert!(is_rolled_back(&case.rows().pools.release(&back).await));
    let ask = ClaimAsk { reserve: true, floor, ..case.claim_ask(5).await };
    assert!(is_rolled_back(&case.rows().pools.claim(&ask).await));
    assert_eq!((case.mark().await, case.available().await), (before, 3));
    assert!(case.is_reserved_by(&reserved[0], &case.instance).await);
    assert_eq!(case.note(&reserved, "ann").await, [true, true]);
}
