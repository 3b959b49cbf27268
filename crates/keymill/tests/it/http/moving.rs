//! A keyspace moves from the store of one server to that of another.

use serde_json::json;

use super::{Answer, Instance};

const NDJSON: &str = "content-type: application/x-ndjson\r\n";

#[tokio::test]
async fn a_sealed_keyspace_moves_to_the_one_store_that_it_is_for() {
    let (here, there) = (Instance::start().await, Instance::start().await);
    let spec = json!({"kind": "sequential", "alphabet": "decimal", "length": 5});
    here.put("t", &spec).await;
    here.call("PUT", "/v1/spaces/t/aliases/00002").await;
    let plain = "content-type: text/plain\r\n";
    here.send("POST", "/v1/spaces/t/used-keys", plain, "00001\n").await;
    let identity = there.call("GET", "/v1/store").await.json()["identity"].clone();
    let ask = json!({"for": identity}).to_string();
    export(&here, &ask).await.is_problem(400, "bad_import", "is not sealed");
    here.call("POST", "/v1/spaces/t/seal?confirm=t").await;
    for (body, code, says) in [
        (json!({"for": "elsewhere"}), "bad_import", "not the identity"),
        (json!({"replace_target": true}), "bad_body", "for"),
        (json!({"for": identity, "seal": true}), "bad_body", "unknown field `seal`"),
    ] {
        export(&here, &body.to_string()).await.is_problem(400, code, says);
    }
    let file = export(&here, &ask).await;
    assert_eq!(file.status, 200, "{}", file.body);
    assert_eq!(file.header("content-type"), Some("application/x-ndjson"));
    let other = json!({"for": "00000000000000aa"}).to_string();
    export(&here, &other).await.is_problem(400, "bad_import", "already exported");

    // What is changed now would be missing from the file.
    let body = r#"{"lease_size_max": 7}"#;
    for (method, path, body) in
        [("DELETE", "/v1/spaces/t/aliases/00002", ""), ("PATCH", "/v1/spaces/t", body)]
    {
        let refused = here.send(method, path, "", body).await;
        refused.is_problem(409, "sealed", "was exported for the store");
    }
    assert_eq!(here.call("GET", "/v1/spaces/t/aliases/00002").await.status, 200);

    let import = async |file: &str| there.send("POST", "/v1/import", NDJSON, file).await;
    let moved = import(&file.body).await;
    assert_eq!(moved.json()["rows"], 2, "{}", moved.body);
    assert_eq!(moved.json()["space"], "t");
    let known = there.call("GET", "/v1/spaces/t/keys/00001").await.json();
    assert_eq!(known["state"], "imported");
    import(&file.body).await.is_problem(400, "bad_import", "already imported");
    let back = here.send("POST", "/v1/import", NDJSON, &file.body).await;
    back.is_problem(400, "bad_import", "is for the store");
}

#[tokio::test]
async fn a_file_that_is_damaged_leaves_a_keyspace_that_hands_out_nothing() {
    let (here, there) = (Instance::start().await, Instance::start().await);
    let spec = json!({"kind": "sequential", "alphabet": "decimal", "length": 5});
    here.put("t", &spec).await;
    here.call("PUT", "/v1/spaces/t/aliases/00002").await;
    here.call("POST", "/v1/spaces/t/seal?confirm=t").await;
    let identity = there.call("GET", "/v1/store").await.json()["identity"].clone();
    let file = export(&here, &json!({"for": identity}).to_string()).await.body;
    let lines: Vec<&str> = file.lines().collect();
    let cut = lines[..lines.len() - 1].join("\n");
    let changed = file.replace("00002", "00003");
    let long = format!("\"{}\"\n", "x".repeat(5 << 20));
    for (damaged, says) in [
        ("", "ends early"),
        ("{\n", "line 1 is not part of an export"),
        (cut.as_str(), "ends early"),
        (changed.as_str(), "was changed or is incomplete"),
        (long.as_str(), "line 1 is too long"),
    ] {
        let refused = there.send("POST", "/v1/import", NDJSON, damaged).await;
        refused.is_problem(400, "bad_import", says);
    }
    assert_eq!(there.call("GET", "/v1/spaces/t").await.json()["sealed"], true);
    let json = there.send("POST", "/v1/import", "", "{}").await;
    json.is_problem(415, "unsupported_media_type", "application/x-ndjson");
}

#[tokio::test]
async fn no_key_of_an_exported_keyspace_is_retired() {
    let (here, there) = (Instance::start().await, Instance::start().await);
    let spec = json!({"kind": "sequential", "alphabet": "decimal", "length": 5});
    here.put("t", &spec).await;
    while here.call("POST", "/v1/spaces/t/keys?count=2").await.status != 200 {}
    let retire = async |key: &str| here.call("DELETE", &format!("/v1/spaces/t/keys/{key}")).await;
    here.call("POST", "/v1/spaces/t/seal?confirm=t").await;
    assert_eq!(retire("00000").await.status, 200);
    let identity = there.call("GET", "/v1/store").await.json()["identity"].clone();
    assert_eq!(export(&here, &json!({"for": identity}).to_string()).await.status, 200);
    retire("00001").await.is_problem(409, "sealed", "was exported for the store");
}

/// An export; over HTTP/1.0, so that its body comes as it is.
async fn export(instance: &Instance, body: &str) -> Answer {
    let len = body.len();
    let head =
        "POST /v1/spaces/t/export HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json";
    instance.ask(&format!("{head}\r\ncontent-length: {len}\r\n\r\n{body}")).await
}
