//! Methods besides those that do something, and headers for browsers.

use serde_json::json;

use super::Instance;

#[tokio::test]
async fn a_head_answers_wherever_a_get_does_and_takes_no_key() {
    let instance = Instance::start().await;
    let key = instance.call("GET", "/get-key").await.body;
    assert_eq!(instance.call("PUT", "/v1/spaces/default/aliases/a").await.status, 201);
    let at_hand = async || {
        instance.call("GET", "/v1/spaces/default").await.json()["at_hand"].as_u64().unwrap()
    };
    let before = at_hand().await;
    for path in [
        "/get-key",
        "/get-key?space=default",
        "/v1/spaces",
        "/v1/spaces/default",
        &format!("/v1/spaces/default/keys/{key}"),
        "/v1/spaces/default/aliases",
        "/v1/spaces/default/aliases/a",
        "/v1/spaces/default/used",
        "/v1/leases",
        "/v1/instances",
        "/v1/store",
        "/v1/activity",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/docs",
    ] {
        let head = instance.call("HEAD", path).await;
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
        assert!(head.head.contains("content-type: "), "{path}: {}", head.head);
    }
    assert_eq!(at_hand().await, before, "a key was taken");
    let nowhere = instance.call("HEAD", "/get-key?space=nope").await;
    assert_eq!((nowhere.status, nowhere.body.as_str()), (404, ""));
}

#[tokio::test]
async fn a_head_is_refused_like_a_get_where_the_refusal_is_known() {
    let instance = Instance::start().await;
    for (space, kind) in [("urls", "digest"), ("pool", "pooled"), ("ended", "shuffled")] {
        assert_eq!(instance.put(space, &json!({"kind": kind})).await.status, 201, "{space}");
    }
    instance.service.seal("ended").await.unwrap();
    let head =
        async |space: &str| instance.call("HEAD", &format!("/get-key?space={space}")).await.status;
    assert_eq!(head("urls").await, 409, "its kind is known at once");
    for space in ["urls", "pool", "ended"] {
        let get = async || instance.call("GET", &format!("/get-key?space={space}")).await;
        let mut got = get().await;
        // The first one has the store asked, which may take longer than a take waits.
        while got.status == 503 {
            got = get().await;
        }
        assert_eq!((got.status, head(space).await), (409, 409), "{space}: {}", got.body);
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_which_ones_are_right() {
    let instance = Instance::start().await;
    for (method, path, allowed) in [
        ("POST", "/get-key", "allow: get,head"),
        ("OPTIONS", "/get-key", "allow: get,head"),
        ("GET", "/v1/spaces/default/keys", "allow: post"),
        ("PUT", "/v1/spaces/default/pool", "allow: get,head,post"),
        ("POST", "/v1/spaces/default", "allow: get,head,put,patch"),
        ("GET", "/v1/spaces/default/advance", "allow: post"),
        ("GET", "/v1/import", "allow: post"),
        ("POST", "/v1/spaces", "allow: get,head"),
    ] {
        let answer = instance.call(method, path).await;
        answer.is_problem(405, "method_not_allowed", &format!("{method} is not allowed on {path}"));
        assert!(answer.head.contains(allowed), "{method} {path}: {}", answer.head);
    }
}

#[tokio::test]
async fn browsers_are_told_what_an_answer_is_not_for() {
    let instance = Instance::start().await;
    for (method, path) in [
        ("GET", "/get-key"),
        ("POST", "/v1/spaces/default/keys"),
        ("GET", "/v1/spaces"),
        ("GET", "/v1/nothing"),
        ("GET", "/healthz"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
    ] {
        let head = instance.call(method, path).await.head;
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
    }
    for page in ["/", "/docs"] {
        let head = instance.call("GET", page).await.head;
        for header in [
            "content-security-policy: default-src 'none'",
            "frame-ancestors 'none'",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(header), "{page} has no `{header}`: {head}");
        }
        assert!(!head.contains("unsafe-inline"), "{head}");
    }
}
