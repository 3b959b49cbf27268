//! What `Store` promises, tested on every store with the same code.
//!
//! Adding a store is one line in [`on_every_store`]. A case never knows which store it runs on.

use std::sync::Arc;

use keymill::floor::{Floor, Mark};
use keymill::instance::Instance;
use keymill::space::{Definition, Tuning};
use keymill::store::{
    Created, GiveBack, Grant, InstancePage, LeaseAsk, LeasePage, NewSpace, Pulse, Purpose, Store,
    StoreError,
};

/// Runs each case on each store; a case gets a space of its own.
macro_rules! on_every_store {
    ($($case:ident)*) => {
        mod sqlite {
            use super::*;

            $(#[tokio::test]
            async fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", folder.path().join("keymill.db").display());
                super::$case(&Case::new(&url).await).await;
            })*
        }
    };
}

on_every_store! {
    the_identity_is_the_same_through_every_handle
    a_space_is_made_once_and_found_after
    names_are_compared_as_bytes
    tuning_is_a_change_like_any_other
    leases_are_disjoint_and_follow_each_other
    a_lease_never_takes_more_than_its_share_but_always_one
    a_space_ends_with_its_last_ordinal
    exhausted_says_how_many_are_held_elsewhere
    a_spent_lease_is_closed_at_its_end
    what_came_back_is_granted_first
    only_the_holder_gives_back_and_only_once
    a_rest_that_does_not_end_where_the_lease_does_is_not_taken
    a_change_below_the_floor_is_refused
    another_store_is_refused
    a_space_that_is_gone_is_a_store_that_went_back
    a_last_lease_that_is_gone_is_a_store_that_went_back
    an_advance_goes_beyond_everything_seen
    an_advance_never_goes_back_or_past_the_end
    an_advance_goes_beyond_the_eras_that_were_seen
    a_space_that_was_seen_and_is_gone_is_not_made_again
    a_sealed_space_grants_nothing
    the_lease_of_an_ordinal_is_the_one_that_drew_it
    leases_are_listed_page_by_page
    instances_are_listed_with_their_last_word
    the_first_secret_stays
    ordinals_beyond_2_to_the_53_come_through_unchanged
    many_instances_at_once_never_share_an_ordinal
    a_safe_store_has_no_unsafe_finding
}

struct Case {
    url: String,
    store: Arc<dyn Store>,
    instance: Instance,
    space: String,
}

impl Case {
    async fn new(url: &str) -> Case {
        let instance = Instance::this_process();
        Case {
            url: url.to_owned(),
            store: keymill::store::open(url, true).await.unwrap(),
            space: format!("space-{}", instance.id),
            instance,
        }
    }

    async fn with_capacity(&self, capacity: u64) -> &Case {
        self.create(&self.space, capacity, 0).await;
        self
    }

    async fn create(&self, name: &str, capacity: u64, start: u64) -> Created {
        let new = NewSpace {
            name: name.to_owned(),
            definition: Definition::default(),
            tuning: Tuning::default(),
            fingerprint: Some("f00d".to_owned()),
            capacity,
            start,
        };
        let floor = self.floor(0, 0).await;
        self.store.create(&new, &floor).await.unwrap()
    }

    fn ask(&self, size: u64) -> LeaseAsk {
        LeaseAsk {
            space: self.space.clone(),
            instance: self.instance.clone(),
            size,
            share: 1,
            floor: Floor { store: String::new(), mark: Mark::default() },
            last_lease: None,
            spent: Vec::new(),
        }
    }

    async fn lease_as(&self, mut ask: LeaseAsk) -> Result<Grant, StoreError> {
        if ask.floor.store.is_empty() {
            ask.floor.store = self.store.identity().await.unwrap();
        }
        self.store.lease(&ask).await
    }

    async fn lease(&self, size: u64) -> Grant {
        self.lease_as(self.ask(size)).await.unwrap()
    }

    async fn floor(&self, revision: u64, next: u64) -> Floor {
        Floor { store: self.store.identity().await.unwrap(), mark: Mark { revision, next } }
    }

