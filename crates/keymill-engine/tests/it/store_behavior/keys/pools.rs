//! Pools: fills, claims, and what comes back, on every store that keeps rows of keys.

use super::*;

pub(crate) async fn a_fill_writes_the_keys_of_what_it_is_granted(case: &Case) {
    case.with_capacity(100).await;
    let before = case.mark().await;
    let filled = case.fill(10).await;
    assert_eq!((filled.added, filled.available), (10, 10));
    assert_eq!(filled.mark, Mark { revision: before.revision + 1, next: 10, ..before });
    assert_eq!(case.mark().await, filled.mark);
    let second = case.fill(5).await;
    assert_eq!((second.added, second.available, second.mark.next), (5, 15, 15));
    assert_eq!(case.available().await, 15);
    assert_eq!(keys_in(&case.pool().await), keys_of(0..15));
    // What is in the pool is never leased, and the record tells where it went.
    assert_eq!(case.lease(5).await.ordinals, 15..20);
    let fill = case.store.leases.lease_of(&case.space, 12).await.unwrap().unwrap();
    assert_eq!((fill.purpose, fill.ordinals), (Purpose::Fill, 10..15));
    assert_eq!((fill.lease, fill.closed_at_ordinal), (second.mark.revision, Some(15)));
    assert_eq!(fill.holder.id, case.instance.id);
}

pub(crate) async fn a_fill_leaves_out_what_names_occupy(case: &Case) {
    case.with_capacity(100).await;
    let names = [("sale", Some(3)), ("k5", Some(5)), ("k7", Some(7)), ("plain", None)];
    case.take_names(NamePurpose::Alias, &names).await;
    case.take_names(NamePurpose::Used, &[("k10", Some(10)), ("k11", Some(11))]).await;
    let floor = case.floor(0, 0).await;
    case.store.names.remove_name(&case.space, "k5", "", &floor).await.unwrap();
    let filled = case.fill(10).await;
    assert_eq!((filled.added, filled.available, filled.mark.next), (7, 7, 10));
    // Nothing is left of this one.
    let filled = case.fill(2).await;
    assert_eq!((filled.added, filled.available, filled.mark.next), (0, 7, 12));
    assert_eq!(keys_in(&case.pool().await), keys_of([0, 1, 2, 4, 6, 8, 9]));
}

pub(crate) async fn a_fill_does_nothing_where_there_is_enough(case: &Case) {
    case.with_capacity(100).await;
    let fill_unless = async |enough| {
        let fill = Fill { enough: Some(enough), ..case.fill_ask(10).await };
        case.rows().pools.fill(&fill).await.unwrap()
    };
    let first = fill_unless(1).await;
    assert_eq!((first.added, first.available), (10, 10));
    for enough in [1, 10] {
        let nothing = fill_unless(enough).await;
        assert_eq!((nothing.added, nothing.available, nothing.mark), (0, 10, first.mark));
    }
    assert_eq!(case.mark().await, first.mark);
    assert_eq!(fill_unless(11).await.available, 20);
}

pub(crate) async fn a_fill_ends_with_the_space(case: &Case) {
    case.with_capacity(25).await;
    assert_eq!(case.fill(20).await.added, 20);
    let last = case.fill(20).await;
    assert_eq!((last.added, last.available, last.mark.next), (5, 25, 25));
    let ask = case.fill_ask(20).await;
    for _ in 0..2 {
        let end = case.rows().pools.fill(&ask).await;
        assert!(matches!(end, Err(StoreError::Exhausted { .. })), "{end:?}");
    }
    // Where there is enough, nothing more is needed.
    let enough = Fill { enough: Some(25), ..ask };
    assert_eq!(case.rows().pools.fill(&enough).await.unwrap().added, 0);
    assert_eq!(keys_in(&case.claim(100).await.keys), keys_of(0..25));
}

