//! The refill on a source that does what it is told, with a clock that waits for nobody.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::*;

/// A source that counts, and fails when it was told to.
#[derive(Debug, Default)]
struct Fake {
    /// What the next takes come to, instead of keys.
    failures: Mutex<VecDeque<Error>>,
    /// How many keys each take asked for.
    asked: Mutex<Vec<u32>>,
    definition: Mutex<Definition>,
    /// Whether the settings cannot be read, because the store is unreachable.
    has_no_store: Mutex<bool>,
    given: Mutex<u64>,
    expires_in: Mutex<Option<Duration>>,
    takes: Duration,
}

impl Source for Arc<Fake> {
    async fn take(&self, count: u32) -> Result<Taken<Packed>, Error> {
        self.asked.lock().unwrap().push(count);
        sleep(self.takes).await;
        if let Some(error) = self.failures.lock().unwrap().pop_front() {
            return Err(error);
        }
        let mut keys = Packed::default();
        let mut given = self.given.lock().unwrap();
        for _ in 0..count {
            keys.push(&given.to_string());
            *given += 1;
        }
        let expires_in = *self.expires_in.lock().unwrap();
        let expires_at = expires_in.map(|time| Timestamp::now() + time);
        Ok(Taken { keys, expires_at, answered_at: None })
    }

    async fn definition(&self) -> Result<Definition, Error> {
        if *self.has_no_store.lock().unwrap() {
            let body = br#"{"code":"store_unavailable","detail":"no"}"#;
            return Err(Error::from_answer(503, None, body));
        }
        Ok(self.definition.lock().unwrap().clone())
    }
}

impl Fake {
    fn asked(&self) -> Vec<u32> {
        self.asked.lock().unwrap().clone()
    }

