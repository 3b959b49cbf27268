//! Snowflake IDs and UUIDs over HTTP.

use serde_json::{Value, json};

use super::Instance;

#[tokio::test]
async fn snowflake_ids_are_strings_and_numbers_where_that_is_safe() {
    let instance = Instance::start().await;
    let made = instance.put("ids", &json!({"kind": "snowflake", "layout": "javascript"})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let view = made.json();
    assert_eq!((&view["layout"], &view["alphabet"]), (&json!("41/5/7"), &json!("decimal")));
    assert_eq!(view["epoch"], "2025-01-01T00:00:00Z");
    assert_eq!(view["runs_out_at"], "2094-09-07T15:47:35.552Z");
    // The same by another name, and another.
    let same = json!({"kind": "snowflake", "layout": "41/w5/s7", "epoch": "2025-01-01T00:00:00Z"});
    assert_eq!(instance.put("ids", &same).await.status, 200);
    let other = instance.put("ids", &json!({"kind": "snowflake", "layout": "41/6/6"})).await;
    other.is_problem(409, "different_definition", "layout is `41/5/7` in the store, `41/6/6` here");

    let keys = instance.call("POST", "/v1/spaces/ids/keys?count=3").await.json();
    let text = keys["keys"][2].as_str().unwrap().to_owned();
    let numbers = instance.call("POST", "/v1/spaces/ids/keys?count=3&numbers=true").await.json();
    assert!(numbers["keys"][0].as_u64().unwrap() > text.parse().unwrap());
    let known = instance.call("GET", &format!("/v1/spaces/ids/keys/{text}")).await.json();
    assert_eq!((&known["state"], &known["worker"]), (&json!("leased"), &json!(0)));
    assert_eq!(known["lease"]["purpose"], "window");
    assert!(known["time"].is_string() && known["sequence"].is_u64(), "{known}");

    assert_eq!(instance.put("long", &json!({"kind": "snowflake"})).await.status, 201);
    let refusal = instance.call("POST", "/v1/spaces/long/keys?numbers=true").await;
    refusal.is_problem(400, "unsafe_numbers", "at most 53 bits");
    let refusal = instance.call("POST", "/v1/spaces/ids/keys?numbers=yes").await;
    refusal.is_problem(400, "bad_parameter", "true or false");
    let refusal = instance.call("PUT", "/v1/spaces/ids/aliases/12345").await;
    refusal.is_problem(400, "bad_alias", "cannot be reserved");
    assert_eq!(instance.call("PUT", "/v1/spaces/ids/aliases/summer").await.status, 201);

    let metrics = instance.call("GET", "/metrics").await.body;
    for line in [
        "keymill_worker{space=\"ids\"} 0",
        "keymill_clock_jumps_total{space=\"ids\"} 0",
        "keymill_runs_out_timestamp_seconds{space=\"ids\"} 3934712855",
    ] {
        assert!(metrics.contains(line), "no `{line}` in {metrics}");
    }
}

#[tokio::test]
async fn a_snowflake_that_cannot_be_is_refused_with_the_reason() {
    let instance = Instance::start().await;
    for (wanted, says) in [
        (json!({"layout": "41/10/13"}), "at most 63 bits"),
        (json!({"layout": "41-10-12"}), "layout"),
        (json!({"layout": "41/22/0"}), "16"),
        (json!({"layout": "41/10/0"}), "needs at least 1 sequence bit"),
        (json!({"epoch": "2999-01-01T00:00:00Z"}), "is in the future"),
        (json!({"layout": "30/10/12"}), "timestamps would end at"),
        (json!({"alphabet": "base62", "length": 5}), "too short for IDs of 63 bits"),
        (json!({"step": 2}), "is not allowed with kind snowflake"),
        (json!({"start": 2}), "is not allowed with kind snowflake"),
        (json!({"uuid_version": 4}), "is only allowed with kind uuid"),
        (json!({"window_seconds": 0}), "from 1 to 3600"),
    ] {
        let mut wanted = wanted;
        wanted["kind"] = json!("snowflake");
        instance.put("ids", &wanted).await.is_problem(400, "bad_definition", says);
    }
    let shuffled = instance.put("ids", &json!({"layout": "41/10/12"})).await;
    shuffled.is_problem(400, "bad_definition", "are only allowed with kind snowflake");
}

#[tokio::test]
async fn uuids_are_handed_out_and_tell_their_time() {
    let instance = Instance::start().await;
    assert_eq!(instance.put("events", &json!({"kind": "uuid"})).await.status, 201);
    let keys = instance.call("POST", "/v1/spaces/events/keys?count=1000").await.json();
    let keys: Vec<&str> = keys["keys"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    assert!(keys.len() == 1_000 && keys.is_sorted_by(|a, b| a < b), "in the order of time");
    let known = instance.call("GET", &format!("/v1/spaces/events/keys/{}", keys[0])).await.json();
    assert_eq!(known["state"], "unknown");
    assert!(known["time"].as_str().unwrap() > "2025", "{known}");
    let none = instance.call("GET", "/v1/spaces/events/keys/x").await.json();
    assert_eq!(none["state"], "invalid");
    assert_eq!(instance.call("GET", "/get-key?space=events").await.body.len(), 36);

    let four = instance.put("random", &json!({"kind": "uuid", "uuid_version": 4})).await;
    assert_eq!(four.status, 201, "{}", four.body);
    let key = instance.call("GET", "/get-key?space=random").await.body;
    assert_eq!(&key[14..15], "4");
    for (wanted, says) in [
        (json!({"uuid_version": 1}), "must be 4 or 7"),
        (json!({"length": 8}), "is not allowed with kind uuid"),
        (json!({"prefix": "x_"}), "is not allowed with kind uuid"),
        (json!({"audit": "key"}), "is not available for kind uuid"),
    ] {
        let mut wanted = wanted;
        wanted["kind"] = json!("uuid");
        instance.put("no", &wanted).await.is_problem(400, "bad_definition", says);
    }
}
