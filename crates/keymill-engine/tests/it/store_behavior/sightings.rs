//! Sightings: how far instances have seen a space that its store lies below.

use keymill_engine::internals::store::{ERA, Lengths, Mark};

use super::{Case, to};

pub(super) async fn sightings_rise_by_instance_and_change_no_mark(case: &Case) {
    case.with_capacity(1_000).await;
    let before = case.mark().await;
    assert_eq!(case.sighted().await, None);
    let seen = |revision, next| Mark { revision, next, ..Mark::default() };
    case.sight("one", seen(5, 50)).await;
    assert_eq!(case.sighted().await, Some(seen(5, 50)));
    case.sight("one", seen(7, 40)).await;
    assert_eq!(case.sighted().await, Some(seen(7, 50)), "part by part, and never down");
    case.sight("two", Mark { grown: Lengths::of(&[9]), ..seen(6, 60) }).await;
    let highest = Mark { grown: Lengths::of(&[9]), ..seen(7, 60) };
    assert_eq!(case.sighted().await, Some(highest));
    case.sight("two", seen(1, 1)).await;
    assert_eq!(case.sighted().await, Some(highest));
    assert_eq!(case.mark().await, before);
}

pub(super) async fn nothing_is_sighted_of_a_space_that_is_not_there(case: &Case) {
    case.sight("one", to(50)).await;
    assert_eq!(case.sighted().await, None);
    case.with_capacity(1_000).await;
    assert_eq!(case.sighted().await, None, "it was made after that");
}

pub(super) async fn an_advance_goes_beyond_sightings_and_drops_them(case: &Case) {
    let other = case.beside(format!("{}-2", case.space));
    for it in [case, &other] {
        it.with_capacity(1_000).await;
        it.lease(10).await;
        // Of two instances: one has seen more changes, the other more ordinals.
        it.sight("one", Mark { revision: 3 * ERA + 7, ..to(50) }).await;
        it.sight("two", to(400)).await;
    }
    let record = case.store.spaces.advance(&case.space, to(300), &case.instance).await.unwrap();
    assert_eq!((record.mark.next, record.mark.revision), (400, 4 * ERA));
    assert_eq!(record, case.store.spaces.space(&case.space).await.unwrap());
    assert_eq!(case.lease(1).await.ordinals, 400..401);
    assert_eq!(case.sighted().await, None);
    assert!(other.sighted().await.is_some(), "that of another space stays");
    // Who knows of more than was sighted is not held back by it.
    let record = other.store.spaces.advance(&other.space, to(700), &other.instance).await.unwrap();
    assert_eq!(record.mark.next, 700);
}

impl Case {
    async fn sight(&self, instance: &str, seen: Mark) {
        self.store.spaces.report_sighting(&self.space, instance, seen).await.unwrap();
    }

    async fn sighted(&self) -> Option<Mark> {
        self.store.spaces.sighted(&self.space).await.unwrap()
    }
}
