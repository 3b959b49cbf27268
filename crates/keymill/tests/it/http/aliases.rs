//! Aliases over HTTP.

use serde_json::json;

use super::Instance;

#[tokio::test]
async fn an_alias_and_a_generated_key_are_never_the_same() {
    let instance = Instance::start().await;
    let tickets = json!({"kind": "sequential", "alphabet": "decimal", "length": 3,
        "lease_size_min": 5, "lease_size_max": 5});
    assert_eq!(instance.put("tickets", &tickets).await.status, 201);
    let alias = async |method: &str, alias: &str, owner: &str| {
        let path = format!("/v1/spaces/tickets/aliases/{alias}");
        if method == "DELETE" {
            return instance.call(method, &format!("{path}?owner={owner}")).await;
        }
        instance.send(method, &path, "", &json!({"owner": owner}).to_string()).await
    };
    // Before anything is leased, in the middle of a later lease, and one that is no ticket.
    for name in ["002", "017", "winter-sale"] {
        assert_eq!(alias("PUT", name, "me").await.status, 201, "{name}");
        assert_eq!(alias("PUT", name, "me").await.status, 200, "{name}");
        alias("PUT", name, "you").await.is_problem(409, "taken", name);
    }
    let taken = instance.call("POST", "/v1/spaces/tickets/keys?count=3").await.json();
    assert_eq!(taken["keys"], json!(["000", "001", "003"]));
    alias("PUT", "001", "me").await.is_problem(409, "taken", "001");
    alias("PUT", "004", "me").await.is_problem(409, "taken", "004");
    alias("DELETE", "017", "you").await.is_problem(409, "taken", "017");
    assert_eq!(alias("DELETE", "017", "me").await.status, 204);
    alias("DELETE", "017", "me").await.is_problem(404, "unknown_alias", "017");
    assert_eq!(alias("PUT", "018", "a b").await.status, 201);
    let path = "/v1/spaces/tickets/aliases/018?owner=";
    let delete = async |owner: &str, body: &str| {
        instance.send("DELETE", &format!("{path}{owner}"), "", body).await
    };
    delete("you", "").await.is_problem(409, "taken", "018");
    for body in ["{\"owner\": \"a b\"}", "{}", "[]", "x"] {
        delete("a+b", body).await.is_problem(400, "bad_body", "takes no body; name the owner in");
    }
    assert_eq!(delete("a+b", "").await.status, 204);
    let mut keys = Vec::new();
    loop {
        let answer = instance.call("POST", "/v1/spaces/tickets/keys?count=100").await;
        // The last keys come by single leases, and may take longer than one take waits.
        if answer.status == 503 {
            continue;
        }
        if answer.status != 200 {
            answer.is_problem(409, "exhausted", "used up");
            break;
        }
        let answer = answer.json();
        let some = answer["keys"].as_array().unwrap().iter();
        keys.extend(some.map(|key| key.as_str().unwrap().to_owned()));
    }
    assert_eq!(keys.len(), 1_000 - 6);
    assert!(!keys.contains(&"002".to_owned()) && !keys.contains(&"017".to_owned()));
    for (key, state) in [("002", "alias"), ("winter-sale", "alias"), ("017", "skipped")] {
        let told = instance.call("GET", &format!("/v1/spaces/tickets/keys/{key}")).await.json();
        assert_eq!(told["state"], state, "{told}");
    }
}

#[tokio::test]
async fn an_alias_that_cannot_be_is_refused_with_the_reason() {
    let instance = Instance::start().await;
    for (alias, says) in [
        ("seventeen-letters", "1 to 16 characters"),
        ("a%2Fb", "letters, digits"),
        ("%C3%A4", "letters, digits"),
        ("Admin", "reserved"),
        ("xfuckx", "blocklist"),
    ] {
        let path = format!("/v1/spaces/default/aliases/{alias}");
        instance.call("PUT", &path).await.is_problem(400, "bad_alias", says);
    }
    let nowhere = instance.call("PUT", "/v1/spaces/nowhere/aliases/a").await;
    nowhere.is_problem(404, "unknown_space", "nowhere");
    let body = "{\"ownr\": 1}";
    let answer = instance.send("PUT", "/v1/spaces/default/aliases/a", "", body).await;
    answer.is_problem(400, "bad_body", "ownr");
    assert_eq!(instance.call("PUT", "/v1/spaces/default/aliases/").await.status, 404);
}

#[tokio::test]
async fn aliases_are_listed_page_by_page_and_shown_one_by_one() {
    let instance = Instance::start().await;
    let alias = async |method: &str, alias: &str| {
        let owner = if method == "DELETE" { "?owner=me" } else { "" };
        let path = format!("/v1/spaces/default/aliases/{alias}{owner}");
        let body = if method == "PUT" { "{\"owner\": \"me\"}" } else { "" };
        instance.send(method, &path, "", body).await
    };
    for name in ["b", "Z", "b-", "gone", "~", "aa"] {
        assert_eq!(alias("PUT", name).await.status, 201, "{name}");
    }
    assert_eq!(alias("DELETE", "gone").await.status, 204);
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/spaces/default/aliases?limit=2{after}");
        let page = instance.call("GET", &path).await.json();
        let some = page["aliases"].as_array().unwrap();
        assert!(some.len() <= 2, "{page}");
        for one in some {
            assert_eq!((&one["owner"], &one["space"]), (&json!("me"), &json!("default")));
            listed.push(one["alias"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(listed, ["Z", "aa", "b", "b-", "~"]);
    let shown = alias("GET", "b-").await;
    assert_eq!((shown.status, &shown.json()["owner"]), (200, &json!("me")));
    assert!(shown.json()["created_at"].is_string(), "{}", shown.body);
    for nobody in ["gone", "z", "nope"] {
        alias("GET", nobody).await.is_problem(404, "unknown_alias", nobody);
    }
    let list = async |query: &str| {
        instance.call("GET", &format!("/v1/spaces/default/aliases?{query}")).await
    };
    list("limit=0").await.is_problem(400, "bad_parameter", "limit");
    list("limit=1001").await.is_problem(400, "bad_parameter", "limit");
    list("after=a%0Ab").await.is_problem(400, "bad_parameter", "after");
    let nowhere = instance.call("GET", "/v1/spaces/nowhere/aliases").await;
    nowhere.is_problem(404, "unknown_space", "nowhere");
}
