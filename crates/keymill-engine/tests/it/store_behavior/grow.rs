//! Growth: more ordinals behind the last, once, and names that are older than their generation.

use keymill_engine::internals::store::{Lengths, Mark, Naming, SpaceRecord, StoreError};
use keymill_engine::space::Definition;

use super::{Case, is_rolled_back, name_only, to};

pub(super) async fn growing_makes_more_ordinals(case: &Case) {
    case.with_capacity(10).await;
    case.lease(10).await;
    let end = case.lease_as(case.ask(1)).await;
    assert!(matches!(end, Err(StoreError::Exhausted { .. })), "{end:?}");
    let before = case.store.spaces.space(&case.space).await.unwrap();
    let grown = case.grow(&[8], 110).await.unwrap();
    let mut expected = before.clone();
    (expected.definition, expected.capacity) = (definition(&[8]), 110);
    expected.mark.revision += 1;
    expected.mark.grown = Lengths::of(&[8]);
    assert_eq!(grown, expected);
    assert_eq!(case.store.spaces.space(&case.space).await.unwrap(), grown);
    assert!(case.store.spaces.spaces().await.unwrap().contains(&grown));
    let grant = case.lease(30).await;
    assert_eq!((grant.ordinals, grant.left), (10..40, 70));
    // A lease may lie on both sides of the next seam.
    let again = case.grow(&[8, 11], keymill_engine::space::CAPACITY_MAX).await.unwrap();
    assert_eq!(again.left(), keymill_engine::space::CAPACITY_MAX - 40);
    assert_eq!(case.lease(100).await.ordinals, 40..140);
}

pub(super) async fn a_growth_is_made_once(case: &Case) {
    case.with_capacity(10).await;
    let grown = case.grow(&[8], 110).await.unwrap();
    assert_eq!(case.grow(&[8], 110).await.unwrap(), grown);
    // Also where the space has moved on since.
    case.lease(5).await;
    let later = case.store.spaces.space(&case.space).await.unwrap();
    assert_eq!(case.grow(&[8], 110).await.unwrap(), later);
}

pub(super) async fn a_growth_that_does_not_continue_the_space_is_refused(case: &Case) {
    case.with_capacity(10).await;
    let grown = case.grow(&[8], 110).await.unwrap();
    let others: [&[u8]; 4] = [&[], &[9], &[9, 10], &[8, 9, 10]];
    for other in others {
        let refusal = case.grow(other, 1_000).await;
        assert!(matches!(refusal, Err(StoreError::Outdated(_))), "{other:?}: {refusal:?}");
    }
    assert_eq!(case.store.spaces.space(&case.space).await.unwrap(), grown);
}

pub(super) async fn many_who_grow_at_once_grow_once(case: &Case) {
    case.with_capacity(10).await;
    let before = case.mark().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let other = case.another().await;
        tasks.spawn(async move {
            loop {
                match other.grow(&[8], 110).await {
                    Err(StoreError::Unavailable(_)) => continue,
                    answer => return answer.unwrap(),
                }
            }
        });
    }
    for grown in tasks.join_all().await {
        assert_eq!((grown.capacity, grown.mark.revision), (110, before.revision + 1));
    }
}

pub(super) async fn a_sealed_space_does_not_grow(case: &Case) {
    case.with_capacity(10).await;
    let sealed = case.store.spaces.seal(&case.space, &case.unseen).await.unwrap();
    let refusal = case.grow(&[8], 110).await;
    assert!(matches!(refusal, Err(StoreError::Sealed(_))), "{refusal:?}");
    assert_eq!(case.store.spaces.space(&case.space).await.unwrap(), sealed);
}

pub(super) async fn growing_knows_the_floor(case: &Case) {
    case.with_capacity(10).await;
    let grow = async |revision, next| {
        let floor = case.floor(revision, next);
        case.store.spaces.grow(&case.space, &definition(&[8]), 110, &floor).await
    };
    assert!(is_rolled_back(&grow(50, 0).await), "a revision that is not there");
    assert!(is_rolled_back(&grow(0, 5).await), "ordinals that are not there");
}