pub(crate) async fn a_claim_moves_keys_from_available_to_used(case: &Case) {
    case.with_capacity(100).await;
    let before = case.fill(20).await.mark;
    let claim = case.claim(8).await;
    assert_eq!((claim.keys.len(), claim.available), (8, 12));
    assert_eq!(claim.mark, Mark { revision: before.revision + 1, ..before });
    assert_eq!(case.mark().await, claim.mark);
    assert_eq!(case.available().await, 12);
    for claimed in &claim.keys {
        let used = case.used(claimed).await;
        assert_eq!((&used.key, &used.instance), (&claimed.key, &case.instance.id));
        assert_eq!((used.caller.as_str(), used.expires_at, used.retired_at), ("", None, None));
    }
    let rest = case.pool().await;
    for available in &rest {
        assert_eq!(case.found(available).await, Some(Found::Available));
    }
    assert_eq!(keys_used(&case.used_keys(case.used_ask()).await), keys_in(&claim.keys));
    assert_eq!(keys_in(&[rest, claim.keys].concat()), keys_of(0..20));
}

pub(crate) async fn a_claim_never_takes_more_than_its_share_but_always_one(case: &Case) {
    case.with_capacity(200).await;
    case.fill(130).await;
    let mut left = 130;
    for (share, taken) in [(64, 2), (1_000, 1), (2, 63), (1, 64)] {
        let ask = ClaimAsk { share, ..case.claim_ask(1_000).await };
        let claim = case.rows().pools.claim(&ask).await.unwrap();
        left -= taken;
        assert_eq!((claim.keys.len() as u64, claim.available), (taken, left), "share {share}");
    }
}

pub(crate) async fn an_empty_pool_gives_nothing(case: &Case) {
    case.with_capacity(100).await;
    let before = case.mark().await;
    let never_filled = case.claim(5).await;
    assert!(never_filled.keys.is_empty());
    assert_eq!((never_filled.available, never_filled.mark), (0, before));
    assert_eq!(case.available().await, 0);
    assert!(case.pool().await.is_empty());
    case.fill(3).await;
    let last = case.claim(5).await;
    assert_eq!((last.keys.len(), last.available), (3, 0));
    let nothing = case.claim(5).await;
    assert!(nothing.keys.is_empty());
    assert_eq!((nothing.available, nothing.mark), (0, last.mark));
    assert_eq!(case.mark().await, last.mark, "nothing was changed");
}

pub(crate) async fn a_claimed_key_is_never_claimed_again(case: &Case) {
    case.with_capacity(100).await;
    case.fill(60).await;
    case.fill(40).await;
    let mut ask = ClaimAsk { share: 3, ..case.claim_ask(7).await };
    let mut claimed = Vec::new();
    // Looking begins at the start, and then where the last claim ended, as instances do it.
    for turn in 0_u32.. {
        let keys = case.rows().pools.claim(&ask).await.unwrap().keys;
        let Some(last) = keys.last() else { break };
        if turn > 3 {
            ask.after = last.id + 1;
        }
        claimed.extend(keys);
    }
    assert_eq!(keys_in(&claimed), keys_of(0..100));
}

pub(crate) async fn many_instances_at_once_never_claim_the_same_key(case: &Case) {
    const KEYS: u64 = 900;
    case.with_capacity(KEYS).await;
    case.fill(KEYS / 2).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..6 {
        let other = case.another_instance().await;
        tasks.spawn(async move { other.claim_to_the_end(number).await });
    }
    let mut claimed: Vec<Claimed> = tasks.join_all().await.into_iter().flatten().collect();
    // What one gave back after another saw the end may be left.
    loop {
        let rest = case.claim(KEYS).await.keys;
        if rest.is_empty() {
            break;
        }
        claimed.extend(rest);
    }
    assert_eq!(keys_in(&claimed), keys_of(0..KEYS));
    assert_eq!(case.available().await, 0);
    let used = case.used_keys(case.used_ask()).await;
    assert_eq!(keys_used(&used), keys_of(0..KEYS));
}

