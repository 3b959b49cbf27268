//! Digests over HTTP, many in one request.

use serde_json::{Value, json};

use super::Instance;

async fn digest(instance: &Instance, body: &Value) -> super::Answer {
    instance.send("POST", "/v1/spaces/urls/digests", "", &body.to_string()).await
}

#[tokio::test]
async fn inputs_come_back_as_keys_in_their_order_after_one_commit() {
    let instance = Instance::start().await;
    instance.put("urls", &json!({"kind": "digest"})).await;
    let known = digest(&instance, &json!({"input": "known"})).await.json()["key"].clone();
    let revision = async || instance.service.report("urls").await.unwrap().record.mark.revision;
    let before = revision().await;
    let mut inputs: Vec<String> = (0..100).map(|number| format!("input {number}")).collect();
    inputs[7] = "known".to_owned();
    inputs[50] = inputs[3].clone();
    let many = digest(&instance, &json!({"inputs": inputs})).await;
    assert_eq!(many.status, 200, "{}", many.body);
    let many = many.json();
    let keys = many["keys"].as_array().unwrap();
    assert_eq!((&many["space"], keys.len()), (&json!("urls"), 100));
    assert_eq!((&keys[7], &keys[50]), (&known, &keys[3]));
    assert_eq!(revision().await, before + 1, "all of them are one change");
    for at in [0, 3, 99] {
        let one = digest(&instance, &json!({"input": inputs[at]})).await.json();
        assert_eq!((&one["key"], &one["made"]), (&keys[at], &json!(false)));
    }
    let scoped = digest(&instance, &json!({"inputs": [inputs[0]], "scope": "other"})).await.json();
    assert_ne!(scoped["keys"][0], keys[0]);
}

#[tokio::test]
async fn a_batch_that_cannot_be_is_refused_with_the_reason_and_changes_nothing() {
    let instance = Instance::start().await;
    instance.put("urls", &json!({"kind": "digest"})).await;
    let refused = async |body: Value, code: &str, says: &str| {
        digest(&instance, &body).await.is_problem(400, code, says);
    };
    refused(json!({}), "bad_body", "`input` (a string) or `inputs`").await;
    refused(json!({"input": "a", "inputs": ["b"]}), "bad_body", "not both").await;
    refused(json!({"input": null}), "bad_body", "`input` must be a string").await;
    refused(json!({"input": ["a"]}), "bad_body", "`input` must be a string").await;
    for inputs in [json!("a"), json!([1]), json!([["a"]])] {
        refused(json!({"inputs": inputs}), "bad_body", "`inputs` must be a list of strings").await;
    }
    refused(json!({"inputs": []}), "bad_count", "1 to 100000 entries").await;
    refused(json!({"inputs": ["fine", ""]}), "bad_input", "inputs[1]: the input is empty").await;
    let fine = digest(&instance, &json!({"input": "fine"})).await.json();
    assert_eq!(fine["made"], true, "the refused batch gave it no key");
}
