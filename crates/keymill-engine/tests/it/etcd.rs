//! What only etcd has: marks beside the spaces, leases that are given back in groups, and signs of
//! life that leave no history. Each test looks at its store's keys with a client of its own.

use std::time::Instant;

use etcd_client::{Client, GetOptions};
use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    Floor, GiveBack, Grant, InstancePage, LeaseAsk, Mark, NewSpace, Opening, Pulse, Store,
    StoreError,
};
use keymill_engine::space::{Definition, Tuning};

struct Case {
    store: Store,
    floor: Floor,
    instance: Instance,
    client: Client,
    /// What all keys of the store begin with.
    root: String,
}

impl Case {
    async fn new() -> Option<Case> {
        let url = crate::servers::new_store("etcd")?;
        let (server, path) = url.strip_prefix("etcd://").unwrap().split_once('/').unwrap();
        let store = keymill_engine::internals::store::open(&url, Opening::default()).await.unwrap();
        let floor = Floor { store: store.admin.identity().await.unwrap(), mark: Mark::default() };
        let client = Client::connect([server], None).await.unwrap();
        let instance = Instance::this_process();
        Some(Case { store, floor, instance, client, root: format!("/{path}/") })
    }

    async fn create(&self, name: &str) {
        let new = NewSpace {
            name: name.to_owned(),
            definition: Definition::default(),
            tuning: Tuning::default(),
            fingerprint: None,
            capacity: 1_000,
            start: 0,
        };
        self.store.spaces.create(&new, &self.floor).await.unwrap();
    }

    async fn lease(&self, space: &str) -> (LeaseAsk, Grant) {
        let ask = LeaseAsk {
            space: space.to_owned(),
            instance: self.instance.clone(),
            size: 10,
            share: 1,
            last_lease: None,
            spent: Vec::new(),
        };
        let grant = self.store.leases.lease(&ask, &self.floor).await.unwrap();
        (ask, grant)
    }

    fn pulse(&self) -> Pulse {
        Pulse {
            instance: self.instance.clone(),
            address: Some("127.0.0.1:8080".to_owned()),
            stopping: false,
            last_leases: Vec::new(),
            serves: Vec::new(),
        }
    }

    /// Every key of the store with the revision of etcd that last wrote it.
    async fn keys(&self) -> Vec<(String, i64)> {
        let all = GetOptions::new().with_prefix().with_keys_only();
        let found = self.client.clone().get(self.root.as_str(), Some(all)).await.unwrap();
        let key = |row: &etcd_client::KeyValue| row.key_str().unwrap().to_owned();
        found.kvs().iter().map(|row| (key(row), row.mod_revision())).collect()
    }

    /// The leases of etcd that signs of life hang on.
    async fn signs(&self) -> Vec<i64> {
        let all = GetOptions::new().with_prefix();
        let begin = format!("{}alive/", self.root);
        let found = self.client.clone().get(begin, Some(all)).await.unwrap();
        found.kvs().iter().map(etcd_client::KeyValue::lease).collect()
    }
}

#[tokio::test]
async fn fifty_heartbeats_of_an_idle_instance_write_nothing() {
    let Some(case) = Case::new().await else { return };
    case.create("links").await;
    case.store.instances.heartbeat(&case.pulse()).await.unwrap();
    let before = case.keys().await;
    assert_eq!(case.signs().await.len(), 1);
    for _ in 0..50 {
        case.store.instances.heartbeat(&case.pulse()).await.unwrap();
    }
    assert_eq!(case.keys().await, before);
    // Another address is worth a write.
    let moved = Pulse { address: Some("127.0.0.1:9090".to_owned()), ..case.pulse() };
    case.store.instances.heartbeat(&moved).await.unwrap();
    assert_ne!(case.keys().await, before);
}

#[tokio::test]
async fn a_sign_of_life_that_has_ended_is_made_again() {
    let Some(case) = Case::new().await else { return };
    let seen = async || {
        let page = InstancePage { after: None, limit: 10 };
        let mut listed = case.store.instances.instances(&page).await.unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed.remove(0)
    };
    case.store.instances.heartbeat(&case.pulse()).await.unwrap();
    let first = case.signs().await;
    // As etcd does with the lease of an instance that was paused for too long.
    case.client.clone().lease_revoke(first[0]).await.unwrap();
    assert!(case.signs().await.is_empty());
    let silent = seen().await;
    assert!(silent.stopped_at.is_none());
    case.store.instances.heartbeat(&case.pulse()).await.unwrap();
    let second = case.signs().await;
    assert!(second.len() == 1 && second != first, "{first:?}, then {second:?}");
    assert!(seen().await.seen_at > silent.seen_at);

    let last = Pulse { stopping: true, address: None, ..case.pulse() };
    case.store.instances.heartbeat(&last).await.unwrap();
    assert!(case.signs().await.is_empty());
    let stopped = seen().await;
    assert_eq!(stopped.stopped_at, Some(stopped.seen_at));
    assert_eq!(stopped.address.as_deref(), Some("127.0.0.1:8080"));
}