pub(crate) async fn released_keys_are_available_again_by_their_claimer_and_once(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    let claimed = case.claim(6).await.keys;
    let other = case.another_instance().await;
    other.release(&claimed).await;
    assert_eq!(case.available().await, 4, "they are not the other's");
    let (back, kept) = claimed.split_at(3);
    for _ in 0..2 {
        case.release(&[back, back].concat()).await;
        assert_eq!(case.available().await, 7);
    }
    for released in back {
        assert_eq!(case.found(released).await, Some(Found::Available));
    }
    assert_eq!(keys_used(&case.used_keys(case.used_ask()).await), keys_in(kept));
    // Those that nobody has claimed.
    case.release(&case.pool().await).await;
    assert_eq!(case.available().await, 7);
    // Those that another has claimed since.
    let others = other.claim(100).await.keys;
    assert_eq!(others.len(), 7);
    case.release(&others).await;
    assert_eq!(case.available().await, 0);
    for claimed in &others {
        assert_eq!(case.used(claimed).await.instance, other.instance.id);
    }
}

pub(crate) async fn what_was_released_is_found_before_the_end_of_the_last_claim(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    let claimed = case.claim(10).await.keys;
    let end = claimed.iter().map(|claimed| claimed.id).max().unwrap() + 1;
    case.release(&claimed[2..5]).await;
    let ask = ClaimAsk { after: end, ..case.claim_ask(10).await };
    let again = case.rows().pools.claim(&ask).await.unwrap();
    assert_eq!(keys_in(&again.keys), keys_in(&claimed[2..5]));
    assert_eq!(again.available, 0);
}

pub(crate) async fn imported_keys_are_claimed_like_others(case: &Case) {
    case.with_capacity(100).await;
    let names = [("mine-a", None), ("mine-b", None), ("k3", Some(3))];
    assert_eq!(case.take_names(NamePurpose::Pool, &names).await, [Naming::Made; 3]);
    assert_eq!(case.take_names(NamePurpose::Pool, &names[..1]).await, [Naming::Mine]);
    case.take_names(NamePurpose::Alias, &[("sale", None)]).await;
    assert_eq!(case.available().await, 3);
    let filled = case.fill(5).await;
    assert_eq!((filled.added, filled.available), (4, 7), "one of them was imported");
    let at = case.rows().pools.imported(&case.space, "mine-a").await.unwrap().unwrap();
    assert_eq!((at.space.as_str(), at.key.as_str()), (case.space.as_str(), "mine-a"));
    assert_eq!(case.rows().pools.find(&at).await.unwrap(), Some(Found::Available));
    for other in ["k4", "sale", "mine-c"] {
        assert_eq!(case.rows().pools.imported(&case.space, other).await.unwrap(), None, "{other}");
    }
    let mut expected = keys_of(0..5);
    expected.extend(["mine-a".to_owned(), "mine-b".to_owned()]);
    assert_eq!(keys_in(&case.claim(100).await.keys), expected);
    let found = case.rows().pools.find(&at).await.unwrap();
    assert!(matches!(&found, Some(Found::Used(used)) if used.key == "mine-a"), "{found:?}");
    // They are nobody else's, they do not come again, and what was generated is not imported.
    assert_eq!(case.take_names(NamePurpose::Alias, &names[..1]).await, [Naming::Taken]);
    assert_eq!(case.take_names(NamePurpose::Pool, &names).await, [Naming::Mine; 3]);
    assert_eq!(case.take_names(NamePurpose::Pool, &[("k1", Some(1))]).await, [Naming::Taken]);
    assert_eq!(case.available().await, 0);
    assert!(case.claim(100).await.keys.is_empty());
}