pub(super) async fn a_growth_that_was_lost_is_made_again_by_an_advance(case: &Case) {
    let capacity = definition(&[]).capacity().unwrap();
    case.with_capacity(capacity).await;
    let (ask, mut floor) = (case.ask(1), case.unseen.clone());
    floor.mark.grown = Lengths::of(&[8, 9]);
    let lost = case.lease_above(&floor, &ask).await;
    assert!(is_rolled_back(&lost), "lengths that are not there");
    let seen = Mark { grown: Lengths::of(&[8, 9]), ..to(capacity + 5) };
    let after = case.store.spaces.advance(&case.space, seen, &case.instance).await.unwrap();
    assert_eq!(after.definition.grown, [8, 9]);
    assert_eq!(after.capacity, definition(&[8, 9]).capacity().unwrap());
    assert_eq!(after, case.store.spaces.space(&case.space).await.unwrap());
    let grant = case.lease_above(&floor, &ask).await.unwrap();
    assert_eq!(grant.ordinals, capacity + 5..capacity + 6);
    // Another length in its place would give ordinals other keys.
    let other = Mark { grown: Lengths::of(&[8, 10]), ..Mark::default() };
    let refusal = case.store.spaces.advance(&case.space, other, &case.instance).await;
    assert!(matches!(refusal, Err(StoreError::Broken(_))), "{refusal:?}");
    let less = Mark { grown: Lengths::of(&[8]), ..Mark::default() };
    let after = case.store.spaces.advance(&case.space, less, &case.instance).await.unwrap();
    assert_eq!(after.definition.grown, [8, 9], "it never shrinks");
}

pub(super) async fn names_located_among_other_generations_are_refused(case: &Case) {
    case.with_capacity(10).await;
    case.lease(4).await;
    case.grow(&[8], 110).await.unwrap();
    let before = case.mark().await;
    for others in [1, 3] {
        let refusal = case.names_among(others, &[("abcdefgh", None)], "me").await;
        assert!(matches!(refusal, Err(StoreError::Outdated(_))), "{refusal:?}");
    }
    assert_eq!(case.mark().await, before);
    assert_eq!(case.store.names.named(&case.space, &name_only("abcdefgh")).await.unwrap(), None);
    let names = [("abcdefgh", Some(50)), ("old", Some(3)), ("plain", None)];
    let outcomes = case.names_among(2, &names, "me").await.unwrap();
    assert_eq!(outcomes, [Naming::Made, Naming::Taken, Naming::Made]);
    assert_eq!(case.skips(0..110).await, [50]);
}

pub(super) async fn names_without_an_ordinal_are_listed_page_by_page(case: &Case) {
    case.with_capacity(100).await;
    assert!(case.names_without_ordinal(2).await.is_empty());
    for (key, ordinal) in
        [("b", None), ("Z", None), ("placed", Some(7)), ("b-", None), ("~", None), ("aa", None)]
    {
        assert_eq!(case.name(key, ordinal, "me").await, Naming::Made);
    }
    let expected = ["Z", "aa", "b", "b-", "~"];
    for limit in [1, 2, 5, 100] {
        assert_eq!(case.names_without_ordinal(limit).await, expected, "{limit} a page");
    }
    // A removed one, and one that is taken again, keep their place.
    for key in ["b", "aa", "placed"] {
        case.remove(key, "me").await.unwrap();
    }
    assert_eq!(case.names_without_ordinal(2).await, expected);
    case.grow(&[8], 200).await.unwrap();
    let names = [("b", Some(150)), ("placed", None)];
    let outcomes = case.names_among(2, &names, "you").await.unwrap();
    assert_eq!(outcomes, [Naming::Made, Naming::Made]);
    assert_eq!(case.names_without_ordinal(2).await, expected);
    assert_eq!(case.skips(0..200).await, [7]);
}

fn definition(grown: &[u8]) -> Definition {
    Definition { grown: grown.to_vec(), ..Definition::default() }
}

impl Case {
    pub(super) async fn grow(
        &self,
        grown: &[u8],
        capacity: u64,
    ) -> Result<SpaceRecord, StoreError> {
        self.store.spaces.grow(&self.space, &definition(grown), capacity, &self.unseen).await
    }

    /// All names without an ordinal, so many at a time.
    async fn names_without_ordinal(&self, limit: u32) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        loop {
            let after = all.last().cloned();
            let (space, reached) = (&self.space, Mark::default());
            let page = self
                .store
                .snapshots
                .names_without_ordinal(space, reached, after.as_deref(), limit)
                .await
                .unwrap();
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }
}
