//! When keys expire: answers to takes say so where a keyspace has `ttl_seconds`, and only there.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use keymill::server::ServerLimits;
use keymill_engine::clock::{Clock, ClockHand};
use keymill_engine::operations::Filling;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Instance, settled};

#[tokio::test]
async fn a_take_says_when_its_first_key_expires_where_keys_do() {
    let instance = Instance::start().await;
    for (space, spec, expires) in [
        ("coupons", json!({"kind": "pooled", "ttl_seconds": 600}), true),
        ("noted-coupons", json!({"kind": "pooled", "ttl_seconds": 600, "audit": "key"}), true),
        ("noted", json!({"ttl_seconds": 600, "audit": "key"}), true),
        ("endless", json!({"kind": "pooled"}), false),
        ("plain", json!({"ttl_seconds": 600}), false),
        ("ids", json!({"kind": "uuid"}), false),
    ] {
        assert_eq!(instance.put(space, &spec).await.status, 201, "{space}");
        if spec["kind"] == "pooled" {
            instance.service.fill_pool(space, Filling::Add(40_000), |_, _| {}).await.unwrap();
        }
        let began = Timestamp::now();
        // One key, several at once, and so many that they are written in pieces.
        for count in [1, 3, 2_000] {
            let path = format!("/v1/spaces/{space}/keys?count={count}");
            let taken = settled(async || instance.call("POST", &path).await).await.json();
            assert_eq!(taken["keys"].as_array().unwrap().len(), count, "{space}");
            match (&taken["expires_at"], expires) {
                (Value::Null, false) => {}
                (Value::String(at), true) => {
                    let at: Timestamp = at.parse().unwrap();
                    let lasts = at.duration_since(began);
                    let ttl = SignedDuration::from_secs(600);
                    let slack = SignedDuration::from_secs(60);
                    assert!(lasts > ttl - slack && lasts < ttl + slack, "{space}: {lasts}");
                    // No key is on record for a shorter time than its taker was told.
                    let key = taken["keys"][0].as_str().unwrap();
                    let path = format!("/v1/spaces/{space}/keys/{key}");
                    let known = instance.call("GET", &path).await.json();
                    let on_record = known["used"]["expires_at"].as_str().unwrap();
                    assert!(at <= on_record.parse().unwrap(), "{at} {known}");
                }
                (found, _) => panic!("{space} {count}: {found}"),
            }
        }
        let path = format!("/v1/spaces/{space}/keys?count=2");
        let lines = instance.send("POST", &path, "accept: text/plain\r\n", "").await;
        assert_eq!((lines.status, lines.body.lines().count()), (200, 2), "{}", lines.body);
        assert!(!lines.body.contains("expires"), "{}", lines.body);
    }
}

/// Near the end of a pool a claim is one key, and the last claim has to stay on record: it may not be lost with each.
#[tokio::test]
async fn a_small_pool_is_handed_out_to_its_end_although_claims_become_too_old() {
    let hand = Arc::<ClockHand>::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let limits = ServerLimits::default();
    let clock = Clock::moved_by(&hand);
    let instance = Instance::start_by(listener.into(), None, limits, clock).await;
    let spec = json!({"kind": "pooled", "ttl_seconds": 60});
    assert_eq!(instance.put("coupons", &spec).await.status, 201);
    instance.service.fill_pool("coupons", Filling::Add(12), |_, _| {}).await.unwrap();
    let mut taken = 0;
    loop {
        let answer = instance.call("POST", "/v1/spaces/coupons/keys").await;
        match answer.status {
            200 => taken += 1,
            503 => continue,
            _ => break answer.is_problem(409, "exhausted", ""),
        }
        // The next claim may come before it is asked for; it is what becomes too old.
        tokio::time::sleep(Duration::from_millis(50)).await;
        hand.advance(Duration::from_secs(31));
    }
    assert!(taken >= 10, "only {taken} of 12");
}

#[tokio::test]
async fn keys_that_became_too_old_in_memory_are_given_back_and_not_handed_out() {
    let hand = Arc::<ClockHand>::default();
    let clock = Clock::moved_by(&hand);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let limits = ServerLimits::default();
    let instance = Instance::start_by(listener.into(), None, limits, clock.clone()).await;
    let spec = json!({"kind": "pooled", "ttl_seconds": 60});
    assert_eq!(instance.put("coupons", &spec).await.status, 201);
    instance.service.fill_pool("coupons", Filling::Add(1_000), |_, _| {}).await.unwrap();
    let take = async || {
        let take = async || instance.call("POST", "/v1/spaces/coupons/keys").await;
        let taken = settled(take).await.json();
        taken["expires_at"].as_str().unwrap().parse::<Timestamp>().unwrap()
    };
    let first = take().await;
    assert_eq!(take().await, first, "it is of the same claim");
    // Each has at least half of its time left.
    hand.advance(Duration::from_secs(31));
    let later = take().await;
    assert!(later >= first + SignedDuration::from_secs(31), "{first} {later}");
    assert!(later.as_millisecond() > clock.now_ms() + 30_000, "{later}");
    // None is lost but those that were handed out, and one that shows that the store was not rolled back.
    instance.service.stop(Duration::from_secs(20)).await;
    let left = instance.call("GET", "/v1/spaces/coupons").await.json()["available"].clone();
    assert!((995..=997).contains(&left.as_u64().unwrap()), "{left}");
}