    async fn give_back(&self, grant: &Grant, undrawn: u64) -> Result<Mark, StoreError> {
        let end = grant.ordinals.end;
        let back = GiveBack {
            space: self.space.clone(),
            instance: self.instance.id.clone(),
            lease: grant.lease,
            rest: end - undrawn..end,
            floor: self.floor(0, 0).await,
        };
        self.store.give_back(&back).await
    }

    async fn mark(&self) -> Mark {
        self.store.space(&self.space).await.unwrap().mark
    }
}

fn to(next: u64) -> Mark {
    Mark { revision: 0, next }
}

fn is_went_back<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::WentBack(_)))
}

async fn the_identity_is_the_same_through_every_handle(case: &Case) {
    let again = keymill::store::open(&case.url, true).await.unwrap();
    let identity = case.store.identity().await.unwrap();
    assert!(!identity.is_empty());
    assert_eq!(again.identity().await.unwrap(), identity);
}

async fn a_space_is_made_once_and_found_after(case: &Case) {
    assert!(matches!(
        case.store.space(&case.space).await,
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
    assert_eq!(case.store.space(&case.space).await.unwrap(), made);
    assert!(case.store.spaces().await.unwrap().contains(&made));
}

async fn names_are_compared_as_bytes(case: &Case) {
    for name in ["links", "Links", "lınks"] {
        assert!(matches!(case.create(name, 10, 0).await, Created::Made(_)), "{name}");
    }
}

async fn tuning_is_a_change_like_any_other(case: &Case) {
    case.with_capacity(100).await;
    let before = case.mark().await;
    let tuning = Tuning { lease_size_min: 7, blocklist: false, ..Tuning::default() };
    let floor = case.floor(before.revision, 0).await;
    let tuned = case.store.tune(&case.space, &tuning, &floor).await.unwrap();
    assert_eq!(tuned.tuning, tuning);
    assert_eq!(tuned.mark.revision, before.revision + 1);
    assert_eq!(case.store.space(&case.space).await.unwrap(), tuned);
}

async fn leases_are_disjoint_and_follow_each_other(case: &Case) {
    case.with_capacity(1_000).await;
    let start = case.mark().await.revision;
    let (first, second) = (case.lease(10).await, case.lease(20).await);
    assert_eq!((first.ordinals, first.left), (0..10, 990));
    assert_eq!((second.ordinals.clone(), second.left), (10..30, 970));
    assert_eq!((first.lease, second.lease), (start + 1, start + 2));
    assert_eq!(second.mark, Mark { revision: start + 2, next: 30 });
    assert_eq!(case.mark().await, second.mark);
}

async fn a_lease_never_takes_more_than_its_share_but_always_one(case: &Case) {
    case.with_capacity(130).await;
    let share = |share| LeaseAsk { share, ..case.ask(1_000) };
    assert_eq!(case.lease_as(share(64)).await.unwrap().ordinals, 0..2);
    assert_eq!(case.lease_as(share(1_000)).await.unwrap().ordinals, 2..3);
    assert_eq!(case.lease_as(share(2)).await.unwrap().ordinals, 3..66);
}

async fn a_space_ends_with_its_last_ordinal(case: &Case) {
    case.with_capacity(5).await;
    assert_eq!(case.lease(4).await.ordinals, 0..4);
    let last = case.lease(100).await;
    assert_eq!((last.ordinals, last.left), (4..5, 0));
    for _ in 0..2 {
        let answer = case.lease_as(case.ask(1)).await;
        assert!(matches!(answer, Err(StoreError::Exhausted { .. })), "{answer:?}");
    }
}

async fn exhausted_says_how_many_are_held_elsewhere(case: &Case) {
    case.with_capacity(10).await;
    let other = LeaseAsk { instance: Instance::this_process(), ..case.ask(6) };
    case.lease_as(other).await.unwrap();
    case.lease(10).await;
    assert!(matches!(
        case.lease_as(case.ask(1)).await,
        Err(StoreError::Exhausted { held_elsewhere: 6, .. })
    ));
}

async fn a_spent_lease_is_closed_at_its_end(case: &Case) {
    case.with_capacity(10).await;
    let first = case.lease(6).await;
    let second = case.lease_as(LeaseAsk { spent: vec![first.lease], ..case.ask(6) }).await.unwrap();
    let closed = case.store.lease_of(&case.space, 3).await.unwrap().unwrap();
    assert_eq!((closed.lease, closed.closed_at_ordinal), (first.lease, Some(6)));
    assert!(closed.closed_at.is_some());
    // Also when there is nothing more to grant.
    let end = case.lease_as(LeaseAsk { spent: vec![second.lease], ..case.ask(1) }).await;
    assert!(matches!(end, Err(StoreError::Exhausted { .. })));
    let closed = case.store.lease_of(&case.space, 8).await.unwrap().unwrap();
    assert_eq!(closed.closed_at_ordinal, Some(10));
}

async fn what_came_back_is_granted_first(case: &Case) {
    case.with_capacity(1_000).await;
    let (first, second) = (case.lease(10).await, case.lease(10).await);
    let mark = case.give_back(&first, 4).await.unwrap();
    assert_eq!(mark, Mark { revision: second.mark.revision + 1, next: 20 });
    let record = case.store.space(&case.space).await.unwrap();
    assert_eq!((record.mark, record.returned, record.left()), (mark, 4, 984));
    assert_eq!(case.lease(3).await.ordinals, 6..9);
    assert_eq!(case.lease(3).await.ordinals, 9..10);
    assert_eq!(case.lease(3).await.ordinals, 20..23);
}

async fn only_the_holder_gives_back_and_only_once(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let before = case.mark().await;
    let others = GiveBack {
        space: case.space.clone(),
        instance: "somebody".to_owned(),
        lease: grant.lease,
        rest: 5..10,
        floor: case.floor(0, 0).await,
    };
    assert_eq!(case.store.give_back(&others).await.unwrap(), before);
    let after = case.give_back(&grant, 5).await.unwrap();
    assert_eq!(case.give_back(&grant, 7).await.unwrap(), after);
    assert_eq!(case.store.space(&case.space).await.unwrap().returned, 5);
    let unknown = Grant { lease: 999, ..grant };
    assert_eq!(case.give_back(&unknown, 1).await.unwrap(), after);
}

async fn a_rest_that_does_not_end_where_the_lease_does_is_not_taken(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let wrong = Grant { ordinals: 0..12, ..grant };
    case.give_back(&wrong, 4).await.unwrap();
    assert_eq!(case.store.space(&case.space).await.unwrap().returned, 0);
}

async fn a_change_below_the_floor_is_refused(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let Mark { revision, next } = grant.mark;
    let floor = case.floor(revision, next).await;
    assert!(case.lease_as(LeaseAsk { floor, ..case.ask(1) }).await.is_ok());
    for (revision, next) in [(revision + 5, next), (revision, next + 5)] {
        let floor = case.floor(revision, next).await;
        let before = case.mark().await;
        let ask = LeaseAsk { floor: floor.clone(), ..case.ask(1) };
        let back = GiveBack {
            space: case.space.clone(),
            instance: case.instance.id.clone(),
            lease: grant.lease,
            rest: 5..10,
            floor: floor.clone(),
        };
        assert!(is_went_back(&case.lease_as(ask).await));
        assert!(is_went_back(&case.store.give_back(&back).await));
        assert!(is_went_back(&case.store.tune(&case.space, &Tuning::default(), &floor).await));
        assert!(is_went_back(&case.store.seal(&case.space, &floor).await));
        assert_eq!(case.mark().await, before, "a refused request changes nothing");
    }
}

async fn another_store_is_refused(case: &Case) {
    case.with_capacity(100).await;
    let floor = Floor { store: "another".to_owned(), mark: Mark::default() };
    assert!(is_went_back(&case.lease_as(LeaseAsk { floor, ..case.ask(1) }).await));
}

async fn a_space_that_is_gone_is_a_store_that_went_back(case: &Case) {
    let floor = case.floor(3, 10).await;
    assert!(is_went_back(&case.lease_as(LeaseAsk { floor, ..case.ask(1) }).await));
    let answer = case.lease_as(case.ask(1)).await;
    assert!(matches!(answer, Err(StoreError::UnknownSpace(_))), "{answer:?}");
}

async fn a_last_lease_that_is_gone_is_a_store_that_went_back(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let last = |last_lease| LeaseAsk { last_lease, ..case.ask(1) };
    assert!(case.lease_as(last(Some(grant.lease))).await.is_ok());
    assert!(is_went_back(&case.lease_as(last(Some(grant.lease + 50))).await));
    let pulse = |lease| Pulse {
        instance: case.instance.clone(),
        address: None,
        stopping: false,
        last_leases: vec![(case.space.clone(), lease)],
    };
    let beat = case.store.heartbeat(&pulse(grant.lease)).await.unwrap();
    assert!(beat.lost.is_empty());
    assert_eq!(beat.store, case.store.identity().await.unwrap());
    assert!(beat.spaces.iter().any(|space| space.name == case.space));
    let beat = case.store.heartbeat(&pulse(grant.lease + 50)).await.unwrap();
    assert_eq!(beat.lost, [case.space.as_str()]);
}

async fn an_advance_goes_beyond_everything_seen(case: &Case) {
    case.with_capacity(1_000).await;
    let grant = case.lease(10).await;
    case.give_back(&grant, 5).await.unwrap();
    let lost = grant.lease + 50;
    let record = case.store.advance(&case.space, to(300), &case.instance).await.unwrap();
    assert_eq!((record.mark.next, record.returned), (300, 0));
    // Beyond any revision that an instance may have seen, and any lease that is gone.
    let floor = case.floor(lost + 1_000, 300).await;
    let ask = LeaseAsk { floor, last_lease: Some(lost), ..case.ask(10) };
    let grant = case.lease_as(ask).await.unwrap();
    assert_eq!(grant.ordinals, 300..310);
    let pulse = Pulse {
        instance: case.instance.clone(),
        address: None,
        stopping: false,
        last_leases: vec![(case.space.clone(), lost)],
    };
    assert!(case.store.heartbeat(&pulse).await.unwrap().lost.is_empty());
    let between = case.store.lease_of(&case.space, 200).await.unwrap().unwrap();
    assert_eq!((between.purpose, between.ordinals), (Purpose::Advance, 10..300));
}

async fn an_advance_never_goes_back_or_past_the_end(case: &Case) {
    case.with_capacity(100).await;
    case.lease(50).await;
    let record = case.store.advance(&case.space, to(20), &case.instance).await.unwrap();
    assert_eq!(record.mark.next, 50);
    let record = case.store.advance(&case.space, to(500), &case.instance).await.unwrap();
    assert_eq!((record.mark.next, record.left()), (100, 0));
}

async fn an_advance_goes_beyond_the_eras_that_were_seen(case: &Case) {
    case.with_capacity(100).await;
    // A backup from before an earlier advance was restored: what was seen is eras ahead.
    let seen = Mark { revision: 3 * keymill::store::ERA + 7, next: 40 };
    let record = case.store.advance(&case.space, seen, &case.instance).await.unwrap();
    assert!(record.mark.has_reached(seen), "{:?}", record.mark);
    let floor = case.floor(seen.revision, seen.next).await;
    assert_eq!(case.lease_as(LeaseAsk { floor, ..case.ask(1) }).await.unwrap().ordinals, 40..41);
}

async fn a_space_that_was_seen_and_is_gone_is_not_made_again(case: &Case) {
    let new = NewSpace {
        name: case.space.clone(),
        definition: Definition::default(),
        tuning: Tuning::default(),
        fingerprint: None,
        capacity: 100,
        start: 0,
    };
    let seen = case.floor(5, 50).await;
    assert!(is_went_back(&case.store.create(&new, &seen).await));
    let another = Floor { store: "another".to_owned(), mark: Mark::default() };
    assert!(is_went_back(&case.store.create(&new, &another).await));
    let unseen = case.floor(0, 0).await;
    assert!(matches!(case.store.create(&new, &unseen).await, Ok(Created::Made(_))));
}

async fn a_sealed_space_grants_nothing(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    let floor = case.floor(0, 0).await;
    let sealed = case.store.seal(&case.space, &floor).await.unwrap();
    assert!(sealed.sealed);
    assert_eq!(case.store.seal(&case.space, &floor).await.unwrap(), sealed);
    assert!(matches!(case.lease_as(case.ask(1)).await, Err(StoreError::Sealed(_))));
    // What an instance still held can come back all the same.
    case.give_back(&grant, 5).await.unwrap();
    assert_eq!(case.store.space(&case.space).await.unwrap().returned, 5);
}

async fn the_lease_of_an_ordinal_is_the_one_that_drew_it(case: &Case) {
    case.with_capacity(1_000).await;
    let first = case.lease(10).await;
    let open = case.store.lease_of(&case.space, 9).await.unwrap().unwrap();
    assert_eq!((open.lease, open.ordinals, open.closed_at), (first.lease, 0..10, None));
    assert_eq!((open.holder.id, open.holder.pid), (case.instance.id.clone(), std::process::id()));
    case.give_back(&first, 8).await.unwrap();
    let of = async |ordinal| {
        let found = case.store.lease_of(&case.space, ordinal).await.unwrap();
        found.map(|lease| lease.lease)
    };
    assert_eq!((of(1).await, of(2).await), (Some(first.lease), None));
    // Granted again, given back whole, and granted once more: only the last one counts.
    let second = case.lease(3).await;
    case.give_back(&second, 3).await.unwrap();
    assert_eq!((of(1).await, of(2).await), (Some(first.lease), None));
    let third = case.lease(8).await;
    assert_eq!(third.ordinals, 2..5);
    assert_eq!((of(1).await, of(2).await, of(4).await), {
        (Some(first.lease), Some(third.lease), Some(third.lease))
    });
}

async fn leases_are_listed_page_by_page(case: &Case) {
    case.with_capacity(1_000).await;
    let mut granted = Vec::new();
    for _ in 0..5 {
        granted.push(case.lease(1).await.lease);
    }
    let mut listed = Vec::new();
    let mut page = LeasePage { space: Some(case.space.clone()), after: None, limit: 2 };
    loop {
        let leases = case.store.leases(&page).await.unwrap();
        let Some(last) = leases.last() else { break };
        assert!(leases.len() <= 2);
        page.after = Some((last.space.clone(), last.lease));
        listed.extend(leases.into_iter().map(|lease| lease.lease));
    }
    assert_eq!(listed, granted);
    let all = LeasePage { limit: 1_000, ..LeasePage::default() };
    let all = case.store.leases(&all).await.unwrap();
    assert!(all.iter().filter(|lease| lease.space == case.space).count() == 5);
}

async fn instances_are_listed_with_their_last_word(case: &Case) {
    let mut pulse = Pulse {
        instance: case.instance.clone(),
        address: Some("127.0.0.1:8080".to_owned()),
        stopping: false,
        last_leases: Vec::new(),
    };
    case.store.heartbeat(&pulse).await.unwrap();
    let other = Pulse { instance: Instance::this_process(), ..pulse.clone() };
    case.store.heartbeat(&other).await.unwrap();
    (pulse.stopping, pulse.address) = (true, None);
    case.store.heartbeat(&pulse).await.unwrap();
    let mut seen = Vec::new();
    let mut page = InstancePage { after: None, limit: 1 };
    while let [one] = &case.store.instances(&page).await.unwrap()[..] {
        page.after = Some(one.instance.id.clone());
        seen.push(one.clone());
    }
    let of = |id: &str| seen.iter().find(|record| record.instance.id == id).unwrap();
    let (mine, others) = (of(&case.instance.id), of(&other.instance.id));
    assert_eq!(mine.address.as_deref(), Some("127.0.0.1:8080"));
    assert!(mine.stopped_at.is_some() && others.stopped_at.is_none());
    assert_eq!(mine.instance.host, case.instance.host);
}

async fn the_first_secret_stays(case: &Case) {
    assert_eq!(case.store.secret(None).await.unwrap(), None);
    let first = case.store.secret(Some("first")).await.unwrap();
    assert_eq!(first.as_deref(), Some("first"));
    assert_eq!(case.store.secret(Some("second")).await.unwrap(), first);
    assert_eq!(case.store.secret(None).await.unwrap(), first);
    case.store.forget_secret().await.unwrap();
    assert_eq!(case.store.secret(None).await.unwrap(), None);
}

async fn ordinals_beyond_2_to_the_53_come_through_unchanged(case: &Case) {
    let start = (1 << 53) + 1;
    case.create(&case.space, keymill::space::CAPACITY_MAX, start).await;
    let grant = case.lease(10).await;
    assert_eq!(grant.ordinals, start..start + 10);
    case.give_back(&grant, 3).await.unwrap();
    assert_eq!(case.lease(10).await.ordinals, start + 7..start + 10);
    let top = keymill::space::CAPACITY_MAX - 2;
    case.store.advance(&case.space, to(top), &case.instance).await.unwrap();
    assert_eq!(case.lease(10).await.ordinals, top..top + 2);
    let found = case.store.lease_of(&case.space, top + 1).await.unwrap().unwrap();
    assert_eq!(found.ordinals, top..top + 2);
}

async fn many_instances_at_once_never_share_an_ordinal(case: &Case) {
    const CAPACITY: u64 = 3_000;
    case.with_capacity(CAPACITY).await;
    let identity = case.store.identity().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let store = keymill::store::open(&case.url, true).await.unwrap();
        let space = case.space.clone();
        let floor = Floor { store: identity.clone(), mark: Mark::default() };
        tasks.spawn(async move {
            let instance = Instance::this_process();
            let mut mine = Vec::new();
            for turn in 0_u64.. {
                let ask = LeaseAsk {
                    space: space.clone(),
                    instance: instance.clone(),
                    size: 1 + (turn * 7 + number) % 40,
                    share: 1,
                    floor: floor.clone(),
                    last_lease: None,
                    spent: Vec::new(),
                };
                let grant = match store.lease(&ask).await {
                    Ok(grant) => grant,
                    Err(StoreError::Exhausted { .. }) => break,
                    Err(StoreError::Unavailable(_)) => continue,
                    Err(error) => panic!("{error}"),
                };
                // Every third lease is drawn only half, and the rest comes back.
                let mut drawn = grant.ordinals.clone();
                if turn % 3 == 0 {
                    drawn.end -= (drawn.end - drawn.start) / 2;
                    let back = GiveBack {
                        space: space.clone(),
                        instance: instance.id.clone(),
                        lease: grant.lease,
                        rest: drawn.end..grant.ordinals.end,
                        floor: floor.clone(),
                    };
                    store.give_back(&back).await.unwrap();
                }
                mine.extend(drawn);
            }
            mine
        });
    }
    let mut drawn: Vec<u64> = tasks.join_all().await.into_iter().flatten().collect();
    drawn.sort_unstable();
    // What one gave back after another saw the end may be left: drawn exactly once otherwise.
    while let Ok(grant) = case.lease_as(case.ask(CAPACITY)).await {
        drawn.extend(grant.ordinals);
    }
    drawn.sort_unstable();
    assert_eq!(drawn, (0..CAPACITY).collect::<Vec<_>>());
}

async fn a_safe_store_has_no_unsafe_finding(case: &Case) {
    let findings = case.store.check().await.unwrap();
    assert!(!findings.is_empty());
    let bad: Vec<_> =
        findings.iter().filter(|it| it.verdict == keymill::store::Verdict::Unsafe).collect();
    assert!(bad.is_empty(), "{bad:?}");
}
