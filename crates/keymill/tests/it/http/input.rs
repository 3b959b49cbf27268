//! What strangers may send as names, keys, owners, callers and places in lists: whatever it is, on every
//! store, it is never the store's failure.

use keymill::server::ServerLimits;
use serde_json::json;

use super::Instance;

#[tokio::test]
async fn text_that_some_store_would_refuse_is_refused_before_sqlite_is_asked() {
    refuses_wrong_text(None).await;
}

#[tokio::test]
async fn text_that_some_store_would_refuse_is_refused_before_postgres_is_asked() {
    on("postgres").await;
}

#[tokio::test]
async fn text_that_some_store_would_refuse_is_refused_before_mysql_is_asked() {
    on("mysql").await;
}

#[tokio::test]
async fn text_that_some_store_would_refuse_is_refused_before_redis_is_asked() {
    on("redis").await;
}

async fn on(kind: &str) {
    if let Some(store) = crate::servers::new_store(kind) {
        refuses_wrong_text(Some(store)).await;
    }
}

async fn refuses_wrong_text(store: Option<String>) {
    let instance = Instance::start_on(store, ServerLimits::default()).await;
    let made = instance.put("noted", &json!({"audit": "batch"})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let long = "x".repeat(300);
    // Encoded for a URL, and as they are in JSON.
    for (url, plain) in [("a%00b", "a\0b"), ("%0A", "\n"), (&*long, &*long)] {
        let get = async |path: String| instance.call("GET", &path).await;
        get(format!("/v1/spaces/{url}")).await.is_problem(404, "unknown_space", "");
        get(format!("/v1/spaces/{url}/aliases")).await.is_problem(404, "unknown_space", "");
        get(format!("/get-key?space={url}")).await.is_problem(404, "unknown_space", "");
        get(format!("/v1/leases?space={url}")).await.is_problem(404, "unknown_space", "");
        for path in [
            format!("/v1/leases?after={url}/1"),
            format!("/v1/instances?after={url}"),
            format!("/v1/spaces/noted/aliases?after={url}"),
        ] {
            get(path).await.is_problem(400, "bad_parameter", "`after`");
        }
        let post = async |path: String| instance.call("POST", &path).await;
        post(format!("/v1/spaces/{url}/keys")).await.is_problem(404, "unknown_space", "");
        post(format!("/v1/spaces/{url}/pool")).await.is_problem(404, "unknown_space", "");
        let caller = post(format!("/v1/spaces/noted/keys?caller={url}")).await;
        caller.is_problem(400, "bad_caller", "128");
        get(format!("/v1/spaces/noted/used?caller={url}")).await.is_problem(
            400,
            "bad_caller",
            "128",
        );
        let put = instance.call("PUT", &format!("/v1/spaces/{url}")).await;
        put.is_problem(400, "bad_definition", "cannot name");
        // A key that cannot be one is known to be invalid.
        let key = format!("/v1/spaces/noted/keys/{url}");
        let told = instance.call("GET", &key).await;
        assert_eq!((told.status, &told.json()["state"]), (200, &json!("invalid")), "{}", told.body);
        instance.call("DELETE", &key).await.is_problem(409, "not_retirable", "");
        let said = instance.send("DELETE", &key, "", "{}").await;
        said.is_problem(400, "bad_body", "takes no body");
        let alias = format!("/v1/spaces/noted/aliases/{url}");
        instance.call("GET", &alias).await.is_problem(404, "unknown_alias", "");
        instance.call("DELETE", &alias).await.is_problem(404, "unknown_alias", "");
        instance.call("PUT", &alias).await.is_problem(400, "bad_alias", "");
        let owner = json!({"owner": plain}).to_string();
        let sale = "/v1/spaces/noted/aliases/sale";
        let owned = instance.send("PUT", sale, "", &owner).await;
        owned.is_problem(400, "bad_owner", "255 bytes");
        let owned = instance.call("DELETE", &format!("{sale}?owner={url}")).await;
        owned.is_problem(400, "bad_owner", "255 bytes");
    }
    let json = "content-type: application/json\r\n";
    let nul = json!({"caller": "a\0b"}).to_string();
    let caller = instance.send("POST", "/v1/spaces/noted/keys", json, &nul).await;
    caller.is_problem(400, "bad_caller", "128");
    let made = instance.put("inputs", &json!({"kind": "digest"})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    digests_any_text(&instance).await;
    // What fits is taken as it is.
    let owner = json!({"owner": "ä".repeat(127)}).to_string();
    let alias = "/v1/spaces/noted/aliases/sale";
    assert_eq!(instance.send("PUT", alias, "", &owner).await.status, 201);
    let shown = instance.call("GET", alias).await.json();
    assert_eq!(shown["owner"], json!("ä".repeat(127)));
}

/// Inputs and scopes are not written down but digested, so that they may be any text: each is told from the
/// same without its NUL, and has the same key again.
async fn digests_any_text(instance: &Instance) {
    let digest = async |body: serde_json::Value| {
        let path = "/v1/spaces/inputs/digests";
        let answer = instance.send("POST", path, "", &body.to_string()).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.body);
        answer.json()
    };
    let many = digest(json!({"inputs": ["a\0b", "ab", "\0"]})).await["keys"].clone();
    let keys: std::collections::HashSet<String> = serde_json::from_value(many.clone()).unwrap();
    assert_eq!(keys.len(), 3);
    let again = digest(json!({"input": "a\0b"})).await;
    assert_eq!((&again["key"], &again["made"]), (&many[0], &json!(false)));
    let scoped = digest(json!({"inputs": ["ab"], "scope": "a\0b"})).await["keys"][0].clone();
    assert_ne!(scoped, many[1]);
    let again = digest(json!({"input": "ab", "scope": "a\0b"})).await;
    assert_eq!((&again["key"], &again["made"]), (&scoped, &json!(false)));
}
