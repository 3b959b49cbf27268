//! Keys as rows: pools, used keys, digests. For the stores that keep them.
//!
//! A case takes the place of a key from what the store told, and never makes up its id, except for
//! keys of a lease: what an id means is the store's affair.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use keymill::floor::{Floor, Mark};
use keymill::instance::Instance;
use keymill::store::keys::{
    AvailablePage, Claim, ClaimAsk, Claimed, DigestBatch, DigestInput, DigestKey, Fill, Filled,
    Found, KeyPlace, KeyUse, Release, Retire, UsedKey, UsedPage, Uses, WriteKeys,
};
use keymill::store::{
    KeyStore, NameBatch, NamePurpose, Naming, NewName, Opening, Purpose, StoreError,
};

use super::{Case, is_went_back, name_only, to};

const HOUR: Duration = Duration::from_secs(3_600);

// On every store that keeps rows of keys.

pub(super) async fn a_fill_writes_the_keys_of_what_it_is_granted(case: &Case) {
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
    let fill = case.store.lease_of(&case.space, 12).await.unwrap().unwrap();
    assert_eq!((fill.purpose, fill.ordinals), (Purpose::Fill, 10..15));
    assert_eq!((fill.lease, fill.closed_at_ordinal), (second.mark.revision, Some(15)));
    assert_eq!(fill.holder.id, case.instance.id);
}

pub(super) async fn a_fill_leaves_out_what_names_occupy(case: &Case) {
    case.with_capacity(100).await;
    let names = [("sale", Some(3)), ("k5", Some(5)), ("k7", Some(7)), ("plain", None)];
    case.take_names(NamePurpose::Alias, &names).await;
    case.take_names(NamePurpose::Used, &[("k10", Some(10)), ("k11", Some(11))]).await;
    let floor = case.floor(0, 0).await;
    case.store.remove_name(&case.space, "k5", "", &floor).await.unwrap();
    let filled = case.fill(10).await;
    assert_eq!((filled.added, filled.available, filled.mark.next), (7, 7, 10));
    // Nothing is left of this one.
    let filled = case.fill(2).await;
    assert_eq!((filled.added, filled.available, filled.mark.next), (0, 7, 12));
    assert_eq!(keys_in(&case.pool().await), keys_of([0, 1, 2, 4, 6, 8, 9]));
}