    fn fail(&self, status: u16, code: &str) {
        let body = format!(r#"{{"code":"{code}","detail":"no"}}"#);
        self.failures.lock().unwrap().push_back(Error::from_answer(status, None, body.as_bytes()));
    }
}

/// A running refill, woken as the first take does it.
fn start(settings: Settings) -> (Arc<Live>, Arc<Fake>) {
    let fake = Fake { takes: Duration::from_millis(1), ..Fake::default() };
    let (live, fake) = (Arc::new(Live::new()), Arc::new(fake));
    live.low.notify_one();
    tokio::spawn(Refill::new(live.clone(), fake.clone(), settings).run());
    (live, fake)
}

/// Draws so many keys, waiting for each like a caller who finds none.
async fn draw(live: &Live, count: u64) -> Vec<u64> {
    let mut keys = Vec::new();
    for _ in 0..count {
        let key = loop {
            if let Some(key) = live.draw() {
                break key;
            }
            live.low.notify_one();
            sleep(Duration::from_micros(100)).await;
        };
        keys.push(key.parse().unwrap());
    }
    keys
}

async fn settle() {
    sleep(Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_at_the_first_demand_and_again_when_half_is_used() {
    let (live, fake) = start(Settings::default());
    settle().await;
    assert_eq!((fake.asked(), live.chain.left(Instant::now())), (vec![32], 32));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(draw(&live, 15).await, (0..15).collect::<Vec<_>>());
    settle().await;
    assert_eq!(fake.asked(), [32], "more than half is left");
    draw(&live, 1).await;
    settle().await;
    assert_eq!(fake.asked(), [32, 16], "half is used");
    assert_eq!(live.chain.left(Instant::now()), 32);
}

#[tokio::test(start_paused = true)]
async fn the_cache_follows_the_rate_and_no_key_comes_twice() {
    let (live, fake) = start(Settings::default());
    let mut keys = Vec::new();
    // 1,000 keys a second, for a minute.
    for _ in 0..6_000 {
        keys.extend(draw(&live, 10).await);
        sleep(Duration::from_millis(10)).await;
    }
    let left = live.chain.left(Instant::now());
    // A little less than 15 to 30 seconds of demand, because timers are late by up to a millisecond.
    assert!((12_000..=30_000).contains(&left), "{left}");
    assert!(fake.asked().len() < 60, "{:?}", fake.asked());
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_waiting_callers_is_fetched_for_at_once() {
    let (live, fake) = start(Settings::default());
    live.waiting.fetch_add(1_000, Ordering::Relaxed);
    settle().await;
    assert_eq!(fake.asked()[0], 1_000);
    live.waiting.fetch_sub(1_000, Ordering::Relaxed);
}

#[tokio::test(start_paused = true)]
async fn keys_are_dropped_when_they_are_too_old_and_replaced_before_that_if_some_were_used() {
    let settings = Settings { max_age: Duration::from_secs(100), ..Settings::default() };
    let (live, fake) = start(settings);
    settle().await;
    draw(&live, 1).await;
    sleep(Duration::from_secs(95)).await;
    assert_eq!(fake.asked(), [32, 32], "replaced ahead of time");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(live.chain.left(Instant::now()), 32, "the old ones are gone");
    assert_eq!(draw(&live, 1).await, [32]);
    sleep(Duration::from_secs(95)).await;
    assert_eq!(fake.asked().len(), 3);
    // From now on nobody takes any.
    sleep(Duration::from_secs(1_000)).await;
    assert_eq!((fake.asked().len(), live.chain.left(Instant::now())), (3, 0));
    assert_eq!(draw(&live, 1).await, [96], "until somebody does");
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_while_the_store_is_unreachable_and_settings_cannot_be_read_again() {
    let settings = Settings { max_age: Duration::from_secs(100), ..Settings::default() };
    let (live, fake) = start(settings);
    settle().await;
    *fake.has_no_store.lock().unwrap() = true;
    sleep(Duration::from_secs(101)).await;
    assert_eq!(draw(&live, 1).await, [32], "the first ones are too old");
    assert!(matches!(live.outlook.load().status, CacheStatus::On));
}

#[tokio::test(start_paused = true)]
async fn the_longest_age_is_an_age_that_keys_can_have() {
    let client = crate::Client::connect("http://127.0.0.1:1").unwrap();
    let cache = client.keyspace("links").cache().max_age(Duration::MAX).build();
    let (live, _fake) = start(cache.settings.clone());
    settle().await;
    assert_eq!(live.chain.left(Instant::now()), 32);
}

#[tokio::test(start_paused = true)]
async fn keys_that_expire_by_themselves_are_not_handed_out_after_that() {
    let (live, fake) = start(Settings::default());
    *fake.expires_in.lock().unwrap() = Some(Duration::from_secs(5));
    settle().await;
    assert_eq!(live.chain.left(Instant::now()), 32);
    sleep(Duration::from_secs(5)).await;
    assert!(live.draw().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_refill_goes_on_trying_and_what_is_left_is_handed_out_meanwhile() {
    let (live, fake) = start(Settings::default());
    settle().await;
    for _ in 0..20 {
        fake.fail(503, "no_keys_ready");
    }
    draw(&live, 20).await;
    settle().await;
    assert!(matches!(live.outlook.load().status, CacheStatus::Failing(_)));
    assert_eq!(draw(&live, 12).await.len(), 12);
    assert!(live.draw().is_none());
    sleep(Duration::from_secs(60)).await;
    assert!(matches!(live.outlook.load().status, CacheStatus::On));
    assert!(live.draw().is_some());
    assert!((21..40).contains(&fake.asked().len()), "{:?}", fake.asked());
}

#[tokio::test(start_paused = true)]
async fn a_seal_and_a_refused_token_drop_the_keys_and_an_exhausted_keyspace_keeps_them() {
    for (status, code, left) in [
        (409, "sealed", 0),
        (401, "unauthorized", 0),
        (403, "forbidden", 0),
        (409, "exhausted", 12),
        (404, "unknown_space", 12),
    ] {
        let (live, fake) = start(Settings::default());
        settle().await;
        fake.fail(status, code);
        draw(&live, 20).await;
        settle().await;
        assert_eq!(live.chain.left(Instant::now()), left, "{code}");
        assert!(
            matches!(&live.outlook.load().status, CacheStatus::Refused(error) if error.code() == code)
        );
        // Asked again only if keys are wanted, and not at once.
        sleep(Duration::from_secs(60)).await;
        assert_eq!(fake.asked().len(), 2, "{code}");
        draw(&live, left + 1).await;
        assert_eq!(fake.asked().len(), 3, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_is_too_large_is_made_smaller() {
    let settings = Settings { keys_min: 1_000, ..Settings::default() };
    let (live, fake) = start(settings);
    for code in ["bad_count", "above_burst"] {
        fake.fail(400, code);
    }
    settle().await;
    assert_eq!(fake.asked(), [1_000, 500, 250, 250, 250]);
    assert_eq!(live.chain.left(Instant::now()), 750, "more than half");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_was_lifted_is_noticed() {
    let settings = Settings { keys_min: 1_000, ..Settings::default() };
    let (live, fake) = start(settings);
    for _ in 0..3 {
        fake.fail(503, "too_many_large_answers");
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(fake.asked()[..4], [1_000, 500, 250, 125]);
    for _ in 0..20 {
        draw(&live, 500).await;
        sleep(Duration::from_secs(10)).await;
    }
    assert!(fake.asked().last() >= Some(&500), "{:?}", fake.asked());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_may_take_few_keys_at_once_does_not_make_endless_batches() {
    let settings = Settings { keys_min: 10_000, ..Settings::default() };
    let (live, fake) = start(settings);
    for _ in 0..10 {
        fake.fail(400, "above_burst");
    }
    sleep(Duration::from_secs(60)).await;
    // Nine at a time, after ten refusals.
    assert_eq!(live.chain.left(Instant::now()), 9 * 64);
    assert_eq!(draw(&live, 2_000).await.len(), 2_000);
}

#[tokio::test(start_paused = true)]
async fn keyspaces_that_are_not_to_be_cached_are_left_alone_unless_allowed() {
    for (kind, audit) in [
        (Kind::Shuffled, Audit::Key),
        (Kind::Pooled, Audit::Batch),
        (Kind::Snowflake, Audit::Batch),
    ] {
        let definition =
            Definition { kind: Some(kind), audit: Some(audit), ..Definition::default() };
        let (live, fake) = start(Settings::default());
        *fake.definition.lock().unwrap() = definition.clone();
        settle().await;
        assert!(matches!(live.outlook.load().status, CacheStatus::Off(_)), "{kind:?}");
        assert!(fake.asked().is_empty());
        // The settings have changed, and somebody takes.
        *fake.definition.lock().unwrap() = Definition::default();
        live.low.notify_one();
        sleep(Duration::from_secs(601)).await;
        assert!(live.draw().is_some());

        let settings = Settings { any_keyspace: true, ..Settings::default() };
        let (live, fake) = start(settings);
        *fake.definition.lock().unwrap() = definition;
        settle().await;
        assert!(live.draw().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_keyspace_that_is_not_to_be_cached_stays_so_while_its_settings_cannot_be_read() {
    let settings = Settings { max_age: Duration::from_secs(100), ..Settings::default() };
    let (live, fake) = start(settings);
    settle().await;
    let seen = fake.asked().len();
    *fake.definition.lock().unwrap() =
        Definition { audit: Some(Audit::Key), ..Definition::default() };
    sleep(Duration::from_secs(101)).await;
    live.low.notify_one();
    settle().await;
    assert!(matches!(live.outlook.load().status, CacheStatus::Off(_)));
    *fake.has_no_store.lock().unwrap() = true;
    sleep(Duration::from_secs(101)).await;
    live.low.notify_one();
    settle().await;
    assert!(matches!(live.outlook.load().status, CacheStatus::Off(_)), "takes ask a server");
    assert_eq!(fake.asked().len(), seen, "nothing was fetched");
    // The settings are the old ones again, and can be read.
    *fake.definition.lock().unwrap() = Definition::default();
    *fake.has_no_store.lock().unwrap() = false;
    sleep(Duration::from_secs(101)).await;
    live.low.notify_one();
    settle().await;
    assert!(matches!(live.outlook.load().status, CacheStatus::On));
}

#[tokio::test(start_paused = true)]
async fn a_keyspace_that_begins_to_record_keys_is_no_longer_cached() {
    let (live, fake) = start(Settings::default());
    settle().await;
    *fake.definition.lock().unwrap() =
        Definition { audit: Some(Audit::Key), ..Definition::default() };
    // Some are used, so that all are replaced: after 540 seconds, and after 1,080.
    for _ in 0..2 {
        sleep(Duration::from_secs(500)).await;
        assert_eq!(draw(&live, 1).await.len(), 1);
    }
    sleep(Duration::from_secs(100)).await;
    assert!(matches!(live.outlook.load().status, CacheStatus::Off(_)));
    assert_eq!(live.chain.left(Instant::now()), 0);
}