pub(crate) async fn changes_of_keys_below_the_floor_are_refused(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    let claimed = case.claim(3).await.keys;
    let before = case.mark().await;
    let Mark { revision, next, .. } = before;
    let floors = [
        case.floor(revision + 5, next).await,
        case.floor(revision, next + 5).await,
        Floor { store: "another".to_owned(), mark: Mark::default() },
    ];
    for floor in floors {
        let fill = Fill { floor: floor.clone(), ..case.fill_ask(5).await };
        assert!(is_rolled_back(&case.rows().pools.fill(&fill).await));
        let ask = ClaimAsk { floor: floor.clone(), ..case.claim_ask(5).await };
        assert!(is_rolled_back(&case.rows().pools.claim(&ask).await));
        let back = Release { floor: floor.clone(), ..case.release_ask(&claimed).await };
        assert!(is_rolled_back(&case.rows().pools.release(&back).await));
        let retire = Retire { floor: floor.clone(), ..case.retire_ask(&claimed[0]).await };
        assert!(is_rolled_back(&case.rows().use_log.retire(&retire).await));
        let batch = DigestBatch { floor, ..case.digest_ask(&[input(1, &["aaa"])]).await };
        assert!(is_rolled_back(&case.rows().digests.digest(&batch).await));
        assert_eq!(case.mark().await, before, "a refused request changes nothing");
    }
    assert_eq!(case.available().await, 7);
    assert_eq!(case.used(&claimed[0]).await.retired_at, None);
    assert_eq!(case.store.names.named(&case.space, &name_only("aaa")).await.unwrap(), None);
    let ask = ClaimAsk { floor: case.floor(revision, next).await, ..case.claim_ask(5).await };
    assert_eq!(case.rows().pools.claim(&ask).await.unwrap().keys.len(), 5);
}

pub(crate) async fn a_sealed_space_fills_and_claims_nothing(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    let claimed = case.claim(3).await.keys;
    let known = input(1, &["aaa"]);
    case.digest(std::slice::from_ref(&known)).await;
    let floor = case.floor(0, 0).await;
    case.store.spaces.seal(&case.space, &floor).await.unwrap();
    let fill = case.rows().pools.fill(&case.fill_ask(5).await).await;
    assert!(matches!(fill, Err(StoreError::Sealed(_))), "{fill:?}");
    let claim = case.rows().pools.claim(&case.claim_ask(5).await).await;
    assert!(matches!(claim, Err(StoreError::Sealed(_))), "{claim:?}");
    // No input gets a key any more, but one that has it keeps it.
    let digest = case.rows().digests.digest(&case.digest_ask(&[input(2, &["bbb"])]).await).await;
    assert!(matches!(digest, Err(StoreError::Sealed(_))), "{digest:?}");
    assert_eq!(case.digest(&[known]).await, [old_key("aaa")]);
    // What an instance still held can come back, and what was handed out can be retired.
    case.release(&claimed[1..]).await;
    assert_eq!(case.available().await, 9);
    let retired = case.rows().use_log.retire(&case.retire_ask(&claimed[0]).await).await.unwrap();
    assert!(retired.retired_at.is_some());
}

pub(crate) async fn what_was_available_before_an_advance_is_never_claimed(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    case.take_names(NamePurpose::Pool, &[("mine", None)]).await;
    let claimed = case.claim(3).await.keys;
    case.store.spaces.advance(&case.space, to(0), &case.instance).await.unwrap();
    assert_eq!(case.available().await, 0);
    assert!(case.pool().await.is_empty());
    assert!(case.claim(100).await.keys.is_empty());
    // Nor what was claimed before it and not handed out, as far as its instance knows.
    case.release(&claimed).await;
    assert_eq!(case.available().await, 0);
    assert!(case.claim(100).await.keys.is_empty());
    for claimed in &claimed {
        assert_eq!(case.used(claimed).await.instance, case.instance.id);
    }
    let filled = case.fill(5).await;
    assert_eq!((filled.added, filled.available), (5, 5));
    let claim = case.claim(100).await;
    assert_eq!((keys_in(&claim.keys), claim.available), (keys_of(10..15), 0));
    // What was claimed after it comes back.
    case.release(&claim.keys).await;
    assert_eq!(case.available().await, 5);
}