/// A version that knows of no marks writes a space without one, or leaves an old one behind.
#[tokio::test]
async fn a_mark_that_was_not_written_with_its_space_is_not_believed() {
    let Some(case) = Case::new().await else { return };
    for name in ["a", "b-1", "b", "c"] {
        case.create(name).await;
    }
    let (_, grant) = case.lease("b").await;
    let expected = [("a", 1, 0), ("b", grant.mark.revision, 10), ("b-1", 1, 0), ("c", 1, 0)];
    let key = format!("{}marks/b", case.root);
    let mut client = case.client.clone();
    for harm in ["nothing", "an old mark", "no mark"] {
        match harm {
            "an old mark" => drop(client.put(key.as_str(), "1 0", None).await.unwrap()),
            "no mark" => drop(client.delete(key.as_str(), None).await.unwrap()),
            _ => {}
        }
        let pulse = Pulse { serves: vec![("b".to_owned(), 1)], ..case.pulse() };
        let beat = case.store.instances.heartbeat(&pulse).await.unwrap();
        let marks = beat.marks.iter();
        let marks: Vec<_> =
            marks.map(|(name, mark)| (name.as_str(), mark.revision, mark.next)).collect();
        assert_eq!(marks, expected, "{harm}");
        let changed: Vec<&str> = beat.changed.iter().map(|space| space.name.as_str()).collect();
        assert_eq!(changed, ["b"], "{harm}");
    }
}

#[tokio::test]
async fn hundreds_of_leases_are_given_back_in_few_transactions() {
    let Some(case) = Case::new().await else { return };
    let mut backs = Vec::new();
    for number in 0..200 {
        let space = format!("space-{number}");
        case.create(&space).await;
        let (ask, grant) = case.lease(&space).await;
        backs.push((GiveBack::whole(&ask, &grant), case.floor.clone()));
    }
    // Two of one space, one of them twice; and one that is refused.
    let (ask, grant) = case.lease("space-7").await;
    backs.insert(9, (GiveBack::whole(&ask, &grant), case.floor.clone()));
    backs.insert(10, (GiveBack::whole(&ask, &grant), case.floor.clone()));
    let refused = backs.iter().position(|(back, _)| back.space == "space-50").unwrap();
    backs[refused].1.mark = Mark { revision: 90, ..Mark::default() };

    let begin = Instant::now();
    let answers = case.store.leases.give_back(&backs).await.unwrap();
    // A stop that gives 10,000 leases back has five seconds.
    assert!(begin.elapsed().as_secs_f64() < 2.0, "it took {:?}", begin.elapsed());
    assert_eq!(answers.len(), backs.len());
    for (number, ((back, _), answer)) in backs.iter().zip(&answers).enumerate() {
        match answer {
            Err(StoreError::RolledBack(_)) => assert_eq!(number, refused),
            answer => assert!(answer.is_ok() && number != refused, "{}: {answer:?}", back.space),
        }
        let returned = case.store.spaces.space(&back.space).await.unwrap().returned.count();
        let expected = match back.space.as_str() {
            "space-7" => 20,
            "space-50" => 0,
            _ => 10,
        };
        assert_eq!(returned, expected, "{}", back.space);
    }
    // What was closed before is left as it is.
    let marks = |answers: &[Result<Mark, StoreError>]| -> Vec<Option<Mark>> {
        answers.iter().map(|answer| answer.as_ref().ok().copied()).collect()
    };
    let again = case.store.leases.give_back(&backs).await.unwrap();
    let (first, second) = (marks(&answers), marks(&again));
    // Those of `space-7` tell the last mark now.
    let others = |number: &usize| backs[*number].0.space != "space-7";
    for number in (0..backs.len()).filter(others) {
        assert_eq!(first[number], second[number], "{}", backs[number].0.space);
    }
}
