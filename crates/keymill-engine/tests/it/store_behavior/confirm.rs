//! Looking once more: what a change has left on record, in a state that has come at least as far.

use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    Evidence, Grant, Lengths, Mark, NameBatch, NamePurpose, Naming, NewName,
};

use super::{Case, is_rolled_back, name_only};

pub(super) async fn a_lease_is_confirmed_with_its_skips_in_one_answer(case: &Case) {
    case.with_capacity(1_000).await;
    for (key, ordinal) in [("a", Some(3)), ("b", Some(12)), ("c", Some(7)), ("plain", None)] {
        assert_eq!(case.name(key, ordinal, "me").await, Naming::Made);
    }
    let grant = case.lease(10).await;
    let found = case.confirm(grant.mark, lease(case, &grant), 0..10).await.unwrap();
    assert!(found.on_record);
    assert_eq!(found.skips, [3, 7]);
    assert_eq!(found.space, case.store.spaces.space(&case.space).await.unwrap());
    // Also when others have changed the space since, and it is closed.
    case.lease(10).await;
    let mark = case.give_back(&grant, 4).await.unwrap();
    let found = case.confirm(grant.mark, lease(case, &grant), 0..1_000).await.unwrap();
    assert_eq!((found.on_record, found.skips), (true, vec![3, 7, 12]));
    assert_eq!((found.space.mark, case.mark().await), (mark, mark), "looking changes nothing");
    assert!(case.confirm(mark, Evidence::Mark, 0..0).await.unwrap().skips.is_empty());
}

pub(super) async fn a_mark_above_the_stores_is_a_store_that_was_rolled_back(case: &Case) {
    let missing = case.confirm(Mark::default(), Evidence::Mark, 0..0).await;
    assert!(is_rolled_back(&missing), "a space that is not there: {missing:?}");
    case.with_capacity(1_000).await;
    let grant = case.lease(10).await;
    let Mark { revision, next, .. } = grant.mark;
    let above = [
        Mark { revision: revision + 1, ..grant.mark },
        Mark { next: next + 1, ..grant.mark },
        Mark { grown: Lengths::of(&[9]), ..grant.mark },
    ];
    for reached in above {
        let found = case.confirm(reached, lease(case, &grant), 0..10).await;
        assert!(is_rolled_back(&found), "{reached:?}: {found:?}");
        let names =
            case.store.snapshots.names_without_ordinal(&case.space, reached, None, 10).await;
        assert!(is_rolled_back(&names), "{reached:?}: {names:?}");
    }
    assert!(case.confirm(grant.mark, lease(case, &grant), 0..10).await.unwrap().on_record);
    assert!(
        case.store
            .snapshots
            .names_without_ordinal(&case.space, grant.mark, None, 10)
            .await
            .unwrap()
            .is_empty()
    );
}

pub(super) async fn a_lease_of_another_or_a_shorter_one_is_not_on_record(case: &Case) {
    case.with_capacity(1_000).await;
    let (grant, theirs) = (case.lease(10).await, case.someone_elses_lease(10).await);
    let is_on_record = async |evidence: &Evidence| {
        case.confirm(theirs.mark, evidence.clone(), 0..0).await.unwrap().on_record
    };
    let (number, holder, end) = (grant.lease, case.instance.id.clone(), grant.ordinals.end);
    let of = |lease, holder: &str, end| Evidence::Lease { lease, holder: holder.to_owned(), end };
    assert!(is_on_record(&of(number, &holder, end)).await);
    assert!(is_on_record(&of(number, &holder, end - 3)).await, "it reaches further");
    for (lease, holder, end) in [
        (number, holder.as_str(), end + 1),
        (number, "somebody", end),
        (theirs.lease, holder.as_str(), end),
        (number + 50, holder.as_str(), end),
    ] {
        assert!(!is_on_record(&of(lease, holder, end)).await, "lease {lease} of {holder} to {end}");
    }
}

pub(super) async fn a_name_is_on_record_for_its_owner_until_it_is_removed(case: &Case) {
    case.with_capacity(1_000).await;
    case.name("sale", None, "me").await;
    case.name("k5", Some(5), "me").await;
    let placed = |key: &str, ordinal| NewName { key: key.to_owned(), ordinal: Some(ordinal) };
    let used = NameBatch {
        space: case.space.clone(),
        purpose: NamePurpose::Used,
        owner: String::new(),
        names: vec![placed("k9", 9)],
        generations: 1,
    };
    case.store.names.add_names(&used, &case.unseen).await.unwrap();
    let is_on_record = async |name: NewName, owner: &str| {
        let evidence = Evidence::Name { name, owner: owner.to_owned() };
        case.confirm(case.mark().await, evidence, 0..0).await.unwrap().on_record
    };
    assert!(is_on_record(name_only("sale"), "me").await);
    assert!(is_on_record(placed("k5", 5), "me").await);
    assert!(is_on_record(placed("k9", 9), "").await, "a key in use elsewhere");
    assert!(!is_on_record(name_only("sale"), "you").await);
    assert!(!is_on_record(name_only("Sale"), "me").await);
    assert!(!is_on_record(placed("k6", 6), "me").await);
    case.remove("sale", "me").await.unwrap();
    assert!(!is_on_record(name_only("sale"), "me").await, "it was removed");
}

/// What a lease of this instance leaves on record.
fn lease(case: &Case, grant: &Grant) -> Evidence {
    let (lease, end) = (grant.lease, grant.ordinals.end);
    Evidence::Lease { lease, holder: case.instance.id.clone(), end }
}

impl Case {
    async fn someone_elses_lease(&self, size: u64) -> Grant {
        let mut ask = self.ask(size);
        ask.instance = Instance::this_process();
        self.lease_as(ask).await.unwrap()
    }
}
