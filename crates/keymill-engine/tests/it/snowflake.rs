//! Snowflake spaces and UUIDs, through the service: clocks that are set, numbers that are chosen,
//! and what an ID tells.
//!
//! SQLite has no clock but that of its process, so the one that a test moves is the store's too.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keymill_core::{Blocklist, Layout};
use keymill_engine::clock::{Clock, ClockHand};
use keymill_engine::internals::store::SpaceRecord;
use keymill_engine::operations::{
    AdvanceAsk, Limits, OpenedStore, Opening, Service, ServiceError, Setup, Space, State,
};
use keymill_engine::space::{Audit, Kind, SpaceSpec};

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;
const YEAR: i64 = 365 * 24 * HOUR;
/// By how much the clock is moved after each take: a small part of a window.
const STEP: Duration = Duration::from_millis(20);
/// How long anything may take that has to come.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_repeats_no_id_and_breaks_no_order() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::start(folder.path()).await;
    let space = ids(&host.service, "41/10/12").await;
    let mut seen = Seen::default();
    seen.take_for(&host, &space, Duration::from_millis(300)).await;
    let sets = [-1_000, -SECOND, -HOUR, HOUR, HOUR, -HOUR, YEAR, -YEAR];
    for (number, by) in (1..).zip(sets) {
        host.hand.set_by(by);
        // It is noticed within a second; the window, of a second, is over by then.
        let until = Instant::now() + SOON;
        while space.progress().clock_jumps < number && Instant::now() < until {
            seen.take_for(&host, &space, STEP).await;
        }
        assert_eq!(space.progress().clock_jumps, number, "after {by} µs");
        seen.take_for(&host, &space, Duration::from_millis(1_500)).await;
    }
    assert!(seen.ids.len() > 10_000, "{}", seen.ids.len());
    assert!(seen.refused < 10, "{} takes were refused", seen.refused);
    // Each jump back beyond a window costs a worker number until its time comes, and no more.
    assert!(seen.last.len() <= 5, "{:?}", seen.last.keys());
    host.service.stop(Duration::from_secs(5)).await;
}

/// There is no other number to go on with, so it waits for the clock, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn the_only_worker_goes_on_once_the_clock_has_caught_up() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::impatient(folder.path(), None).await;
    let space = ids(&host.service, "41/0/12").await;
    let mut seen = Seen::default();
    seen.take_for(&host, &space, Duration::from_millis(100)).await;
    host.hand.set_by(4 * SECOND);
    seen.take_for(&host, &space, Duration::from_millis(2_000)).await;
    host.hand.set_by(-4 * SECOND);
    let (refused, set_back) = (seen.refused, host.clock().monotonic());
    // What is left of the window is served; then its end is waited for.
    seen.take_for(&host, &space, Duration::from_millis(1_500)).await;
    assert!(seen.refused > refused, "IDs were made beyond the window");
    seen.take_until(&host, &space).await;
    let waited = host.clock().monotonic() - set_back;
    assert!(waited > Duration::from_secs(3), "the clock had not caught up after {waited:?}");
    host.service.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_advance_fences_windows_that_nobody_has_seen() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::impatient(folder.path(), None).await;
    let (service, clock) = (&host.service, host.clock());
    let space = ids(service, "41/10/12").await;
    let timeline = space.record().definition.timeline().unwrap().unwrap();
    let now = || timeline.tick_at(clock.now_ms());
    // Windows are a second long, and may have been an hour before a backup was restored that this
    // data directory was rolled back with.
    let (before, hour) = (now(), 3_600_000);
    let record = advance(service, None).await.unwrap();
    assert!(record.base > before + hour && record.base <= now() + hour + 1, "{}", record.base);
    let refusal = no_worker(service, &space).await;
    assert!(refusal.to_string().contains("was advanced"), "{refusal}");
    host.hand.set_by(HOUR);
    let mut seen = Seen::default();
    seen.take_until(&host, &space).await;
    let first = seen.ids.iter().min().unwrap();
    assert!(timeline.layout.fields(*first).unwrap().tick >= record.base);

    let far = now() + 3 * hour;
    let refusal = advance(service, Some(far)).await.unwrap_err().to_string();
    assert!(refusal.contains("no IDs until then"), "{refusal}");
    // Whoever says how far it had come knows what was in use: then windows are as long as on record.
    let to = now() + 3_000;
    let record = advance(service, Some(to)).await.unwrap();
    assert!(record.base >= to && record.base < to + hour, "{} for {to}", record.base);
    service.stop(Duration::from_secs(5)).await;
}

