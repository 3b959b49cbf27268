//! Tokens on several instances: what one does the others know within a heartbeat, and without the store for as
//! long as was said.

mod planted;

use std::path::Path;

use keymill_proof::backend::{Backend, Kind, skip};
use keymill_proof::proxy::{Fault, Proxy};
use keymill_proof::{Answer, Client, Server, ServerSpec};

use super::{eventually, is_problem, put, spec};

#[test]
fn a_token_revoked_through_one_instance_is_refused_by_the_other_within_a_heartbeat() {
    let folder = tempfile::tempdir().unwrap();
    let [here, there] =
        ["d0", "d1"].map(|name| Server::start(&watchful(ServerSpec::keymill(folder.path(), name))));
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
    let folder = tempfile::tempdir().unwrap();
    // Their heartbeats are rare.
    let [here, there] = ["d0", "d1"].map(|name| Server::start(&spec(folder.path(), name)));
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
    let Ok(backend) = kind.start().map_err(|missing| skip(&missing)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (proxy, through) = proxied(&*backend);
    let instance =
        |store: &str, name: &str| watchful(ServerSpec::keymill_on(store, folder.path(), name));
    let direct = Server::start(&instance(&backend.url(), "direct"));
    put(&direct, "busy", r#"{"lease_size_min": 100000}"#);
    let root = create(&direct, "", "root", "admin:*");
    let shop = create(&direct, &root, "shop", "take:busy");
    // Of the settings: no store can revoke it.
    let admin = create(&Server::start(&elsewhere(folder.path())), "", "x", "admin:*");
    let patient = Server::start(&instance(&through, "patient"));
    let strict = instance(&through, "strict").env("KEYMILL_TOKENS_MAX_AGE_SECONDS", "1");
    let strict = Server::start(&strict.env("KEYMILL_ADMIN_TOKEN", &admin));
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

/// An instance that looks at its store again and again.
fn watchful(spec: ServerSpec) -> ServerSpec {
    spec.env("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2")
}

/// One that has nothing to do with the others.
fn elsewhere(folder: &Path) -> ServerSpec {
    let store = format!("sqlite:{}", folder.join("elsewhere.db").display());
    ServerSpec::keymill_on(&store, folder, "elsewhere")
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
    let made: serde_json::Value = serde_json::from_str(made.text()).unwrap();
    made["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

/// A proxy to a server, and the URL through it.
fn proxied(backend: &dyn Backend) -> (Proxy, String) {
    let url = backend.url();
    let port = url.rsplit_once(':').unwrap().1.split('/').next().unwrap();
    let proxy = Proxy::start(port.parse().unwrap());
    let through = url.replace(&format!(":{port}"), &format!(":{}", proxy.port()));
    (proxy, through)
}
