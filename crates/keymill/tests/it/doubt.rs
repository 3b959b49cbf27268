//! The commit in doubt: a store that grants and then loses the answer.
//!
//! What is in doubt is burned, and burns little: after one doubt the next requests ask for a
//! single ordinal until one succeeds.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use keymill::floor::{Floor, Mark};
use keymill::instance::Instance;
use keymill::service::{Limits, Service, Setup};
use keymill::space::{Definition, Kind, SpaceSpec, Tuning};
use keymill::store::{
    Beat, Created, Finding, GiveBack, Grant, InstancePage, InstanceRecord, LeaseAsk, LeaseId,
    LeasePage, LeaseRecord, NameBatch, NameRecord, Named, NewName, NewSpace, Place, Pulse,
    SpaceRecord, Store, StoreError, Window, WindowAsk, WindowRelease,
};
use keymill_core::Blocklist;

/// Commits every lease and every window, and loses the answers of the first few.
#[derive(Debug)]
struct Forgetful {
    inner: Arc<dyn Store>,
    to_lose: AtomicU32,
    /// What was asked for, and what was granted whether or not the answer arrived.
    asked: Mutex<Vec<(u64, u64)>>,
}

impl Forgetful {
    async fn open(folder: &std::path::Path, to_lose: u32) -> Arc<Forgetful> {
        let url = format!("sqlite:{}", folder.join("keymill.db").display());
        let inner = keymill::store::open(&url, keymill::store::Opening::default()).await.unwrap();
        Arc::new(Forgetful { inner, to_lose: to_lose.into(), asked: Mutex::default() })
    }

    /// Notes what was asked for and granted, and answers with it unless the answer is to be lost.
    fn answer<T>(&self, asked: u64, granted: u64, answer: T) -> Result<T, StoreError> {
        self.asked.lock().unwrap().push((asked, granted));
        let lose = |left: u32| left.checked_sub(1);
        match self.to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose) {
            Ok(_) => Err(StoreError::InDoubt("the answer was lost".to_owned())),
            Err(_) => Ok(answer),
        }
    }
}

#[async_trait]
impl Store for Forgetful {
    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let grant = self.inner.lease(ask).await?;
        self.answer(ask.size, grant.ordinals.end - grant.ordinals.start, grant)
    }

    async fn window(&self, ask: &WindowAsk) -> Result<Window, StoreError> {
        let window = self.inner.window(ask).await?;
        self.answer(ask.length, window.ticks.end - window.ticks.start, window)
    }

    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        self.inner.clock_ms(own_ms).await
    }

    async fn release_window(&self, release: &WindowRelease) -> Result<Mark, StoreError> {
        self.inner.release_window(release).await
    }

    async fn add_names(&self, batch: &NameBatch) -> Result<Named, StoreError> {
        self.inner.add_names(batch).await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<Option<NameRecord>, StoreError> {
        self.inner.remove_name(space, key, owner, floor).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        self.inner.named(space, name).await
    }

    async fn skips(&self, space: &str, ordinals: Range<u64>) -> Result<Vec<u64>, StoreError> {
        self.inner.skips(space, ordinals).await
    }

    async fn unplaced(
        &self,
        space: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.inner.unplaced(space, after, limit).await
    }

    async fn identity(&self) -> Result<String, StoreError> {
        self.inner.identity().await
    }

    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        self.inner.create(new, floor).await
    }

    async fn tune(&self, s: &str, t: &Tuning, f: &Floor) -> Result<SpaceRecord, StoreError> {
        self.inner.tune(s, t, f).await
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.inner.grow(space, definition, capacity, floor).await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        self.inner.space(space).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        self.inner.spaces().await
    }

    async fn give_back(&self, back: &GiveBack) -> Result<Mark, StoreError> {
        self.inner.give_back(back).await
    }

    async fn advance(&self, s: &str, to: Mark, by: &Instance) -> Result<SpaceRecord, StoreError> {
        self.inner.advance(s, to, by).await
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        self.inner.seal(space, floor).await
    }

    async fn lease_of(&self, s: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        self.inner.lease_of(s, ordinal).await
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        self.inner.leases(page).await
    }

    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        self.inner.heartbeat(pulse).await
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        self.inner.instances(page).await
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        self.inner.secret(candidate).await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        self.inner.forget_secret().await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.inner.check().await
    }

    fn place(&self) -> Place {
        self.inner.place()
    }
}

async fn start(store: Arc<dyn Store>, folder: &std::path::Path) -> Service {
    let setup = Setup {
        store,
        data_dir: folder.to_owned(),
        secret: None,
        blocklist: Blocklist::none(),
        alias_rules: Default::default(),
        limits: Limits { wait_max: Duration::from_secs(10), ..Limits::default() },
        require_existing: false,
        worker: None,
        clock: Default::default(),
        unsafe_store: None,
    };
    let service = Service::start(setup).await.unwrap();
    service.ensure_space("links", &SpaceSpec::default()).await.unwrap();
    service
}