pub(super) async fn a_fill_does_nothing_where_there_is_enough(case: &Case) {
    case.with_capacity(100).await;
    let fill_unless = async |enough| {
        let fill = Fill { enough: Some(enough), ..case.fill_ask(10).await };
        case.rows().fill(&fill).await.unwrap()
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

pub(super) async fn a_fill_ends_with_the_space(case: &Case) {
    case.with_capacity(25).await;
    assert_eq!(case.fill(20).await.added, 20);
    let last = case.fill(20).await;
    assert_eq!((last.added, last.available, last.mark.next), (5, 25, 25));
    let ask = case.fill_ask(20).await;
    for _ in 0..2 {
        let end = case.rows().fill(&ask).await;
        assert!(matches!(end, Err(StoreError::Exhausted { .. })), "{end:?}");
    }
    // Where there is enough, nothing more is needed.
    let enough = Fill { enough: Some(25), ..ask };
    assert_eq!(case.rows().fill(&enough).await.unwrap().added, 0);
    assert_eq!(keys_in(&case.claim(100).await.keys), keys_of(0..25));
}

pub(super) async fn a_claim_moves_keys_from_available_to_used(case: &Case) {
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

pub(super) async fn a_claim_never_takes_more_than_its_share_but_always_one(case: &Case) {
    case.with_capacity(200).await;
    case.fill(130).await;
    let mut left = 130;
    for (share, taken) in [(64, 2), (1_000, 1), (2, 63), (1, 64)] {
        let ask = ClaimAsk { share, ..case.claim_ask(1_000).await };
        let claim = case.rows().claim(&ask).await.unwrap();
        left -= taken;
        assert_eq!((claim.keys.len() as u64, claim.available), (taken, left), "share {share}");
    }
}

pub(super) async fn an_empty_pool_gives_nothing(case: &Case) {
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

pub(super) async fn a_claimed_key_is_never_claimed_again(case: &Case) {
    case.with_capacity(100).await;
    case.fill(60).await;
    case.fill(40).await;
    let mut ask = ClaimAsk { share: 3, ..case.claim_ask(7).await };
    let mut claimed = Vec::new();
    // Looking begins at the start, and then where the last claim ended, as instances do it.
    for turn in 0_u32.. {
        let keys = case.rows().claim(&ask).await.unwrap().keys;
        let Some(last) = keys.last() else { break };
        if turn > 3 {
            ask.after = last.id + 1;
        }
        claimed.extend(keys);
    }
    assert_eq!(keys_in(&claimed), keys_of(0..100));
}

pub(super) async fn many_instances_at_once_never_claim_the_same_key(case: &Case) {
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

pub(super) async fn released_keys_are_available_again_by_their_claimer_and_once(case: &Case) {
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

pub(super) async fn what_was_released_is_found_before_the_end_of_the_last_claim(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    let claimed = case.claim(10).await.keys;
    let end = claimed.iter().map(|claimed| claimed.id).max().unwrap() + 1;
    case.release(&claimed[2..5]).await;
    let ask = ClaimAsk { after: end, ..case.claim_ask(10).await };
    let again = case.rows().claim(&ask).await.unwrap();
    assert_eq!(keys_in(&again.keys), keys_in(&claimed[2..5]));
    assert_eq!(again.available, 0);
}

pub(super) async fn imported_keys_are_claimed_like_others(case: &Case) {
    case.with_capacity(100).await;
    let names = [("mine-a", None), ("mine-b", None), ("k3", Some(3))];
    assert_eq!(case.take_names(NamePurpose::Pool, &names).await, [Naming::Made; 3]);
    assert_eq!(case.take_names(NamePurpose::Pool, &names[..1]).await, [Naming::Mine]);
    case.take_names(NamePurpose::Alias, &[("sale", None)]).await;
    assert_eq!(case.available().await, 3);
    let filled = case.fill(5).await;
    assert_eq!((filled.added, filled.available), (4, 7), "one of them was imported");
    let at = case.rows().imported(&case.space, "mine-a").await.unwrap().unwrap();
    assert_eq!((at.space.as_str(), at.key.as_str()), (case.space.as_str(), "mine-a"));
    assert_eq!(case.rows().find(&at).await.unwrap(), Some(Found::Available));
    for other in ["k4", "sale", "mine-c"] {
        assert_eq!(case.rows().imported(&case.space, other).await.unwrap(), None, "{other}");
    }
    let mut expected = keys_of(0..5);
    expected.extend(["mine-a".to_owned(), "mine-b".to_owned()]);
    assert_eq!(keys_in(&case.claim(100).await.keys), expected);
    let found = case.rows().find(&at).await.unwrap();
    assert!(matches!(&found, Some(Found::Used(used)) if used.key == "mine-a"), "{found:?}");
    // They are nobody else's, they do not come again, and what was generated is not imported.
    assert_eq!(case.take_names(NamePurpose::Alias, &names[..1]).await, [Naming::Taken]);
    assert_eq!(case.take_names(NamePurpose::Pool, &names).await, [Naming::Mine; 3]);
    assert_eq!(case.take_names(NamePurpose::Pool, &[("k1", Some(1))]).await, [Naming::Taken]);
    assert_eq!(case.available().await, 0);
    assert!(case.claim(100).await.keys.is_empty());
}

pub(super) async fn changes_of_keys_below_the_floor_are_refused(case: &Case) {
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
        assert!(is_went_back(&case.rows().fill(&fill).await));
        let ask = ClaimAsk { floor: floor.clone(), ..case.claim_ask(5).await };
        assert!(is_went_back(&case.rows().claim(&ask).await));
        let back = Release { floor: floor.clone(), ..case.release_ask(&claimed).await };
        assert!(is_went_back(&case.rows().release(&back).await));
        let retire = Retire { floor: floor.clone(), ..case.retire_ask(&claimed[0]).await };
        assert!(is_went_back(&case.rows().retire(&retire).await));
        let batch = DigestBatch { floor, ..case.digest_ask(&[input(1, &["aaa"])]).await };
        assert!(is_went_back(&case.rows().digest(&batch).await));
        assert_eq!(case.mark().await, before, "a refused request changes nothing");
    }
    assert_eq!(case.available().await, 7);
    assert_eq!(case.used(&claimed[0]).await.retired_at, None);
    assert_eq!(case.store.named(&case.space, &name_only("aaa")).await.unwrap(), None);
    let ask = ClaimAsk { floor: case.floor(revision, next).await, ..case.claim_ask(5).await };
    assert_eq!(case.rows().claim(&ask).await.unwrap().keys.len(), 5);
}

pub(super) async fn a_sealed_space_fills_and_claims_nothing(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    let claimed = case.claim(3).await.keys;
    let known = input(1, &["aaa"]);
    case.digest(std::slice::from_ref(&known)).await;
    let floor = case.floor(0, 0).await;
    case.store.seal(&case.space, &floor).await.unwrap();
    let fill = case.rows().fill(&case.fill_ask(5).await).await;
    assert!(matches!(fill, Err(StoreError::Sealed(_))), "{fill:?}");
    let claim = case.rows().claim(&case.claim_ask(5).await).await;
    assert!(matches!(claim, Err(StoreError::Sealed(_))), "{claim:?}");
    // No input gets a key any more, but one that has it keeps it.
    let digest = case.rows().digest(&case.digest_ask(&[input(2, &["bbb"])]).await).await;
    assert!(matches!(digest, Err(StoreError::Sealed(_))), "{digest:?}");
    assert_eq!(case.digest(&[known]).await, [old_key("aaa")]);
    // What an instance still held can come back, and what was handed out can be retired.
    case.release(&claimed[1..]).await;
    assert_eq!(case.available().await, 9);
    let retired = case.rows().retire(&case.retire_ask(&claimed[0]).await).await.unwrap();
    assert!(retired.retired_at.is_some());
}

pub(super) async fn what_was_available_before_an_advance_is_never_claimed(case: &Case) {
    case.with_capacity(100).await;
    case.fill(10).await;
    case.take_names(NamePurpose::Pool, &[("mine", None)]).await;
    let claimed = case.claim(3).await.keys;
    case.store.advance(&case.space, to(0), &case.instance).await.unwrap();
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

pub(super) async fn a_retired_key_keeps_its_first_time_of_retiring(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let claimed = case.claim(1).await.keys.remove(0);
    let (used, before) = (case.used(&claimed).await, case.mark().await);
    // Who used it, and when, its row tells better than the request.
    let ask = Retire { instance: "somebody".to_owned(), ..case.retire_ask(&claimed).await };
    let retired = case.rows().retire(&ask).await.unwrap();
    assert!(retired.retired_at.is_some());
    assert_eq!(retired, UsedKey { retired_at: retired.retired_at, ..used });
    assert_eq!(case.mark().await.revision, before.revision + 1, "retiring is a change");
    tick().await;
    assert_eq!(case.rows().retire(&ask).await.unwrap(), retired);
    assert_eq!(case.found(&claimed).await, Some(Found::Used(retired.clone())));
    assert_eq!(case.used_keys(case.used_ask()).await, [retired]);
}

pub(super) async fn a_retired_key_is_not_released(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let claimed = case.claim(2).await.keys;
    case.rows().retire(&case.retire_ask(&claimed[0]).await).await.unwrap();
    case.release(&claimed).await;
    assert_eq!(case.available().await, 4);
    assert!(case.used(&claimed[0]).await.retired_at.is_some());
    assert!(!keys_in(&case.claim(100).await.keys).contains(&claimed[0].key));
}

pub(super) async fn a_key_that_is_retired_in_the_pool_is_never_claimed(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let available = case.pool().await;
    let retired = case.rows().retire(&case.retire_ask(&available[0]).await).await.unwrap();
    assert_eq!(case.found(&available[0]).await, Some(Found::Used(retired)));
    assert_eq!(case.available().await, 4);
    let claim = case.claim(100).await;
    assert_eq!((keys_in(&claim.keys), claim.available), (keys_in(&available[1..]), 0));
}

pub(super) async fn a_key_without_a_row_is_retired_as_used(case: &Case) {
    case.with_capacity(100).await;
    case.lease(10).await;
    let leased = Claimed { id: 5, key: "k5".to_owned() };
    assert_eq!(case.found(&leased).await, None);
    let ask = case.retire_ask(&leased).await;
    let retired = case.rows().retire(&ask).await.unwrap();
    assert_eq!((retired.key.as_str(), retired.caller.as_str()), ("k5", ""));
    assert_eq!((retired.used_at, &retired.instance), (ask.used_at, &case.instance.id));
    assert!(retired.retired_at.is_some() && retired.expires_at.is_none());
    assert_eq!(case.found(&leased).await, Some(Found::Used(retired)));
}

pub(super) async fn a_claimed_key_lives_as_long_as_its_ttl(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let ask = ClaimAsk { ttl: Some(HOUR), ..case.claim_ask(2).await };
    for claimed in case.rows().claim(&ask).await.unwrap().keys {
        let used = case.used(&claimed).await;
        let end = an_hour_after(used.used_at);
        assert_eq!(used.expires_at, Some(end));
        assert_eq!((used.ended_at(used.used_at), used.ended_at(end)), (None, Some(end)));
    }
}

pub(super) async fn used_keys_are_listed_by_time_page_by_page(case: &Case) {
    case.with_capacity(100).await;
    case.fill(50).await;
    for size in [20, 1, 19, 10] {
        case.claim(size).await;
        tick().await;
    }
    let page = UsedPage { limit: 7, ..case.used_ask() };
    assert_eq!(case.rows().used_page(&page).await.unwrap().len(), 7);
    let listed = case.used_keys(page).await;
    assert_eq!(keys_used(&listed), keys_of(0..50));
    assert!(listed.is_sorted_by_key(|used| used.used_at));
    let nobodys = UsedPage { caller: Some("ann".to_owned()), ..case.used_ask() };
    assert!(case.used_keys(nobodys).await.is_empty());
}

pub(super) async fn used_keys_are_listed_from_one_time_to_another(case: &Case) {
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

pub(super) async fn available_keys_are_listed_page_by_page_as_they_are_claimed(case: &Case) {
    case.with_capacity(100).await;
    case.fill(20).await;
    case.take_names(NamePurpose::Pool, &[("mine-a", None), ("mine-b", None)]).await;
    case.fill(10).await;
    let page = AvailablePage { space: case.space.clone(), after: None, limit: 7 };
    assert_eq!(case.rows().available_page(&page).await.unwrap().len(), 7);
    let listed = case.pool().await;
    let mut expected = keys_of(0..30);
    expected.extend(["mine-a".to_owned(), "mine-b".to_owned()]);
    assert_eq!(keys_in(&listed), expected);
    assert_eq!(keys_in(&case.claim(25).await.keys), keys_in(&listed[..25]));
    assert_eq!(keys_in(&case.pool().await), keys_in(&listed[25..]));
}

pub(super) async fn the_keys_of_two_spaces_are_apart(case: &Case) {
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
    case.store.advance(&case.space, to(0), &case.instance).await.unwrap();
    assert_eq!((case.available().await, other.available().await), (0, 10));
    assert_eq!(keys_in(&other.claim(100).await.keys), keys_of(0..10));
}

pub(super) async fn a_digest_gives_the_same_key_for_the_same_input(case: &Case) {
    case.with_capacity(100).await;
    let before = case.mark().await;
    let batch = case.digest_ask(&[input(1, &["aaa", "bbb"]), input(2, &["ccc"])]).await;
    let first = case.rows().digest(&batch).await.unwrap();
    assert_eq!(first.keys, [new_key("aaa", 0), new_key("ccc", 0)]);
    assert_eq!(first.mark, Mark { revision: before.revision + 1, ..before });
    let again = case.another_instance().await.rows().digest(&batch).await.unwrap();
    assert_eq!(again.keys, [old_key("aaa"), old_key("ccc")]);
    assert_eq!((again.mark, case.mark().await), (first.mark, first.mark));
    // The input counts, not what could be made of it; also where it comes twice at once.
    let inputs = [input(3, &["ddd"]), input(1, &["eee"]), input(3, &["ddd", "fff"])];
    let keys = case.digest(&inputs).await;
    assert_eq!(keys, [new_key("ddd", 0), old_key("aaa"), old_key("ddd")]);
}

pub(super) async fn a_digest_moves_on_where_a_candidate_is_taken(case: &Case) {
    case.with_capacity(100).await;
    case.take_names(NamePurpose::Alias, &[("aaa", None)]).await;
    case.take_names(NamePurpose::Used, &[("bbb", None)]).await;
    let inputs = [input(1, &["aaa", "bbb", "ccc"]), input(2, &["ccc", "ddd"]), input(3, &["eee"])];
    let keys = case.digest(&inputs).await;
    assert_eq!(keys, [new_key("ccc", 2), new_key("ddd", 1), new_key("eee", 0)]);
    // Bytes, not letters.
    assert_eq!(case.digest(&[input(4, &["AAA"])]).await, [new_key("AAA", 0)]);
    let again = [old_key("ccc"), old_key("ddd"), old_key("eee")];
    assert_eq!(case.digest(&inputs).await, again);
}

pub(super) async fn a_digest_without_a_free_candidate_has_no_key(case: &Case) {
    case.with_capacity(100).await;
    case.take_names(NamePurpose::Alias, &[("aaa", None)]).await;
    case.digest(&[input(1, &["bbb"])]).await;
    let before = case.mark().await;
    for _ in 0..2 {
        assert_eq!(case.digest(&[input(2, &["aaa", "bbb"])]).await, [None::<DigestKey>]);
    }
    assert_eq!(case.mark().await, before, "nothing was made");
    // The others of a batch get theirs all the same.
    let keys = case.digest(&[input(2, &["aaa", "bbb"]), input(3, &["ccc"])]).await;
    assert_eq!(keys, [None, new_key("ccc", 0)]);
    assert_eq!(case.digest(&[input(2, &["aaa", "ddd"])]).await, [new_key("ddd", 1)]);
}

pub(super) async fn instances_at_once_agree_on_digests(case: &Case) {
    case.with_capacity(100).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..4 {
        let other = case.another_instance().await;
        // All have the same inputs, each in an order of its own.
        let mut order: Vec<u8> = (0..40).collect();
        order.rotate_left(number * 10);
        if number % 2 == 1 {
            order.reverse();
        }
        tasks.spawn(async move { other.digest_pairs(&order).await });
    }
    let answers = tasks.join_all().await;
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    let keys = distinct(answers[0].values().cloned());
    assert_eq!(keys.len(), 40, "no two inputs have the same key");
    assert_eq!(keys.iter().filter(|key| key.starts_with("first")).count(), 20);
}

pub(super) async fn the_key_of_a_digest_is_nobody_elses(case: &Case) {
    case.with_capacity(100).await;
    case.digest(&[input(1, &["aaa"])]).await;
    for purpose in [NamePurpose::Alias, NamePurpose::Used, NamePurpose::Pool] {
        assert_eq!(case.take_names(purpose, &[("aaa", None)]).await, [Naming::Taken]);
    }
    let floor = case.floor(0, 0).await;
    let left = case.store.remove_name(&case.space, "aaa", "", &floor).await.unwrap().unwrap();
    assert_eq!((left.purpose, left.removed_at), (NamePurpose::Digest, None));
    assert_eq!(case.store.named(&case.space, &name_only("aaa")).await.unwrap(), Some(left));
    assert_eq!(case.digest(&[input(1, &["aaa"])]).await, [old_key("aaa")]);
    assert_eq!(case.available().await, 0);
}

// On the SQL stores, which can reserve keys and note every single one.

pub(super) async fn a_reserved_key_is_found_as_reserved_and_not_claimed(case: &Case) {
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

pub(super) async fn a_reservation_that_has_outlived_its_time_is_anybodys(case: &Case) {
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

pub(super) async fn what_was_reserved_too_long_can_be_used_at_once(case: &Case) {
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

pub(super) async fn many_instances_at_once_never_use_a_reserved_key_twice(case: &Case) {
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

pub(super) async fn a_note_moves_a_reserved_key_to_its_caller_once(case: &Case) {
    assert!(case.rows().notes_keys());
    case.with_capacity(100).await;
    case.fill(5).await;
    let reserved = case.reserve(4).await;
    let Some(Found::Reserved { at, .. }) = case.found(&reserved[0]).await else {
        panic!("it was not reserved");
    };
    tick().await;
    let before = case.mark().await;
    let uses = Uses { ttl: Some(HOUR), ..case.uses(&reserved[..2], "ann").await };
    let noted = case.rows().note(&uses).await.unwrap();
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

pub(super) async fn reserved_keys_are_released_by_their_holder_and_once(case: &Case) {
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

pub(super) async fn a_reserved_key_that_is_retired_is_not_handed_out(case: &Case) {
    case.with_capacity(100).await;
    case.fill(2).await;
    let reserved = case.reserve(2).await;
    let retired = case.rows().retire(&case.retire_ask(&reserved[0]).await).await.unwrap();
    assert_eq!(case.note(&reserved, "ann").await, [false, true]);
    assert_eq!(case.found(&reserved[0]).await, Some(Found::Used(retired)));
    assert!(case.claim(100).await.keys.is_empty());
}

pub(super) async fn notes_of_leased_keys_are_rows(case: &Case) {
    case.with_capacity(100).await;
    case.lease(10).await;
    let leased: Vec<Claimed> =
        (3..6).map(|ordinal| Claimed { id: ordinal, key: format!("k{ordinal}") }).collect();
    let retired = case.rows().retire(&case.retire_ask(&leased[2]).await).await.unwrap();
    let uses = Uses { pooled: false, ..case.uses(&leased, "ann").await };
    let before = case.mark().await;
    let noted = case.rows().note(&uses).await.unwrap();
    assert_eq!(noted.may_go, [true, true, false], "the last was retired before");
    assert_eq!(noted.mark, Mark { revision: before.revision + 1, ..before });
    assert_eq!(case.found(&leased[2]).await, Some(Found::Used(retired)));
    for claimed in &leased[..2] {
        let used = case.used(claimed).await;
        assert_eq!((used.id, &used.key), (claimed.id, &claimed.key));
        assert_eq!((used.caller.as_str(), &used.instance), ("ann", &case.instance.id));
        assert_eq!((used.expires_at, used.retired_at), (None, None));
    }
    assert_eq!(case.rows().note(&uses).await.unwrap().may_go, [false; 3]);
    assert_eq!(keys_used(&case.used_keys(case.used_ask()).await), keys_of(3..6));
    assert_eq!(case.available().await, 0);
}

pub(super) async fn keys_reserved_before_an_advance_are_not_handed_out(case: &Case) {
    case.with_capacity(100).await;
    case.fill(3).await;
    let reserved = case.reserve(2).await;
    case.store.advance(&case.space, to(0), &case.instance).await.unwrap();
    assert_eq!(case.note(&reserved, "ann").await, [false, false]);
    case.release_reserved(&reserved).await;
    assert_eq!(case.available().await, 0);
    tick().await;
    for reserve in [true, false] {
        let outlived = Duration::from_millis(1);
        let ask = ClaimAsk { reserve, reserve_max: outlived, ..case.claim_ask(100).await };
        assert!(case.rows().claim(&ask).await.unwrap().keys.is_empty());
    }
    assert!(case.used_keys(case.used_ask()).await.is_empty());
    case.fill(3).await;
    assert_eq!(keys_in(&case.reserve(100).await), keys_of(3..6));
}

pub(super) async fn notes_and_reservations_below_the_floor_are_refused(case: &Case) {
    case.with_capacity(100).await;
    case.fill(5).await;
    let reserved = case.reserve(2).await;
    let before = case.mark().await;
    let floor = case.floor(before.revision + 5, 0).await;
    for pooled in [true, false] {
        let uses = case.uses(&reserved, "ann").await;
        let uses = Uses { pooled, floor: floor.clone(), ..uses };
        assert!(is_went_back(&case.rows().note(&uses).await));
    }
    let back = case.release_ask(&reserved).await;
    let back = Release { reserved: true, floor: floor.clone(), ..back };
    assert!(is_went_back(&case.rows().release(&back).await));
    let ask = ClaimAsk { reserve: true, floor, ..case.claim_ask(5).await };
    assert!(is_went_back(&case.rows().claim(&ask).await));
    assert_eq!((case.mark().await, case.available().await), (before, 3));
    assert!(case.is_reserved_by(&reserved[0], &case.instance).await);
    assert_eq!(case.note(&reserved, "ann").await, [true, true]);
}

pub(super) async fn used_keys_are_listed_by_caller(case: &Case) {
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

pub(super) async fn used_keys_of_the_same_time_are_listed_by_id(case: &Case) {
    case.with_capacity(100).await;
    case.fill(30).await;
    case.claim(25).await;
    case.claim(5).await;
    let listed = case.used_keys(UsedPage { limit: 4, ..case.used_ask() }).await;
    assert_eq!(listed.len(), 30);
    assert!(listed.is_sorted_by_key(|used| (used.used_at, used.id)));
}

impl Case {
    fn rows(&self) -> &dyn KeyStore {
        self.store.keys().unwrap()
    }

    /// Another instance, with a handle of its own on the same space.
    async fn another_instance(&self) -> Case {
        Case {
            url: self.url.clone(),
            store: keymill::store::open(&self.url, Opening::default()).await.unwrap(),
            instance: Instance::this_process(),
            space: self.space.clone(),
        }
    }

    async fn fill_ask(&self, size: u64) -> Fill {
        Fill {
            space: self.space.clone(),
            instance: self.instance.clone(),
            size,
            enough: None,
            write: writer(),
            capacity: u64::MAX,
            era: self.mark().await.revision / keymill::store::ERA,
            floor: self.floor(0, 0).await,
        }
    }

    async fn fill(&self, size: u64) -> Filled {
        self.rows().fill(&self.fill_ask(size).await).await.unwrap()
    }

    async fn claim_ask(&self, size: u64) -> ClaimAsk {
        ClaimAsk {
            space: self.space.clone(),
            instance: self.instance.clone(),
            size,
            share: 1,
            after: i64::MIN,
            reserve: false,
            reserve_max: HOUR,
            ttl: None,
            last: None,
            floor: self.floor(0, 0).await,
        }
    }

    async fn claim(&self, size: u64) -> Claim {
        self.rows().claim(&self.claim_ask(size).await).await.unwrap()
    }

    async fn reserve(&self, size: u64) -> Vec<Claimed> {
        let ask = ClaimAsk { reserve: true, ..self.claim_ask(size).await };
        self.rows().claim(&ask).await.unwrap().keys
    }

    async fn reserve_outlived(&self) -> Claimed {
        self.claim_outlived(true).await
    }

    /// Claims a key that is reserved, as soon as it has been for a millisecond.
    async fn claim_outlived(&self, reserve: bool) -> Claimed {
        let reserve_max = Duration::from_millis(1);
        let ask = ClaimAsk { reserve, reserve_max, ..self.claim_ask(1).await };
        for _ in 0..1_000 {
            let mut keys = self.rows().claim(&ask).await.unwrap().keys;
            if let Some(claimed) = keys.pop() {
                return claimed;
            }
            tick().await;
        }
        panic!("no reservation has outlived its time");
    }

    /// Claims as an instance does, with a fill where the pool is empty, until the space is.
    async fn claim_to_the_end(&self, number: u64) -> Vec<Claimed> {
        let fill = Fill { enough: Some(1), ..self.fill_ask(40).await };
        let mut ask = self.claim_ask(1).await;
        let mut kept = Vec::new();
        for turn in 0_u64.. {
            (ask.size, ask.share) = (1 + (turn * 7 + number) % 20, 1 + turn % 3);
            let mut keys = match self.rows().claim(&ask).await {
                Ok(claim) => claim.keys,
                Err(StoreError::Unavailable(_)) => continue,
                Err(error) => panic!("{error}"),
            };
            let Some(last) = keys.last() else {
                match self.rows().fill(&fill).await {
                    Ok(_) | Err(StoreError::Unavailable(_)) => continue,
                    Err(StoreError::Exhausted { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
            };
            ask.after = last.id + 1;
            // Of every third claim, the second half comes back.
            if turn % 3 == 0 {
                let rest = keys.split_off(keys.len() / 2);
                let back = self.release_ask(&rest).await;
                while let Err(error) = self.rows().release(&back).await {
                    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                }
            }
            kept.extend(keys);
        }
        kept
    }

    /// Reserves keys for so short a time that others take them, and returns what it may hand out.
    async fn use_to_the_end(&self) -> Vec<Claimed> {
        let reserve_max = Duration::from_millis(3);
        let ask = ClaimAsk { reserve: true, reserve_max, ..self.claim_ask(5).await };
        let mut used = Vec::new();
        for turn in 0_u64.. {
            let keys = match self.rows().claim(&ask).await {
                Ok(claim) => claim.keys,
                Err(StoreError::Unavailable(_)) => continue,
                Err(error) => panic!("{error}"),
            };
            if keys.is_empty() {
                break;
            }
            if turn % 2 == 0 {
                tokio::time::sleep(reserve_max * 2).await;
            }
            let uses = self.uses(&keys, "ann").await;
            let noted = loop {
                match self.rows().note(&uses).await {
                    Ok(noted) => break noted,
                    Err(StoreError::Unavailable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            assert_eq!(noted.may_go.len(), keys.len());
            let gone = keys.into_iter().zip(noted.may_go).filter(|(_, may_go)| *may_go);
            used.extend(gone.map(|(claimed, _)| claimed));
        }
        used
    }

    async fn release_ask(&self, keys: &[Claimed]) -> Release {
        Release {
            space: self.space.clone(),
            instance: self.instance.id.clone(),
            keys: keys.to_vec(),
            reserved: false,
            floor: self.floor(0, 0).await,
        }
    }

    async fn release(&self, keys: &[Claimed]) {
        self.rows().release(&self.release_ask(keys).await).await.unwrap();
    }

    async fn release_reserved(&self, keys: &[Claimed]) {
        let back = Release { reserved: true, ..self.release_ask(keys).await };
        self.rows().release(&back).await.unwrap();
    }

    async fn uses(&self, keys: &[Claimed], caller: &str) -> Uses {
        let key_use = |claimed: &Claimed| KeyUse {
            id: claimed.id,
            key: claimed.key.clone(),
            caller: caller.to_owned(),
        };
        Uses {
            space: self.space.clone(),
            instance: self.instance.id.clone(),
            keys: keys.iter().map(key_use).collect(),
            pooled: true,
            ttl: None,
            last: None,
            floor: self.floor(0, 0).await,
        }
    }

    async fn note(&self, keys: &[Claimed], caller: &str) -> Vec<bool> {
        self.rows().note(&self.uses(keys, caller).await).await.unwrap().may_go
    }

    async fn retire_ask(&self, claimed: &Claimed) -> Retire {
        Retire {
            at: self.place_of(claimed),
            used_at: Timestamp::from_millisecond(1_000_000_000_000).unwrap(),
            instance: self.instance.id.clone(),
            floor: self.floor(0, 0).await,
        }
    }

    async fn available(&self) -> u64 {
        self.rows().available(&self.space).await.unwrap()
    }

    fn place_of(&self, claimed: &Claimed) -> KeyPlace {
        KeyPlace { space: self.space.clone(), id: claimed.id, key: claimed.key.clone() }
    }

    async fn found(&self, claimed: &Claimed) -> Option<Found> {
        self.rows().find(&self.place_of(claimed)).await.unwrap()
    }

    async fn used(&self, claimed: &Claimed) -> UsedKey {
        match self.found(claimed).await {
            Some(Found::Used(used)) => used,
            found => panic!("{claimed:?} is not used: {found:?}"),
        }
    }

    async fn is_reserved_by(&self, claimed: &Claimed, instance: &Instance) -> bool {
        let found = self.found(claimed).await;
        matches!(found, Some(Found::Reserved { by, .. }) if by == instance.id)
    }

    /// All available keys, page by page.
    async fn pool(&self) -> Vec<Claimed> {
        let mut page = AvailablePage { space: self.space.clone(), after: None, limit: 7 };
        let mut listed = Vec::new();
        loop {
            let keys = self.rows().available_page(&page).await.unwrap();
            let Some(last) = keys.last() else { return listed };
            page.after = Some(last.clone());
            assert!(keys.len() <= 7);
            listed.extend(keys);
            assert!(listed.len() <= 10_000, "the pages have no end");
        }
    }

    fn used_ask(&self) -> UsedPage {
        let space = self.space.clone();
        UsedPage { space, from: None, to: None, caller: None, after: None, limit: 1_000 }
    }

    /// All used keys of a page and of those after it.
    async fn used_keys(&self, mut page: UsedPage) -> Vec<UsedKey> {
        let mut listed = Vec::new();
        loop {
            let keys = self.rows().used_page(&page).await.unwrap();
            let Some(last) = keys.last() else { return listed };
            page.after = Some((last.used_at, last.id));
            assert!(keys.len() <= page.limit as usize);
            listed.extend(keys);
            assert!(listed.len() <= 10_000, "the pages have no end");
        }
    }

    async fn take_names(&self, purpose: NamePurpose, names: &[(&str, Option<u64>)]) -> Vec<Naming> {
        let new = |(key, ordinal): &(&str, Option<u64>)| NewName {
            key: (*key).to_owned(),
            ordinal: *ordinal,
        };
        let batch = NameBatch {
            space: self.space.clone(),
            purpose,
            owner: String::new(),
            names: names.iter().map(new).collect(),
            generations: 1,
            floor: self.floor(0, 0).await,
        };
        self.store.add_names(&batch).await.unwrap().outcomes
    }

    async fn digest_ask(&self, inputs: &[DigestInput]) -> DigestBatch {
        DigestBatch {
            space: self.space.clone(),
            inputs: inputs.to_vec(),
            floor: self.floor(0, 0).await,
        }
    }

    async fn digest(&self, inputs: &[DigestInput]) -> Vec<Option<DigestKey>> {
        self.rows().digest(&self.digest_ask(inputs).await).await.unwrap().keys
    }

    /// Digests inputs of which two each want the same key first.
    async fn digest_pairs(&self, numbers: &[u8]) -> BTreeMap<u8, String> {
        let mut found = BTreeMap::new();
        for numbers in numbers.chunks(4) {
            let mut inputs = Vec::new();
            for &number in numbers {
                let (first, second) = (format!("first{}", number / 2), format!("second{number}"));
                inputs.push(input(number, &[first.as_str(), second.as_str()]));
            }
            let batch = self.digest_ask(&inputs).await;
            let digested = loop {
                match self.rows().digest(&batch).await {
                    Ok(digested) => break digested,
                    Err(StoreError::Unavailable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            assert_eq!(digested.keys.len(), numbers.len());
            for (&number, key) in numbers.iter().zip(digested.keys) {
                found.insert(number, key.unwrap().key);
            }
        }
        found
    }
}

/// The key of an ordinal is its number after a letter.
fn writer() -> WriteKeys {
    Arc::new(|ordinals, each| {
        for ordinal in ordinals {
            each(ordinal, &format!("k{ordinal}"));
        }
    })
}

/// What [`writer`] makes of ordinals.
fn keys_of(ordinals: impl IntoIterator<Item = u64>) -> BTreeSet<String> {
    ordinals.into_iter().map(|ordinal| format!("k{ordinal}")).collect()
}

#[track_caller]
fn keys_in(claimed: &[Claimed]) -> BTreeSet<String> {
    distinct(claimed.iter().map(|claimed| claimed.key.clone()))
}

#[track_caller]
fn keys_used(used: &[UsedKey]) -> BTreeSet<String> {
    distinct(used.iter().map(|used| used.key.clone()))
}

/// The same keys as a set; none of them may be there twice.
#[track_caller]
fn distinct(keys: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut distinct = BTreeSet::new();
    for key in keys {
        assert!(!distinct.contains(&key), "{key} is there twice");
        distinct.insert(key);
    }
    distinct
}

fn input(number: u8, candidates: &[&str]) -> DigestInput {
    let candidates = candidates.iter().map(|&candidate| candidate.to_owned()).collect();
    DigestInput { hash: [number; 32], candidates }
}

/// The key of an input that was made just now, of which candidate.
fn new_key(key: &str, candidate: usize) -> Option<DigestKey> {
    Some(DigestKey { key: key.to_owned(), made: Some(candidate) })
}

/// The key of an input that had it before.
fn old_key(key: &str) -> Option<DigestKey> {
    Some(DigestKey { key: key.to_owned(), made: None })
}

fn an_hour_after(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond() + 3_600_000).unwrap()
}

/// Lets the clock of the store move on, which counts milliseconds.
async fn tick() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}