/// A clock that was far ahead once has left its mark: only whoever says so goes beyond it.
#[tokio::test(flavor = "multi_thread")]
async fn an_advance_into_the_far_future_has_to_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let ahead = Host::start(folder.path()).await;
    ahead.hand.set_by(YEAR);
    let space = ids(&ahead.service, "41/10/12").await;
    Seen::default().take_for(&ahead, &space, STEP).await;
    ahead.service.stop(Duration::from_secs(5)).await;
    let Host { service, .. } = Host::start(folder.path()).await;
    let refusal = advance(&service, None).await.unwrap_err().to_string();
    let (_, hint) = refusal.split_once("pass `--to ").expect("a hint");
    let to: u64 = hint.split('`').next().unwrap().parse().unwrap();
    assert!(advance(&service, Some(to)).await.unwrap().base >= to);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_a_year_ahead_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let (ahead, right) = (Host::start(folder.path()).await, Host::start(folder.path()).await);
    ahead.hand.set_by(YEAR);
    let mut seen = Seen::default();
    for host in [&ahead, &right] {
        let space = ids(&host.service, "41/10/12").await;
        seen.take_for(host, &space, Duration::from_millis(200)).await;
    }
    assert_eq!(seen.last.len(), 2, "each has a number of its own");
    for host in [&ahead, &right] {
        host.service.stop(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_was_chosen_is_leased_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let first = Host::impatient(folder.path(), Some(5)).await;
    let second = Host::impatient(folder.path(), Some(5)).await;
    let beyond = Host::impatient(folder.path(), Some(8)).await;
    let mut seen = Seen::default();
    let space = ids(&first.service, "41/3/12").await;
    seen.take_until(&first, &space).await;
    assert_eq!(seen.last.keys().copied().collect::<Vec<_>>(), [5]);
    for (Host { service, .. }, says) in
        [(&second, "worker 5 of `ids` is held until"), (&beyond, "no worker 8")]
    {
        let space = ids(service, "41/3/12").await;
        let refusal = no_worker(service, &space).await;
        assert!(refusal.to_string().contains(says), "{refusal}");
        let health = service.health();
        assert!(!health.ready && health.problems[0].code == "no_worker", "{health:?}");
    }
    first.service.stop(Duration::from_secs(5)).await;
    let space = ids(&second.service, "41/3/12").await;
    seen.take_until(&second, &space).await;
    assert_eq!(space.figures().worker, Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_tells_its_time_its_worker_and_who_held_it() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(folder.path(), Clock::default()).await;
    let wanted = SpaceSpec {
        kind: Some(Kind::Snowflake),
        alphabet: Some("base62".to_owned()),
        prefix: Some("ev_".to_owned()),
        layout: Some("sonyflake".to_owned()),
        audit: Some(Audit::Key),
        ..SpaceSpec::default()
    };
    service.ensure_space("events", &wanted).await.unwrap();
    let space = service.space("events").await.unwrap();
    let from = jiff::Timestamp::now();
    let mut keys = Vec::new();
    service.take(&space, 3, "shop", |key| keys.push(text(key))).await.unwrap();
    let to = jiff::Timestamp::now();
    assert!(keys.iter().all(|key| key.len() == "ev_".len() + 11), "{keys:?}");
    let known = service.explain("events", &keys[1]).await.unwrap();
    assert_eq!(known.state, State::Issued);
    assert_eq!(known.used.as_ref().map(|used| used.caller.as_str()), Some("shop"));
    assert_eq!(known.id.map(|id| id.worker), Some(0));
    assert_eq!(known.lease.map(|lease| lease.holder.id), Some(service.instance().id.clone()));
    let time = known.time.unwrap().as_millisecond();
    assert!((from.as_millisecond() - 10..=to.as_millisecond() + 20).contains(&time), "{time}");
    let bounds = service.bounds("events", from, to).await.unwrap().unwrap();
    assert!(keys.iter().all(|key| *key <= bounds.last && *key >= bounds.first), "{bounds:?}");

    // One that lies ahead, one of a worker that nobody held, one that is none.
    let later = jiff::Timestamp::from_second(to.as_second() + 86_400).unwrap();
    let ahead = service.bounds("events", later, later + Duration::from_secs(1)).await.unwrap();
    let ahead = service.explain("events", &ahead.unwrap().first).await.unwrap();
    assert_eq!((ahead.state, ahead.lease), (State::Unissued, None));
    let nobody = service.explain("events", &bounds.last).await.unwrap();
    assert_eq!(nobody.state, State::Unissued);
    let none = service.explain("events", "ev_0000000000!").await.unwrap();
    assert_eq!(none.state, State::Invalid);
    service.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_take_for_a_command_frees_its_worker() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let service = start(folder.path(), Clock::default()).await;
        let space = ids(&service, "41/1/12").await;
        let mut count = 0;
        let taken = service
            .take_exactly(&space, 150_000, "", |_| {
                count += 1;
                true
            })
            .await;
        assert_eq!((taken.unwrap(), count), (150_000, 150_000));
        assert_eq!(space.figures().worker, Some(0), "the one before is free");
        service.leave().await;
        // So many at once have run ahead of the clock a little.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An instance, and the clocks of the host that it runs on.
struct Host {
    service: Service,
    hand: Arc<ClockHand>,
}

impl Host {
    async fn start(folder: &Path) -> Host {
        let hand = Arc::<ClockHand>::default();
        Host { service: start(folder, Clock::moved_by(&hand)).await, hand }
    }

    /// One whose callers wait for a short time only, as a test would with them.
    async fn impatient(folder: &Path, worker: Option<u32>) -> Host {
        let hand = Arc::<ClockHand>::default();
        let mut setup = setup(folder, Clock::moved_by(&hand)).await;
        setup.worker = worker;
        setup.limits.wait_max = Duration::from_millis(50);
        Host { service: Service::start(setup).await.unwrap(), hand }
    }

    fn clock(&self) -> Clock {
        Clock::moved_by(&self.hand)
    }
}

/// What was taken.
#[derive(Default)]
struct Seen {
    ids: HashSet<u64>,
    /// The last ID of each worker.
    last: HashMap<u32, u64>,
    refused: usize,
}

impl Seen {
    /// Takes until there are IDs again, as there have to be soon.
    async fn take_until(&mut self, host: &Host, space: &Arc<Space>) {
        let (before, until) = (self.ids.len(), Instant::now() + SOON);
        while self.ids.len() == before {
            assert!(Instant::now() < until, "no IDs come");
            self.take_for(host, space, STEP).await;
        }
    }

    /// Takes for a while of the host's clock; none may have been there before, nor be below another
    /// of its worker.
    async fn take_for(&mut self, host: &Host, space: &Arc<Space>, time: Duration) {
        let layout = Layout::parse(space.record().definition.layout.as_ref().unwrap()).unwrap();
        let (clock, began) = (host.clock(), host.clock().monotonic());
        while clock.monotonic() - began < time {
            let mut ids = Vec::new();
            let taken = host.service.take(space, 50, "", |key| ids.push(text(key))).await;
            match taken {
                Ok(_) => {}
                Err(ServiceError::NoKeysReady { .. } | ServiceError::NoWorker(_)) => {
                    self.refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
            for id in ids {
                let id: u64 = id.parse().unwrap();
                assert!(self.ids.insert(id), "{id} came twice");
                let worker = layout.fields(id).unwrap().worker;
                let before = self.last.insert(worker, id);
                assert!(before.is_none_or(|before| before < id), "{id} after {before:?}");
            }
            host.hand.advance(STEP);
            // For whoever was woken by that.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Takes until the refusal is that there is no worker: whoever asks first may not hear of it in time.
async fn no_worker(service: &Service, space: &Arc<Space>) -> ServiceError {
    let until = Instant::now() + SOON;
    loop {
        match service.take(space, 1, "", |_| {}).await.unwrap_err() {
            refusal @ ServiceError::NoWorker(_) => return refusal,
            other => assert!(Instant::now() < until, "{other}"),
        }
    }
}

async fn ids(service: &Service, layout: &str) -> Arc<Space> {
    let wanted = SpaceSpec {
        kind: Some(Kind::Snowflake),
        layout: Some(layout.to_owned()),
        window_seconds: Some(1),
        ..SpaceSpec::default()
    };
    service.ensure_space("ids", &wanted).await.unwrap();
    service.space("ids").await.unwrap()
}

async fn advance(service: &Service, to: Option<u64>) -> Result<SpaceRecord, ServiceError> {
    let plan = service.plan_advance("ids", AdvanceAsk { to, ..AdvanceAsk::default() }).await?;
    service.advance(&plan).await
}

async fn start(folder: &Path, clock: Clock) -> Service {
    Service::start(setup(folder, clock).await).await.unwrap()
}

async fn setup(folder: &Path, clock: Clock) -> Setup {
    let url = format!("sqlite:{}", folder.join("keymill.db").display());
    Setup {
        store: OpenedStore::open(&url, Opening::default()).await.unwrap(),
        data_dir: folder.to_owned(),
        secret: None,
        blocklist: Blocklist::none(),
        alias_rules: Default::default(),
        limits: Limits { wait_max: Duration::from_secs(1), ..Limits::default() },
        worker: None,
        clock,
        require_existing: false,
        unsafe_store: None,
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8(key.to_vec()).unwrap()
}