#[tokio::test]
async fn a_lease_in_doubt_is_burned_and_the_next_ones_ask_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = Forgetful::open(folder.path(), 4).await;
    let service = start(store.clone(), folder.path()).await;
    let space = service.space("links").await.unwrap();
    let mut first = None;
    service.take(&space, 1, "", |key| first = Some(key.to_vec())).await.unwrap();
    let located = space.codec().ordinal(&first.unwrap()).unwrap();
    // 1000 and three single ones were burned; the fifth, still a single one, was handed out.
    assert_eq!(located, keymill_core::Located::Ordinal(1_003));
    let asked = store.asked.lock().unwrap().clone();
    assert_eq!(asked[..5], [(1_000, 1_000), (1, 1), (1, 1), (1, 1), (1, 1)]);
    assert_eq!(space.progress().burned, 4);
    // Once one has succeeded, sizes are as before.
    let mut more = 0;
    service.take(&space, 500, "", |_| more += 1).await.unwrap();
    assert_eq!(more, 500);
    let asked = store.asked.lock().unwrap().clone();
    assert!(asked[5..].iter().all(|(size, _)| *size >= 1_000), "{asked:?}");
    // What was burned is never given back: nobody knows who has it.
    service.stop(Duration::from_secs(5)).await;
    let open: Vec<LeaseId> = store
        .leases(&LeasePage { limit: 100, ..LeasePage::default() })
        .await
        .unwrap()
        .iter()
        .filter(|lease| lease.closed_at.is_none())
        .map(|lease| lease.ordinals.end - lease.ordinals.start)
        .collect();
    assert_eq!(open, [1_000, 1, 1, 1]);
}

#[tokio::test]
async fn a_link_that_loses_every_answer_cannot_burn_a_space_empty() {
    let folder = tempfile::tempdir().unwrap();
    let store = Forgetful::open(folder.path(), u32::MAX).await;
    let service = start(store.clone(), folder.path()).await;
    let space = service.space("links").await.unwrap();
    let taken = tokio::time::timeout(
        Duration::from_secs(3),
        service.take(&space, 1, "", |_| panic!("a key of a lease in doubt")),
    );
    assert!(taken.await.is_err(), "still waiting for an answer");
    let asked = store.asked.lock().unwrap().clone();
    let burned: u64 = asked.iter().map(|(_, granted)| granted).sum();
    assert!(asked.len() > 1 && burned < 1_000 + 100, "{burned} in {} leases", asked.len());
}

#[tokio::test]
async fn a_window_in_doubt_is_not_used_and_the_next_ones_are_short() {
    let folder = tempfile::tempdir().unwrap();
    let store = Forgetful::open(folder.path(), 2).await;
    let service = start(store.clone(), folder.path()).await;
    let ids = SpaceSpec { kind: Some(Kind::Snowflake), ..SpaceSpec::default() };
    service.ensure_space("ids", &ids).await.unwrap();
    let space = service.space("ids").await.unwrap();
    let worker = space.mill.worker().unwrap();
    service.take(&space, 1, "", |_| {}).await.unwrap();
    // Workers 0 and 1 rest until windows are over that nobody uses.
    assert_eq!(worker.number(), Some(2));
    let asked = store.asked.lock().unwrap().clone();
    assert_eq!(asked, [(60_000, 60_000), (1_000, 1_000), (1_000, 1_000)]);
    assert_eq!(space.progress().burned, 2);
    service.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_window_whose_extension_is_in_doubt_is_used_to_its_end_and_no_further() {
    let folder = tempfile::tempdir().unwrap();
    let store = Forgetful::open(folder.path(), 0).await;
    let service = start(store.clone(), folder.path()).await;
    let ids =
        SpaceSpec { kind: Some(Kind::Snowflake), window_seconds: Some(2), ..SpaceSpec::default() };
    service.ensure_space("ids", &ids).await.unwrap();
    let space = service.space("ids").await.unwrap();
    let worker = space.mill.worker().unwrap();
    service.take(&space, 1, "", |_| {}).await.unwrap();
    assert_eq!(worker.number(), Some(0));
    store.to_lose.store(1, Ordering::SeqCst);
    // It was made after all, so the next request finds another end on record than it knows.
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while worker.number() == Some(0) {
        assert!(std::time::Instant::now() < until, "it never goes on with another worker");
        service.take(&space, 1, "", |_| {}).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((worker.number(), space.progress().burned), (Some(1), 1));
    service.stop(Duration::from_secs(5)).await;
}
