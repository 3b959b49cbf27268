//! Named keys: whoever is first has the key, a name or a lease.

use std::collections::HashSet;

use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    NameBatch, NamePage, NamePurpose, NameRecord, Naming, NewName, Opening, StoreError,
};

use super::{Case, is_rolled_back, name_only};

pub(super) async fn a_name_is_made_once_and_found_after(case: &Case) {
    case.with_capacity(100).await;
    let before = case.mark().await;
    assert_eq!(case.store.names.named(&case.space, &name_only("sale")).await.unwrap(), None);
    assert_eq!(case.name("sale", None, "me").await, Naming::Made);
    assert_eq!(case.mark().await.revision, before.revision + 1, "a name is a change");
    assert_eq!(case.name("sale", None, "me").await, Naming::Mine);
    assert_eq!(case.name("sale", None, "you").await, Naming::Taken);
    assert_eq!(case.mark().await.revision, before.revision + 1);
    let found = case.store.names.named(&case.space, &name_only("sale")).await.unwrap().unwrap();
    assert_eq!((found.key.as_str(), found.owner.as_str()), ("sale", "me"));
    assert_eq!((found.ordinal, found.purpose), (None, NamePurpose::Alias));
    assert!(found.removed_at.is_none());
    // Bytes, not letters.
    assert_eq!(case.name("Sale", None, "you").await, Naming::Made);
    assert_eq!(case.name("sale ", None, "you").await, Naming::Made);
}

pub(super) async fn a_name_that_was_granted_is_taken(case: &Case) {
    case.with_capacity(100).await;
    let grant = case.lease(10).await;
    assert_eq!(case.name("k9", Some(9), "me").await, Naming::Taken);
    assert_eq!(case.name("k10", Some(10), "me").await, Naming::Made);
    // Also where it came back undrawn.
    case.give_back(&grant, 5).await.unwrap();
    assert_eq!(case.name("k7", Some(7), "me").await, Naming::Taken);
}

pub(super) async fn a_named_ordinal_is_skipped_for_ever(case: &Case) {
    case.with_capacity(1_000).await;
    for (key, ordinal) in [("a", 3), ("b", 700), ("c", 12)] {
        assert_eq!(case.name(key, Some(ordinal), "me").await, Naming::Made);
    }
    case.name("plain", None, "me").await;
    let skips = async |range| case.skips(range).await;
    assert_eq!(skips(0..1_000).await, [3, 12, 700]);
    assert_eq!((skips(4..12).await, skips(12..13).await), (vec![], vec![12]));
    let remove = async |key, owner| case.remove(key, owner).await;
    assert!(remove("b", "you").await.unwrap().removed_at.is_none(), "it is not theirs");
    assert!(remove("b", "me").await.unwrap().removed_at.is_some());
    assert_eq!((remove("b", "me").await, remove("x", "me").await), (None, None));
    assert_eq!(skips(0..1_000).await, [3, 12, 700]);
    // Whoever comes next may have it, also when its range was granted since.
    case.lease(900).await;
    assert_eq!(case.name("b", Some(700), "you").await, Naming::Made);
    let found = case.store.names.named(&case.space, &name_only("b")).await.unwrap().unwrap();
    assert_eq!((found.owner.as_str(), found.removed_at), ("you", None));
}

pub(super) async fn a_batch_tells_of_each_name(case: &Case) {
    case.with_capacity(1_000).await;
    case.lease(10).await;
    let names = [("one", Some(20)), ("low", Some(5)), ("two", None), ("one", Some(20))];
    let outcomes = case.names(&names, "me").await.unwrap();
    assert_eq!(outcomes, [Naming::Made, Naming::Taken, Naming::Made, Naming::Mine]);
    let many: Vec<(String, Option<u64>)> = (100..100
        + case.store.names.names_max(NamePurpose::Alias) as u64)
        .map(|it| (format!("n{it}"), Some(it)))
        .collect();
    let many: Vec<(&str, Option<u64>)> =
        many.iter().map(|(key, ordinal)| (key.as_str(), *ordinal)).take(800).collect();
    let outcomes = case.names(&many, "me").await.unwrap();
    assert!(outcomes.len() == many.len() && outcomes.iter().all(|it| *it == Naming::Made));
    assert_eq!(case.skips(0..1_000).await.len(), many.len() + 1);
}

