//! Who may do what over HTTP: one table of every endpoint and what it needs.
//!
//! An endpoint without a row fails the first test. The other tests walk the table: whoever has no valid token
//! gets 401, whoever has the wrong one 403, both without a word on what exists; the right one gets past.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::guarded::{Guarded, bearer};
use super::{Answer, Instance};

use Needs::{All, In, Nothing, Page, Session, Token};

/// What an endpoint needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing: it is for probes.
    Nothing,
    /// No token: it holds nothing secret.
    Page,
    /// No token in the request: it begins or ends a session.
    Session,
    /// Any token: there is nothing.
    Token,
    /// A right in every keyspace.
    All(&'static str),
    /// A right in the keyspace that the request names.
    In(&'static str),
}

/// Method, route, a request of it and its body, and what it needs.
type Row = (&'static str, &'static str, &'static str, &'static str, Needs);

const RIGHTS: [&str; 4] = ["take", "name", "read", "admin"];

/// Every endpoint. The keyspaces in it begin with `shop-`.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("GET", "/healthz", "/healthz", "", Nothing),
    ("GET", "/readyz", "/readyz", "", Nothing),
    ("GET", "/", "/", "", Page),
    ("GET", "/docs", "/docs", "", Page),
    ("GET", "/docs/style.css", "/docs/style.css", "", Page),
    ("GET", "/docs/script.js", "/docs/script.js", "", Page),
    ("GET", "/page/style.css", "/page/style.css", "", Page),
    ("GET", "/page/script.js", "/page/script.js", "", Page),
    ("GET", "/page/mark.svg", "/page/mark.svg", "", Page),
    ("GET", "/openapi.json", "/openapi.json", "", Page),
    ("GET", "/v1/session", "/v1/session", "", Page),
    ("POST", "/v1/session", "/v1/session", "{}", Session),
    ("DELETE", "/v1/session", "/v1/session", "", Session),
    ("ANY", "/v1/{*rest}", "/v1/nowhere", "", Token),
    ("GET", "/metrics", "/metrics", "", All("read")),
    ("GET", "/v1/spaces", "/v1/spaces", "", All("read")),
    ("GET", "/v1/leases", "/v1/leases", "", All("read")),
    ("GET", "/v1/leases", "/v1/leases?space=shop-links", "", In("read")),
    ("GET", "/v1/instances", "/v1/instances", "", All("read")),
    ("GET", "/v1/store", "/v1/store", "", All("read")),
    ("GET", "/v1/activity", "/v1/activity", "", All("read")),
    ("GET", "/v1/activity", "/v1/activity?space=shop-links", "", In("read")),
    ("POST", "/v1/preview", "/v1/preview", "{}", All("read")),
    ("GET", "/v1/acts", "/v1/acts", "", All("admin")),
    ("POST", "/v1/import", "/v1/import", "no export\n", All("admin")),
    ("GET", "/v1/tokens", "/v1/tokens", "", All("admin")),
    ("POST", "/v1/tokens", "/v1/tokens", r#"{"name":"made","allow":["take:x"]}"#, All("admin")),
    ("GET", "/v1/tokens/{name}", "/v1/tokens/victim", "", All("admin")),
    ("POST", "/v1/tokens/{name}/rotate", "/v1/tokens/victim/rotate", "{}", All("admin")),
    ("DELETE", "/v1/tokens/{name}", "/v1/tokens/victim", "", All("admin")),
    ("GET", "/get-key", "/get-key?space=shop-links", "", In("take")),
    ("POST", "/v1/spaces/{space}/keys", "/v1/spaces/shop-links/keys", "", In("take")),
    ("POST", "/v1/spaces/{space}/keys", "/v1/spaces/shop-links/keys?count=2", "", In("take")),
    ("POST", "/v1/spaces/{space}/keys", "/v1/spaces/shop-links/keys", "{\"count\":2}", In("take")),
    ("GET", "/v1/spaces/{space}", "/v1/spaces/shop-links", "", In("read")),
    ("PUT", "/v1/spaces/{space}", "/v1/spaces/shop-links", "{}", In("admin")),
    ("PATCH", "/v1/spaces/{space}", "/v1/spaces/shop-links", r#"{"audit":"batch"}"#, In("admin")),
    ("POST", "/v1/spaces/{space}/grow", "/v1/spaces/shop-links/grow", r#"{"length":5}"#, In("admin")),
    ("POST", "/v1/spaces/{space}/seal", "/v1/spaces/shop-ended/seal?confirm=shop-ended", "", In("admin")),
    ("POST", "/v1/spaces/{space}/advance", "/v1/spaces/shop-links/advance?to=5", "", In("admin")),
    ("POST", "/v1/spaces/{space}/export", "/v1/spaces/shop-links/export", r#"{"for":"x"}"#, In("admin")),
    ("GET", "/v1/spaces/{space}/bounds", "/v1/spaces/shop-links/bounds?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", "", In("read")),
    ("GET", "/v1/spaces/{space}/keys/{key}", "/v1/spaces/shop-links/keys/0000000", "", In("read")),
    ("DELETE", "/v1/spaces/{space}/keys/{key}", "/v1/spaces/shop-links/keys/0000000", "", In("name")),
    ("GET", "/v1/spaces/{space}/aliases", "/v1/spaces/shop-links/aliases", "", In("read")),
    ("PUT", "/v1/spaces/{space}/aliases/{alias}", "/v1/spaces/shop-links/aliases/b", "{}", In("name")),
    ("GET", "/v1/spaces/{space}/aliases/{alias}", "/v1/spaces/shop-links/aliases/a", "", In("read")),
    ("DELETE", "/v1/spaces/{space}/aliases/{alias}", "/v1/spaces/shop-links/aliases/a", "", In("name")),
    ("POST", "/v1/spaces/{space}/digests", "/v1/spaces/shop-urls/digests", r#"{"input":"x"}"#, In("name")),
    ("POST", "/v1/spaces/{space}/pool", "/v1/spaces/shop-pool/pool", "abc1234\n", In("admin")),
    ("GET", "/v1/spaces/{space}/pool", "/v1/spaces/shop-pool/pool", "", In("admin")),
    ("POST", "/v1/spaces/{space}/pool/fill", "/v1/spaces/shop-pool/pool/fill", r#"{"count":1}"#, In("admin")),
    ("POST", "/v1/spaces/{space}/used-keys", "/v1/spaces/shop-links/used-keys", "abc1234\n", In("admin")),
    ("GET", "/v1/spaces/{space}/used", "/v1/spaces/shop-pool/used", "", In("read")),
];

#[tokio::test]
async fn every_endpoint_has_a_row() {
    let rows: BTreeSet<(String, String)> =
        ROWS.iter().map(|row| (row.0.to_owned(), row.1.to_owned())).collect();
    let routed = routes_in(include_str!("../../../src/front/http/routes.rs"));
    assert!(routed.len() > 25, "{routed:?}");
    assert_eq!(rows, routed, "the table has a row for every route, and no other");
    let api = Instance::start().await.call("GET", "/openapi.json").await.json();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let row = (method.to_uppercase(), path.clone());
            assert!(rows.contains(&row), "{row:?} is described and has no row");
        }
    }
}

#[tokio::test]
async fn without_a_valid_token_everything_is_refused_alike() {
    let guarded = Guarded::start().await;
    let wrong = guarded.wrong_tokens().await;
    let before = guarded.everything().await;
    for row in rows_with(|needs| !matches!(needs, Nothing | Page | Session)) {
        for (why, headers) in &wrong {
            let refusal = guarded.send(row, row.2, headers).await;
            refusal.is_problem(401, "unauthorized", "token");
            assert!(refusal.header("www-authenticate").unwrap().starts_with("bearer"), "{row:?}");
            let elsewhere = guarded.send(row, &nowhere(row), headers).await;
            assert_eq!(told(&refusal), told(&elsewhere), "{why}: {row:?}");
        }
    }
    assert_eq!(guarded.everything().await, before, "something was taken or changed");
}

#[tokio::test]
async fn a_token_without_the_right_is_refused_alike_wherever_it_has_others() {
    let guarded = Guarded::start().await;
    let mut wrong = BTreeMap::new();
    for right in RIGHTS {
        let others = RIGHTS.iter().filter(|it| **it != right && **it != "admin");
        let others: Vec<String> = others.map(|other| format!("{other}:*")).collect();
        let name = |kind: &str| format!("{right}-{kind}");
        let others = guarded.token(&name("others"), &others).await;
        let elsewhere = ["other", "shop", "shop-link", "shop-linksx", "shop-l", "shop-links-*"];
        let elsewhere = format!("{right}:{}", elsewhere.join(","));
        let elsewhere = [elsewhere, "admin:other-*".to_owned()];
        let elsewhere = guarded.token(&name("elsewhere"), &elsewhere).await;
        // Every keyspace there is is still not every keyspace.
        let some = [format!("{right}:shop-*,d*"), "admin:shop-*".to_owned()];
        let some = guarded.token(&name("some"), &some).await;
        wrong.insert(right, (others, elsewhere, some));
    }
    let before = guarded.everything().await;
    for row in rows_with(|needs| matches!(needs, All(_) | In(_))) {
        let (All(right) | In(right)) = row.4 else { unreachable!("they were chosen") };
        let (others, elsewhere, some) = &wrong[right];
        let tokens = match row.4 {
            In(_) => vec![others, elsewhere],
            _ => vec![others, elsewhere, some],
        };
        for token in tokens {
            let headers = bearer(token);
            let refusal = guarded.send(row, row.2, &headers).await;
            assert_eq!(refusal.status, 403, "{row:?}: {}", refusal.body);
            refusal.is_problem(403, "forbidden", "the token does not allow this");
            let elsewhere = guarded.send(row, &nowhere(row), &headers).await;
            assert_eq!(told(&refusal), told(&elsewhere), "{row:?}");
        }
    }
    assert_eq!(guarded.everything().await, before, "something was taken or changed");
}

#[tokio::test]
async fn the_right_token_gets_past_by_name_by_pattern_and_as_admin() {
    let guarded = Guarded::start().await;
    let admin_of_some = guarded.token("admin-of-some", &["admin:shop-*".to_owned()]).await;
    let mut tokens = BTreeMap::new();
    for right in RIGHTS {
        let named = [format!("{right}:shop-links,shop-urls,shop-pool,shop-ended")];
        let named = guarded.token(&format!("{right}-named"), &named).await;
        let pattern = [format!("{right}:shop-*")];
        let pattern = guarded.token(&format!("{right}-pattern"), &pattern).await;
        let all = guarded.token(&format!("{right}-all"), &[format!("{right}:*")]).await;
        tokens.insert(right, (named, pattern, all));
    }
    for row in ROWS {
        let admitted = match row.4 {
            Nothing | Page | Session | Token => vec![&guarded.admin, &tokens["take"].0],
            All(right) => vec![&guarded.admin, &tokens[right].2],
            In(right) => {
                let (named, pattern, all) = &tokens[right];
                vec![&guarded.admin, &admin_of_some, named, pattern, all]
            }
        };
        for token in admitted {
            let answer = guarded.send(row, row.2, &bearer(token)).await;
            assert!(![401, 403, 405].contains(&answer.status), "{row:?}: {}", answer.body);
            // It was this route that answered; what it has found is not asked here.
            let is_found = !answer.body.contains("\"code\":\"not_found\"");
            assert_eq!(is_found, row.4 != Token, "{row:?}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn probes_and_pages_are_answered_whatever_they_are_sent_with() {
    let guarded = Guarded::start().await;
    let wrong = guarded.wrong_tokens().await;
    for row in rows_with(|needs| matches!(needs, Nothing | Page)) {
        for (why, headers) in &wrong {
            let answer = guarded.send(row, row.2, headers).await;
            assert!([200, 303].contains(&answer.status), "{why}: {row:?}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_head_needs_what_a_get_needs() {
    let guarded = Guarded::start().await;
    let nothing = guarded.token("nothing", &["take:other".to_owned()]).await;
    for row in rows_with(|needs| matches!(needs, All(_) | In(_))).filter(|row| row.0 == "GET") {
        for (headers, status) in [(String::new(), 401), (bearer(&nothing), 403)] {
            let refusal = guarded.instance.send("HEAD", row.2, &headers, "").await;
            assert_eq!((refusal.status, refusal.body.as_str()), (status, ""), "{row:?}");
        }
        let headers = bearer(&guarded.admin);
        let get = guarded.settled(&guarded.admin, "GET", row.2).await.status;
        let head = guarded.instance.send("HEAD", row.2, &headers, "").await.status;
        assert_eq!(head, get, "{row:?}");
    }
}

#[tokio::test]
async fn no_spelling_of_a_keyspace_gets_around_its_right() {
    let guarded = Guarded::start().await;
    guarded.instance.service.ensure_space("other", &Default::default()).await.unwrap();
    let here = guarded.token("here", &["take:shop-links".to_owned()]).await;
    let elsewhere = guarded.token("elsewhere", &["take:other".to_owned()]).await;
    let ask = async |token: &str, method: &str, path: &str| {
        guarded.instance.call_as(token, method, path).await
    };
    // Spelt another way it is the same keyspace, for the right and for the take.
    for (method, path) in [
        ("POST", "/v1/spaces/%73hop-links/keys"),
        ("POST", "/v1/spaces/shop%2Dlinks/keys?count=1"),
        ("GET", "/get-key?space=%73hop-links"),
        ("GET", "/get-key?%73pace=shop-links"),
    ] {
        assert_eq!(guarded.settled(&here, method, path).await.status, 200, "{path}");
        assert_eq!(ask(&elsewhere, method, path).await.status, 403, "{path}");
    }
    let before = guarded.everything().await;
    for (method, path) in [
        ("POST", "/v1/spaces/%2573hop-links/keys"),
        ("POST", "/v1/spaces/SHOP-LINKS/keys"),
        ("POST", "/v1/spaces/other/../shop-links/keys"),
        ("POST", "/v1/spaces/other%2F..%2Fshop-links/keys"),
        ("POST", "/v1/spaces/other/keys/../../shop-links/keys"),
        ("POST", "/v1/spaces/other/shop-links/keys"),
        ("POST", "/v1/spaces/other;shop-links/keys"),
        ("POST", "/v1/spaces//shop-links/keys"),
        ("POST", "/v1/spaces/other%00shop-links/keys"),
        ("POST", "//v1/spaces/shop-links/keys"),
        ("POST", "/v1/%73paces/shop-links/keys"),
        ("POST", "/V1/spaces/shop-links/keys"),
        ("POST", "/v1/spaces/shop-links/%6beys"),
        ("POST", "/v1/spaces/shop-links/keys/"),
        ("GET", "/get-key?space=other&space=shop-links"),
        ("GET", "/get-key?space=shop-links&space=other"),
        ("GET", "/get-key?space=other%26space=shop-links"),
        ("GET", "/get-key?Space=shop-links"),
        ("GET", "/get-key/?space=shop-links"),
        ("HEAD", "/get-key?space=shop-links"),
        ("POST", "/get-key?space=shop-links"),
        ("get", "/get-key?space=shop-links"),
    ] {
        let status = ask(&elsewhere, method, path).await.status;
        assert!((400..500).contains(&status), "{method} {path}: {status}");
    }
    assert_eq!(guarded.everything().await, before, "something was taken or changed");
}

#[tokio::test]
async fn the_keyspace_that_get_key_takes_from_by_itself_has_its_right_too() {
    let guarded = Guarded::start().await;
    let default = guarded.token("default", &["take:default".to_owned()]).await;
    let links = guarded.token("links", &["take:shop-links".to_owned()]).await;
    let get_key = async |token: &str| guarded.settled(token, "GET", "/get-key").await.status;
    assert_eq!((get_key(&default).await, get_key(&links).await), (200, 403));
}

#[tokio::test]
async fn a_token_is_taken_from_its_header_alone() {
    let guarded = Guarded::start().await;
    let admin = &guarded.admin;
    let path = "/v1/spaces/shop-links";
    for (headers, status) in [
        (format!("authorization: Bearer {admin}\r\n"), 200),
        (format!("Authorization:   bEaReR   {admin}  \r\n"), 200),
        (format!("authorization: Bearer {admin}\r\nauthorization: Bearer {admin}\r\n"), 401),
        (format!("authorization: {admin}\r\n"), 401),
        (format!("authorization: Basic {admin}\r\n"), 401),
        (format!("authorization: Bearer{admin}\r\n"), 401),
        (format!("authorization: Bearer {admin},{admin}\r\n"), 401),
        ("authorization: Bearer\r\n".to_owned(), 401),
        ("authorization: \r\n".to_owned(), 401),
        (format!("x-api-key: {admin}\r\ncookie: token={admin}\r\n"), 401),
        (
            format!("x-authorization: Bearer {admin}\r\nproxy-authorization: Bearer {admin}\r\n"),
            401,
        ),
    ] {
        let answer = guarded.instance.send("GET", path, &headers, "").await;
        assert_eq!(answer.status, status, "{headers}: {}", answer.body);
    }
    for name in ["token", "access_token", "authorization"] {
        let path = format!("{path}?{name}={admin}");
        guarded.instance.call("GET", &path).await.is_problem(401, "unauthorized", "token");
    }
}

#[tokio::test]
async fn what_is_wrong_with_an_instance_is_told_to_those_who_may_read() {
    let guarded = Guarded::start().await;
    let links = guarded.token("links", &["read:shop-links".to_owned()]).await;
    let all = guarded.token("all", &["read:*".to_owned()]).await;
    // A pool that is empty is a problem once somebody has asked for its keys.
    let take = guarded.settled(&guarded.admin, "POST", "/v1/spaces/shop-pool/keys").await;
    take.is_problem(409, "exhausted", "");
    let told = async |headers: &str| {
        let ready = guarded.instance.send("GET", "/readyz", headers, "").await;
        assert_eq!(ready.status, 200, "{}", ready.body);
        ready.body.contains("shop-pool")
    };
    assert!(told(&bearer(&all)).await && told(&bearer(&guarded.admin)).await);
    assert!(!told("").await && !told(&bearer(&links)).await);
}

impl Guarded {
    /// A request of a row, its body labelled as what it is.
    async fn send(&self, row: &Row, path: &str, headers: &str) -> Answer {
        let method = if row.0 == "ANY" { "GET" } else { row.0 };
        let kind = match row.3 {
            "" => String::new(),
            body if body.starts_with('{') => "content-type: application/json\r\n".to_owned(),
            _ => "content-type: text/plain\r\n".to_owned(),
        };
        self.instance.send(method, path, &format!("{headers}{kind}"), row.3).await
    }
}

fn rows_with(is_it: impl Fn(Needs) -> bool) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| is_it(row.4))
}

/// The request of a row for a keyspace, or a token, that does not exist.
fn nowhere(row: &Row) -> String {
    row.2.replace("shop-", "nowhere-").replace("victim", "nobody")
}

/// What an answer tells: all of it but the name of the request, the time, and the keyspace that was asked for.
fn told(answer: &Answer) -> (Vec<String>, Value) {
    let varies = ["date:", "x-request-id:", "content-length:"];
    let lines = answer.head.lines().filter(|line| !varies.iter().any(|it| line.starts_with(it)));
    let mut body = answer.json();
    assert!(body.as_object_mut().unwrap().remove("request_id").is_some());
    body["detail"] =
        body["detail"].as_str().unwrap_or_default().replace("nowhere-", "shop-").into();
    (lines.map(str::to_owned).collect(), body)
}

/// The routes in the source of the router: methods and paths.
fn routes_in(source: &str) -> BTreeSet<(String, String)> {
    let (_, source) = source.split_once("Router::new()").expect("there is a router");
    let (source, _) = source.split_once(".fallback(").expect("the routes end with a fallback");
    let mut routes = BTreeSet::new();
    for route in source.split(".route(").skip(1) {
        let path = route.split('"').nth(1).expect("a route has a path");
        let handlers = route.rsplit_once('"').expect("it ended").1;
        for method in ["get", "put", "post", "delete", "patch", "any"] {
            if handlers.contains(&format!(" {method}("))
                || handlers.contains(&format!(".{method}("))
            {
                routes.insert((method.to_uppercase(), path.to_owned()));
            }
        }
    }
    routes
}
