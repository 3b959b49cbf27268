//! The cache: through an outage, where it is off, what ends it, and what dropping it costs.

use std::time::{Duration, Instant, SystemTime};

use keymill_client::{Audit, CacheStatus, Definition, ErrorKind, Kind};
use keymill_proof::{Deployment, Fleet, Received};

use super::super::watchful;
use super::{builder, client, client_of};

#[tokio::test(flavor = "multi_thread")]
async fn takes_go_on_while_no_server_runs_and_then_wait_for_one() {
    let deployment = Deployment::sqlite();
    let fleet = Fleet::start([deployment.server("d0")]).keeps_addresses();
    let cache = client_of(&fleet).keyspace("default").cache().keys_min(1_000).build();
    let mut received = Received::default();
    received.add_key(&cache.take().await.unwrap());
    fleet.hold(0).kill();
    let started = Instant::now();
    while !cache.is_empty() {
        received.add_key(&cache.take().await.unwrap());
    }
    assert_eq!(received.len(), 1_000);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let (waiting, ()) = tokio::join!(cache.take(), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        tokio::task::block_in_place(|| fleet.hold(0).start());
    });
    received.add_key(&waiting.unwrap());
    for _ in 0..2_000 {
        received.add_key(&cache.take().await.unwrap());
    }
    assert!(matches!(cache.status(), CacheStatus::On), "{:?}", cache.status());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_runs_out_for_good_says_why_by_its_deadline() {
    let deployment = Deployment::sqlite();
    let fleet = Fleet::start([deployment.server("d0")]);
    let client = builder(&fleet.hold(0)).deadline(Duration::from_millis(700)).build().unwrap();
    let cache = client.keyspace("default").cached();
    cache.take().await.unwrap();
    fleet.hold(0).kill();
    while !cache.is_empty() {
        cache.take().await.unwrap();
    }
    let started = Instant::now();
    assert_eq!(cache.take().await.unwrap_err().kind(), ErrorKind::Unreachable);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn keyspaces_that_record_keys_or_order_them_are_asked_for_each_key() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    let client = client(&server);
    for (name, kind, audit) in [
        ("recorded", Kind::Shuffled, Audit::Key),
        ("pool", Kind::Pooled, Audit::Batch),
        ("ids", Kind::Snowflake, Audit::Batch),
    ] {
        let keyspace = client.keyspace(name);
        let (kind, audit, low_water) = (Some(kind), Some(audit), Some(100));
        let low_water = low_water.filter(|_| kind == Some(Kind::Pooled));
        keyspace
            .ensure(&Definition { kind, audit, low_water, ..Definition::default() })
            .await
            .unwrap();
        let cache = keyspace.cached();
        cache.take().await.unwrap();
        assert!(matches!(cache.status(), CacheStatus::Off(_)), "{name}: {:?}", cache.status());
        assert!(cache.try_take().is_none() && cache.is_empty());
        let cache = keyspace.cache().any_keyspace().keys_min(10).build();
        cache.take().await.unwrap();
        assert!(matches!(cache.status(), CacheStatus::On), "{name}");
        assert!(!cache.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_handed_out_after_it_has_expired() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    let pool = client(&server).keyspace("pool");
    let (kind, low_water, ttl_seconds) = (Some(Kind::Pooled), Some(1_000), Some(2));
    let definition = Definition { kind, low_water, ttl_seconds, ..Definition::default() };
    pool.ensure(&definition).await.unwrap();
    let cache = pool.cache().any_keyspace().keys_min(50).build();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(5) {
        let key = cache.take().await.unwrap();
        let taken_at = SystemTime::now();
        let used = pool.explain(&key).await.unwrap().used.expect("it is on record");
        let expires_at = used.expires_at.expect("it expires");
        let lasts = SystemTime::from(expires_at).duration_since(taken_at);
        assert!(lasts.is_ok(), "{key} expired at {expires_at}, before it was taken");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seal_and_a_revocation_drop_the_keys_within_their_maximum_age() {
    let deployment = Deployment::sqlite();
    let server = watchful(&deployment, "d0").start();
    client(&server).keyspace("short").ensure(&Definition::default()).await.unwrap();
    let age = Duration::from_millis(500);
    let sealed = client(&server).keyspace("short").cache().max_age(age).build();
    sealed.take().await.unwrap();
    deployment.run("cli", &["space", "seal", "short", "--yes"]);
    is_ended(&sealed, ErrorKind::Sealed).await;

    let token = deployment.run("cli", &["token", "create", "shop", "--allow", "take:default"]);
    let shop = builder(&server).token(token.trim()).build().unwrap().keyspace("default");
    // The server learns of the token at its next heartbeat.
    while shop.take().await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let cache = shop.cache().max_age(age).any_keyspace().build();
    cache.take().await.unwrap();
    deployment.run("cli", &["token", "revoke", "shop"]);
    is_ended(&cache, ErrorKind::Unauthorized).await;
}

/// Takes until it fails as it should: the server notices within a heartbeat, the cache within the age of its keys.
async fn is_ended(cache: &keymill_client::CachedKeyspace, kind: ErrorKind) {
    for _ in 0..1_000 {
        match cache.take().await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => {
                assert_eq!(error.kind(), kind, "{error}");
                assert!(cache.is_empty());
                return;
            }
        }
    }
    panic!("keys are still handed out");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_cache_costs_a_gap_and_nothing_else() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    let numbers = client(&server).keyspace("numbers");
    let counted =
        Definition { kind: Some(Kind::Sequential), length: Some(0), ..Definition::default() };
    numbers.ensure(&counted).await.unwrap();
    let cache = numbers.cached();
    assert_eq!(cache.take().await.unwrap(), "0");
    assert_eq!(cache.len(), 31);
    drop(cache);
    assert_eq!(numbers.take().await.unwrap(), "32");
}