pub(super) async fn names_know_the_floor_and_the_seal(case: &Case) {
    case.with_capacity(100).await;
    let floor = case.floor(50, 0);
    let batch = NameBatch {
        space: case.space.clone(),
        purpose: NamePurpose::Used,
        owner: String::new(),
        names: vec![NewName { key: "k".to_owned(), ordinal: Some(1) }],
        generations: 1,
    };
    assert!(is_rolled_back(&case.store.names.add_names(&batch, &floor).await));
    assert!(is_rolled_back(&case.store.names.remove_name(&case.space, "k", "", &floor).await));
    assert!(case.skips(0..100).await.is_empty());
    case.store.spaces.seal(&case.space, &case.unseen).await.unwrap();
    let sealed = case.store.names.add_names(&batch, &case.unseen).await;
    assert!(matches!(sealed, Err(StoreError::Sealed(_))), "{sealed:?}");
}

/// Every ordinal of the space is fought over: names are taken for those that are about to be granted.
pub(super) async fn a_key_is_a_name_or_granted_never_both(case: &Case) {
    const CAPACITY: u64 = 10_000;
    case.with_capacity(CAPACITY).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..3_u64 {
        let other = Case { instance: Instance::this_process(), ..case.another().await };
        tasks.spawn(async move {
            let mut drawn = Vec::new();
            loop {
                let grant = match other.lease_as(other.ask(2 + number * 4)).await {
                    Ok(grant) => grant,
                    Err(StoreError::Exhausted { .. }) => return (drawn, Vec::new()),
                    Err(StoreError::Unavailable(_)) => continue,
                    Err(error) => panic!("{error}"),
                };
                let skips = other.skips(grant.ordinals.clone()).await;
                drawn.extend(grant.ordinals.filter(|ordinal| !skips.contains(ordinal)));
            }
        });
    }
    for number in 0..2_u64 {
        let other = case.another().await;
        tasks.spawn(async move {
            let (mut named, owner) = (Vec::new(), format!("owner {number}"));
            loop {
                let next = other.mark().await.next;
                if next == CAPACITY {
                    return (Vec::new(), named);
                }
                let ordinals: Vec<u64> = (next..CAPACITY.min(next + 12)).step_by(2).collect();
                let keys: Vec<String> = ordinals.iter().map(|it| format!("k{it}")).collect();
                let names: Vec<(&str, Option<u64>)> =
                    keys.iter().zip(&ordinals).map(|(key, it)| (key.as_str(), Some(*it))).collect();
                match other.names(&names, &owner).await {
                    Ok(outcomes) => {
                        let made = ordinals.into_iter().zip(outcomes);
                        named.extend(made.filter(|(_, it)| *it == Naming::Made).map(|(it, _)| it));
                    }
                    Err(StoreError::Unavailable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    let (mut drawn, mut named) = (Vec::new(), Vec::new());
    for (some_drawn, some_named) in tasks.join_all().await {
        drawn.extend(some_drawn);
        named.extend(some_named);
    }
    let named: HashSet<u64> = named.into_iter().collect();
    let both: Vec<&u64> = drawn.iter().filter(|ordinal| named.contains(ordinal)).collect();
    assert!(both.is_empty(), "named and handed out: {both:?}");
    assert!(!named.is_empty(), "no name was quick enough");
    let all: HashSet<u64> = drawn.iter().copied().chain(named.iter().copied()).collect();
    assert_eq!(all.len() as u64, CAPACITY, "every ordinal went somewhere");
    assert_eq!(drawn.len() + named.len(), all.len(), "and none twice");
}

impl Case {
    /// Another handle on the same space.
    pub(super) async fn another(&self) -> Case {
        Case {
            url: self.url.clone(),
            store: keymill_engine::internals::store::open(&self.url, Opening::default())
                .await
                .unwrap(),
            unseen: self.unseen.clone(),
            instance: self.instance.clone(),
            space: self.space.clone(),
        }
    }

    pub(super) async fn name(&self, key: &str, ordinal: Option<u64>, owner: &str) -> Naming {
        self.names(&[(key, ordinal)], owner).await.unwrap()[0]
    }

    async fn names(
        &self,
        names: &[(&str, Option<u64>)],
        owner: &str,
    ) -> Result<Vec<Naming>, StoreError> {
        self.names_among(1, names, owner).await
    }

    /// Removes a name, if it is the owner's; the name as it then is.
    pub(super) async fn remove(&self, key: &str, owner: &str) -> Option<NameRecord> {
        let removed = self.store.names.remove_name(&self.space, key, owner, &self.unseen).await;
        let (mark, name) = removed.unwrap();
        let now = self.mark().await;
        assert_eq!((mark.revision, mark.next), (now.revision, now.next), "how far it has come");
        name
    }

    /// All names of a purpose, so many at a time.
    async fn list_names(&self, purpose: NamePurpose, removed: bool, limit: u32) -> Vec<NameRecord> {
        let mut all: Vec<NameRecord> = Vec::new();
        loop {
            let (space, after) = (self.space.clone(), all.last().map(|last| last.key.clone()));
            let page = NamePage { space, purpose, removed, after, limit };
            let page = self.store.names.names(&page).await.unwrap();
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    /// Names that were located among so many generations.
    pub(super) async fn names_among(
        &self,
        generations: usize,
        names: &[(&str, Option<u64>)],
        owner: &str,
    ) -> Result<Vec<Naming>, StoreError> {
        let new = |(key, ordinal): &(&str, Option<u64>)| NewName {
            key: (*key).to_owned(),
            ordinal: *ordinal,
        };
        let batch = NameBatch {
            space: self.space.clone(),
            purpose: NamePurpose::Alias,
            owner: owner.to_owned(),
            names: names.iter().map(new).collect(),
            generations,
        };
        Ok(self.store.names.add_names(&batch, &self.unseen).await?.outcomes)
    }
}

pub(super) async fn names_of_a_purpose_are_listed_by_key_page_by_page(case: &Case) {
    case.with_capacity(1_000).await;
    let other = case.beside(format!("{}-2", case.space));
    other.with_capacity(1_000).await;
    other.name("a", None, "them").await;
    let aliases =
        [("b", None), ("Z", None), ("k7", Some(7)), ("b-", None), ("~", None), ("aa", None)];
    for (key, ordinal) in aliases {
        assert_eq!(case.name(key, ordinal, "me").await, Naming::Made);
    }
    // Of another length than the keys of the space have at present, so it has no ordinal.
    let used = NameBatch {
        space: case.space.clone(),
        purpose: NamePurpose::Used,
        owner: String::new(),
        names: vec![name_only("bb")],
        generations: 1,
    };
    case.store.names.add_names(&used, &case.unseen).await.unwrap();
    case.remove("b", "me").await.unwrap();
    let kept = ["Z", "aa", "b-", "k7", "~"];
    for limit in [1, 2, 5, 100] {
        let listed = case.list_names(NamePurpose::Alias, false, limit).await;
        assert_eq!(keys(&listed), kept, "{limit} a page");
        let all = case.list_names(NamePurpose::Alias, true, limit).await;
        assert_eq!(keys(&all), ["Z", "aa", "b", "b-", "k7", "~"], "{limit} a page");
        assert!(all.iter().all(|name| name.removed_at.is_some() == (name.key == "b")));
    }
    assert_eq!(keys(&case.list_names(NamePurpose::Used, false, 2).await), ["bb"]);
    // Each as it is found by its name.
    for listed in case.list_names(NamePurpose::Alias, true, 100).await {
        let name = NewName { key: listed.key.clone(), ordinal: listed.ordinal };
        assert_eq!(case.store.names.named(&case.space, &name).await.unwrap(), Some(listed));
    }
}

pub(super) async fn names_are_counted_by_space(case: &Case) {
    let [one, two, none] = ["1", "2", "3"].map(|end| case.beside(format!("{}-{end}", case.space)));
    for it in [&one, &two, &none] {
        it.with_capacity(1_000).await;
    }
    for (key, ordinal) in [("a", None), ("b", Some(4)), ("c", None)] {
        one.name(key, ordinal, "me").await;
    }
    one.remove("c", "me").await.unwrap();
    let used = |ordinal| NewName { key: format!("k{ordinal}"), ordinal: Some(ordinal) };
    let batch = NameBatch {
        space: one.space.clone(),
        purpose: NamePurpose::Used,
        owner: String::new(),
        names: (10..60).map(used).collect(),
        generations: 1,
    };
    one.store.names.add_names(&batch, &one.unseen).await.unwrap();
    two.name("a", None, "me").await;
    let all = case.store.names.count_names(None).await.unwrap();
    let count = |it: &Case| all.get(&it.space).copied().unwrap_or(0);
    assert_eq!((count(&one), count(&two), count(&none)), (52, 1, 0));
    for (it, expected) in [(&one, 52), (&two, 1), (&none, 0)] {
        let some = case.store.names.count_names(Some(&it.space)).await.unwrap();
        assert_eq!(some.get(&it.space).copied().unwrap_or(0), expected);
        assert!(some.keys().all(|space| *space == it.space), "{some:?}");
    }
}

pub(super) async fn keys_in_use_elsewhere_are_taken_and_skipped(case: &Case) {
    case.with_capacity(10_000).await;
    case.lease(10).await;
    let import = async |ordinals: Vec<u64>| {
        let names = ordinals
            .into_iter()
            .map(|ordinal| NewName { key: format!("k{ordinal}"), ordinal: Some(ordinal) });
        let batch = NameBatch {
            space: case.space.clone(),
            purpose: NamePurpose::Used,
            owner: String::new(),
            names: names.collect(),
            generations: 1,
        };
        case.store.names.add_names(&batch, &case.unseen).await.unwrap().outcomes
    };
    use Naming::{Made, Mine, Taken};
    let before = case.mark().await.revision;
    assert_eq!(import(vec![3, 70, 20, 70]).await, [Taken, Made, Made, Mine]);
    assert_eq!(case.mark().await.revision, before + 1, "an import is a change");
    assert_eq!(import(vec![20, 21]).await, [Mine, Made]);
    assert_eq!(case.name("k20", Some(20), "").await, Taken, "an alias");
    assert_eq!(case.name("k22", Some(22), "me").await, Made);
    assert_eq!(import(vec![22]).await, [Taken]);
    let skips = case.skips(15..9_000).await;
    assert_eq!(skips, [20, 21, 22, 70]);
    let named = NewName { key: "k70".to_owned(), ordinal: Some(70) };
    let found = case.store.names.named(&case.space, &named).await.unwrap().unwrap();
    assert_eq!(
        (found.purpose, found.ordinal, found.key.as_str()),
        (NamePurpose::Used, Some(70), "k70")
    );
    let removed = case.remove("k70", "").await;
    assert!(removed.is_none_or(|known| known.removed_at.is_none()), "it is in use for good");
    assert_eq!(case.skips(60..80).await, [70]);
    // As many as fit into a batch.
    let many = case.store.names.names_max(NamePurpose::Used) as u64;
    let all: Vec<u64> = (100..100 + many.min(9_900)).collect();
    let outcomes = import(all.clone()).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Made));
    assert_eq!(case.skips(100..10_000).await, all);
}

fn keys(names: &[NameRecord]) -> Vec<&str> {
    names.iter().map(|name| name.key.as_str()).collect()
}
