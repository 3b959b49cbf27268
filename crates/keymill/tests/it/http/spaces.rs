//! Keyspaces over HTTP: made, refused, shown.

use keymill_engine::space::{Kind, SpaceSpec};
use serde_json::{Value, json};

use super::Instance;

#[tokio::test]
async fn a_space_is_made_once_and_the_same_again_is_welcome() {
    let instance = Instance::start().await;
    let orders =
        json!({"alphabet": "base32", "length": 8, "prefix": "ord_", "group": 4, "check": true});
    let made = instance.put("orders", &orders).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.json()["capacity"], 1_099_511_627_776_u64);
    assert_eq!(instance.put("orders", &orders).await.status, 200);
    let key = instance.call("GET", "/get-key?space=orders").await.body;
    assert!(key.starts_with("ord_") && key.len() == "ord_ABCD-EFGH-X".len(), "{key}");
    let different = instance.put("orders", &json!({"alphabet": "base36", "length": 8})).await;
    different.is_problem(409, "different_definition", "alphabet is `base32` in the store");
    let differences = different.json()["differences"].as_array().unwrap().len();
    assert_eq!(differences, 4, "alphabet, prefix, group and check");
    let mut shorter = orders.clone();
    shorter["horizon_seconds"] = json!(60);
    let tuned = instance.put("orders", &shorter).await;
    assert_eq!((tuned.status, &tuned.json()["horizon_seconds"]), (200, &json!(60)));
    // What is not named stays as it is.
    let mut looser = orders.clone();
    looser["blocklist"] = json!(false);
    let tuned = instance.put("orders", &looser).await.json();
    assert_eq!((&tuned["horizon_seconds"], &tuned["blocklist"]), (&json!(60), &json!(false)));
}

#[tokio::test]
async fn a_body_that_is_not_labelled_as_json_is_refused_and_not_ignored() {
    let instance = Instance::start().await;
    for kind in
        ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"]
    {
        let label = format!("content-type: {kind}\r\n");
        let refused = instance.send("PUT", "/v1/spaces/nine", &label, "{\"length\":9}").await;
        refused.is_problem(415, "unsupported_media_type", "application/json");
    }
    instance.call("GET", "/v1/spaces/nine").await.is_problem(404, "unknown_space", "nine");
    let made = instance.call("PUT", "/v1/spaces/plain").await;
    assert_eq!(
        (made.status, &made.json()["length"]),
        (201, &json!(7)),
        "no body asks for defaults"
    );
}

#[tokio::test]
async fn definitions_that_cannot_be_are_refused_with_the_reason() {
    let instance = Instance::start().await;
    let refused = async |body: Value, code: &str, says: &str| {
        instance.put("bad", &body).await.is_problem(400, code, says);
    };
    refused(json!({"alphabet": "abca"}), "bad_definition", "a").await;
    refused(json!({"alphabet": "ab/d"}), "bad_definition", "/").await;
    refused(json!({"alphabet": "x"}), "bad_definition", "2").await;
    refused(json!({"alphabet": "base63"}), "bad_definition", "base62").await;
    refused(json!({"alphabet": "bas62", "length": 12}), "bad_definition", "mean `base62`?").await;
    refused(json!({"length": 21}), "bad_definition", "20").await;
    refused(json!({"alphabet": "base36", "length": 3}), "bad_definition", "4").await;
    refused(json!({"step": 0}), "bad_definition", "step").await;
    refused(json!({"kind": "sequential", "step": 2, "offset": 2}), "bad_definition", "offset")
        .await;
    refused(json!({"step": 2}), "bad_definition", "KEYMILL_SECRET").await;
    refused(json!({"alphabet": "01", "length": 20, "check": true}), "bad_definition", "check")
        .await;
    refused(json!({"lease_size_min": 0}), "bad_definition", "lease_size_min").await;
    let json = "content-type: application/json\r\n";
    let send = async |body: &str| instance.send("PUT", "/v1/spaces/bad", json, body).await;
    send("{\"lenght\": 7}").await.is_problem(400, "bad_body", "lenght");
    send("{\"length\": 8, \"length\": 9}").await.is_problem(400, "bad_body", "duplicate");
    send("[\"sequential\"]").await.is_problem(400, "bad_body", "object");
    send("{").await.is_problem(400, "bad_body", "JSON");
    instance.put("Bad%20Name", &json!({})).await.is_problem(400, "bad_definition", "Bad Name");
    instance.call("GET", "/v1/spaces/bad").await.is_problem(404, "unknown_space", "bad");
}

#[tokio::test]
async fn spaces_are_shown_in_figures() {
    let instance = Instance::start().await;
    instance.call("GET", "/get-key").await;
    let shown = instance.call("GET", "/v1/spaces/default").await.json();
    assert_eq!(shown["capacity"], 3_521_614_606_208_u64);
    assert_eq!(shown["leased"], 1_000);
    assert_eq!(shown["remaining"], 3_521_614_605_208_u64);
    assert_eq!(shown["at_hand"], 999);
    let density = shown["density"].as_f64().unwrap();
    assert!((density - 1_000.0 / 3_521_614_606_208.0).abs() < 1e-15);
    let wanted = SpaceSpec {
        kind: Some(Kind::Sequential),
        alphabet: Some("decimal".to_owned()),
        length: Some(0),
        ..SpaceSpec::default()
    };
    instance.service.ensure_space("tickets", &wanted).await.unwrap();
    let listed = instance.call("GET", "/v1/spaces").await.json();
    assert_eq!(listed["spaces"][1]["capacity"], "9223372036854775807", "too large for a number");
    let tickets = instance.call("POST", "/v1/spaces/tickets/keys?count=3").await.json();
    assert_eq!(tickets["keys"], json!(["0", "1", "2"]));
}
