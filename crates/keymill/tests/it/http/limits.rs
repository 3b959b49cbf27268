//! How much a token may take, and how often callers without one may ask.

use std::num::NonZeroU32;
use std::sync::Arc;

use keymill::access::AccessSettings;
use keymill::access::limits::AddressLimits;
use serde_json::json;

use super::{Answer, Instance, settled};

/// More than anything here takes, unless nothing is ever refused.
const TRIES: usize = 10_000;

#[tokio::test]
async fn a_token_that_takes_too_fast_is_told_when_to_come_again() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let ask = json!({"name": "slow", "allow": ["take:*", "name:*"], "rate": 2});
    let slow = instance.token_by(&admin, &ask).await;
    let others = json!({"name": "other", "allow": ["take:*"], "rate": 100_000});
    let other = instance.token_by(&admin, &others).await;
    for (method, path) in [
        ("GET", "/get-key"),
        ("GET", "/get-key?space=default"),
        ("POST", "/v1/spaces/default/keys"),
        ("POST", "/v1/spaces/default/keys?count=2"),
    ] {
        let refusal = until_refused(async || instance.call_as(&slow, method, path).await).await;
        refusal.is_problem(429, "rate_limited", "more than 2 a second");
        assert_eq!(refusal.header("retry-after"), Some("1"), "{path}");
        assert_eq!(refusal.header("ratelimit-policy"), Some("\"default\";q=2;w=1"));
        assert_eq!(refusal.header("ratelimit"), Some("\"default\";r=0;t=1"));
        // Others are not held back by it.
        assert_eq!(instance.call_as(&other, method, path).await.status, 200, "{path}");
    }
    // And it is let in again by itself.
    for _ in 0..TRIES {
        if instance.call_as(&slow, "GET", "/get-key").await.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("it is never let in again");
}

