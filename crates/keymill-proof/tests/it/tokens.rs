//! Tokens on several instances: what one does the others know within a heartbeat, and without the store for as
//! long as was said.

mod planted;

use keymill_proof::backend::Kind;
use keymill_proof::proxy::{Fault, Proxy};
use keymill_proof::{Answer, Client, Deployment, Server};

use super::{eventually, is_problem, json, put, quiet, watchful};

#[test]
fn a_token_revoked_through_one_instance_is_refused_by_the_other_within_a_heartbeat() {
    let deployment = Deployment::sqlite();
    let [here, there] = ["d0", "d1"].map(|name| watchful(&deployment, name).start());
    let root = create(&here, "", "root", "admin:*");
    let shop = create(&here, &root, "shop", "take:default");
    let mut open = Client::new(there.address());
    let mut take = || {
        let bearer = format!("Bearer {shop}");
        let headers = [("Authorization", bearer.as_str())];
        open.request("POST", "/v1/spaces/default/keys", &headers, b"").unwrap().status
    };
    eventually("it is known there", || take() == 200);
    let revoked = call(&here, &root, "DELETE", "/v1/tokens/shop", "");
    assert_eq!(revoked.status, 204, "{}", revoked.text());
    is_problem(&call(&here, &shop, "GET", "/get-key", ""), 401, "unauthorized");
    // On the connection that it has used before, too.
    eventually("it is refused there", || take() == 401);
    // The same for a text that was replaced.
    let old = create(&here, &root, "mall", "take:default");
    eventually("the next is known", || call(&there, &old, "GET", "/get-key", "").status == 200);
    let rotated = call(&there, &root, "POST", "/v1/tokens/mall/rotate", r#"{"overlap_seconds":0}"#);
    let new = token_of(&rotated);
    assert_eq!(call(&there, &new, "GET", "/get-key", "").status, 200);
    assert_eq!(call(&there, &old, "GET", "/get-key", "").status, 401);
    eventually("the old text is refused", || {
        call(&here, &old, "GET", "/get-key", "").status == 401
    });
    eventually("the new one is known", || call(&here, &new, "GET", "/get-key", "").status == 200);
}

#[test]
fn a_new_token_is_known_to_every_instance_before_the_next_heartbeat() {
    let deployment = Deployment::sqlite();
    let [here, there] = ["d0", "d1"].map(|name| quiet(&deployment, name).start());
    let root = create(&here, "", "root", "admin:*");
    let shop = create(&here, &root, "shop", "take:default");
    eventually("it is known there", || call(&there, &shop, "GET", "/get-key", "").status == 200);
    // And from then on callers need one there.
    is_problem(&call(&there, "", "GET", "/get-key", ""), 401, "unauthorized");
}

#[test]
fn tokens_are_relied_on_for_as_long_as_was_said_while_postgres_is_unreachable() {
    check_unreachable(Kind::Postgres);
}

#[test]
fn tokens_are_relied_on_for_as_long_as_was_said_while_redis_is_unreachable() {
    check_unreachable(Kind::Redis);
}

/// A token is revoked while the store is unreachable from two other instances: one relies on what it knows for
/// an hour, the other for a second.
fn check_unreachable(kind: Kind) {
    let Some(deployment) = Deployment::on_server(kind) else { return };
    let (proxy, through) = Proxy::before(deployment.store());
    let through = Deployment::on(through);
    let direct = watchful(&deployment, "direct").start();
    put(&direct, "busy", r#"{"lease_size_min": 100000}"#);
    let root = create(&direct, "", "root", "admin:*");
    let shop = create(&direct, &root, "shop", "take:busy");
    // Of the settings: no store can revoke it.
    let elsewhere = Deployment::sqlite();
    let admin = create(&elsewhere.start("d0"), "", "x", "admin:*");
    let patient = watchful(&through, "patient").start();
    let strict = watchful(&through, "strict").env("KEYMILL_TOKENS_MAX_AGE_SECONDS", "1");
    let strict = strict.env("KEYMILL_ADMIN_TOKEN", &admin).start();
    let take = |server: &Server, token: &str| {
        call(server, token, "POST", "/v1/spaces/busy/keys?count=10", "")
    };
    for (server, token) in [(&patient, &shop), (&strict, &shop), (&strict, &admin)] {
        eventually("it has keys in memory", || take(server, token).status == 200);
    }

    proxy.set(Fault::Stall);
    let revoked = call(&direct, &root, "DELETE", "/v1/tokens/shop", "");
    assert_eq!(revoked.status, 204, "{}", revoked.text());
    is_problem(&take(&direct, &shop), 401, "unauthorized");
    eventually("nobody knows any more what was revoked", || take(&strict, &shop).status == 503);
    let stale = take(&strict, &shop);
    is_problem(&stale, 503, "tokens_stale");
    assert!(stale.header("retry-after").is_some(), "{:?}", stale.headers);
    is_problem(&take(&strict, &root), 503, "tokens_stale");
    assert_eq!(take(&strict, &admin).status, 200, "it is not of the store");
    is_problem(&take(&strict, ""), 401, "unauthorized");
    assert_eq!(call(&strict, &shop, "GET", "/healthz", "").status, 200);
    // Longer than that, the other goes on: it was told to.
    for _ in 0..50 {
        assert_eq!(take(&patient, &shop).status, 200);
    }

    proxy.set(Fault::None);
    for server in [&patient, &strict] {
        eventually("the revocation is known", || take(server, &shop).status == 401);
        eventually("others are accepted again", || take(server, &root).status == 200);
    }
}

/// A request with a token, or without one where that is empty; a body is JSON.
fn call(server: &Server, token: &str, method: &str, path: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let mut headers = Vec::new();
    if !token.is_empty() {
        headers.push(("Authorization", bearer.as_str()));
    }
    if !body.is_empty() {
        headers.push(("Content-Type", "application/json"));
    }
    Client::new(server.address()).request(method, path, &headers, body.as_bytes()).unwrap()
}

/// Makes a token over HTTP; its text.
#[track_caller]
fn create(server: &Server, by: &str, name: &str, allow: &str) -> String {
    let ask = serde_json::json!({"name": name, "allow": [allow]}).to_string();
    let made = call(server, by, "POST", "/v1/tokens", &ask);
    assert_eq!(made.status, 201, "{}", made.text());
    token_of(&made)
}

#[track_caller]
fn token_of(made: &Answer) -> String {
    let made = json(made);
    made["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}