#[tokio::test]
async fn a_take_above_the_burst_can_never_succeed_and_is_told_so() {
    let instance = Instance::start().await;
    instance.put("urls", &json!({"kind": "digest"})).await;
    let admin = instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:*", "name:*"], "rate": 5});
    let shop = instance.token_by(&admin, &ask).await;
    settled(async || instance.call_as(&admin, "GET", "/get-key").await).await;
    let post = async |path: &str, body: &str| {
        instance.send_as(&shop, "POST", path, "content-type: application/json\r\n", body).await
    };
    for (path, body) in [
        ("/v1/spaces/default/keys?count=6", ""),
        ("/v1/spaces/default/keys", r#"{"count":100000}"#),
        ("/v1/spaces/urls/digests", r#"{"inputs":["a","b","c","d","e","f"]}"#),
    ] {
        let refusal = post(path, body).await;
        refusal.is_problem(400, "above_burst", "at most 5 keys at once");
        assert_eq!(refusal.header("retry-after"), None, "{path}");
    }
    // What was refused was not counted.
    let taken = post("/v1/spaces/default/keys?count=5", "").await;
    assert_eq!(taken.json()["keys"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn a_quota_ends_with_the_day() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:*"], "quota": 3});
    let shop = instance.token_by(&admin, &ask).await;
    let take = async |count: u32| {
        let path = format!("/v1/spaces/default/keys?count={count}");
        instance.call_as(&shop, "POST", &path).await
    };
    let more = take(4).await;
    more.is_problem(429, "rate_limited", "of the 3 keys of this token");
    // Once, and once more where a day ends in between.
    let mut refusal = None;
    for _ in 0..3 {
        let answer = settled(async || take(3).await).await;
        if answer.status != 200 {
            refusal = Some(answer);
            break;
        }
    }
    let refusal = refusal.expect("three times the quota of a day");
    refusal.is_problem(429, "rate_limited", "of the 3 keys of this token");
    assert_eq!(refusal.header("ratelimit-policy"), Some("\"default\";q=3;w=86400"));
    let wait: u32 = refusal.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    assert_eq!(refusal.header("ratelimit"), Some(format!("\"default\";r=0;t={wait}").as_str()));
}

#[tokio::test]
async fn a_take_that_fails_costs_nothing_of_the_quota() {
    let instance = Instance::start().await;
    assert_eq!(instance.put("coupons", &json!({"kind": "pooled"})).await.status, 201);
    assert_eq!(instance.put("urls", &json!({"kind": "digest"})).await.status, 201);
    let admin = instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:*", "name:*"], "quota": 3});
    let shop = instance.token_by(&admin, &ask).await;
    let send = async |method: &str, path: &str, body: &str| {
        instance.send_as(&shop, method, path, "", body).await
    };
    for (method, path, body, status) in [
        ("POST", "/v1/spaces/nope/keys", "", 404),
        ("POST", "/v1/spaces/nope/keys?count=3", "", 404),
        ("GET", "/get-key?space=nope", "", 404),
        ("POST", "/v1/spaces/coupons/keys?count=2", "", 409),
        ("POST", "/v1/spaces/default/keys", r#"{"count":3,"numbers":true}"#, 400),
        ("POST", "/v1/spaces/urls/digests", r#"{"input":""}"#, 400),
        ("POST", "/v1/spaces/urls/digests", r#"{"inputs":["a",""]}"#, 400),
    ] {
        for _ in 0..3 {
            let refused = send(method, path, body).await;
            assert_eq!(refused.status, status, "{method} {path}: {}", refused.body);
        }
    }
    // Also one that waits for keys in vain.
    let all = settled(async || send("POST", "/v1/spaces/default/keys?count=3", "").await).await;
    assert_eq!(all.status, 200, "{}", all.body);
    // Unless a day has just ended, nothing is left.
    let one = async || send("POST", "/v1/spaces/default/keys", "").await;
    until_refused(one).await.is_problem(429, "rate_limited", "of the 3 keys of this token");
}

#[tokio::test]
async fn a_take_that_gets_fewer_keys_costs_no_more_of_the_quota() {
    let instance = Instance::start().await;
    let digits = json!({
        "kind": "sequential", "alphabet": "decimal", "length": 1, "blocklist": false,
    });
    let admin = instance.admin().await;
    // In one piece, as plain text, and in several pieces.
    for (number, (count, accept)) in
        [(15, ""), (15, "Accept: text/plain\r\n"), (5_000, "")].into_iter().enumerate()
    {
        let space = format!("digits-{number}");
        let (path, body) = (format!("/v1/spaces/{space}"), digits.to_string());
        assert_eq!(instance.send_as(&admin, "PUT", &path, "", &body).await.status, 201);
        let ask = json!({"name": space, "allow": ["take:*"], "quota": 10 + count});
        let shop = instance.token_by(&admin, &ask).await;
        let take = async |space: &str| {
            let path = format!("/v1/spaces/{space}/keys?count={count}");
            settled(async || instance.send_as(&shop, "POST", &path, accept, "").await).await
        };
        let ten = take(&space).await;
        assert_eq!(ten.status, 200, "{}", ten.body);
        assert!(ten.body.contains('9') && !ten.body.contains("10"), "ten keys: {}", ten.body);
        let rest = take("default").await;
        assert_eq!(rest.status, 200, "{count} of {} are left: {}", 10 + count, rest.body);
    }
}

#[tokio::test]
async fn limits_go_on_counting_when_other_tokens_change() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:*"], "quota": 1});
    let shop = instance.token_by(&admin, &ask).await;
    let take = async || instance.call_as(&shop, "GET", "/get-key").await;
    until_refused(&take).await.is_problem(429, "rate_limited", "of the 1 keys of this token");
    instance.token_by(&admin, &json!({"name": "other", "allow": ["take:*"]})).await;
    // Unless a day has just ended.
    until_refused(&take).await.is_problem(429, "rate_limited", "of the 1 keys of this token");
}

#[tokio::test]
async fn callers_without_a_token_are_counted_by_address_and_probes_are_not() {
    let instance = Instance::start().await;
    limit_addresses(&instance, Some(3));
    let get_key = async || instance.call("GET", "/get-key").await;
    let refusal = until_refused(&get_key).await;
    refusal.is_problem(429, "rate_limited", "more than 3 a second");
    assert_eq!(refusal.header("retry-after"), Some("1"));
    assert_eq!(refusal.header("ratelimit-policy"), Some("\"default\";q=3;w=1"));
    for path in ["/healthz", "/readyz", "/docs"] {
        for _ in 0..20 {
            assert_eq!(instance.call("GET", path).await.status, 200, "{path}");
        }
    }
    limit_addresses(&instance, None);
    for _ in 0..20 {
        assert_ne!(instance.call("GET", "/v1/spaces").await.status, 429);
    }
}

/// A take that has to wait for keys goes two ways through the server, and is one request.
#[tokio::test]
async fn a_take_that_waits_for_keys_is_counted_once() {
    let instance = Instance::start().await;
    limit_addresses(&instance, Some(1));
    let first = instance.call("GET", "/get-key").await;
    assert!([200, 503].contains(&first.status), "{}", first.body);
}

#[tokio::test]
async fn wrong_tokens_do_not_slow_right_ones_from_the_same_address() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    limit_addresses(&instance, Some(1));
    let unknown = keymill::access::secret_text::make().unwrap();
    for _ in 0..50 {
        instance.call_as(&unknown, "GET", "/v1/spaces").await.is_problem(401, "unauthorized", "");
        assert_eq!(instance.call("GET", "/v1/spaces").await.status, 401, "it is not counted");
        assert_eq!(instance.call_as(&admin, "GET", "/v1/spaces").await.status, 200);
    }
}

fn limit_addresses(instance: &Instance, rate: Option<u32>) {
    let limits = rate.and_then(NonZeroU32::new).map(|rate| Arc::new(AddressLimits::new(rate)));
    instance.http.set_access(AccessSettings { address_limits: limits, ..Default::default() });
}

/// Repeats a request that succeeds until it does not.
async fn until_refused(ask: impl AsyncFn() -> Answer) -> Answer {
    for _ in 0..TRIES {
        let answer = ask().await;
        // A first take may take longer than it waits.
        if ![200, 503].contains(&answer.status) {
            return answer;
        }
    }
    panic!("it is never refused");
}
