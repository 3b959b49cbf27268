//! Sessions of browsers: a page signs in with a token, and its cookie stands for the token from then on.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use keymill::access::limits::AddressLimits;
use keymill::access::rights::Grants;
use keymill::access::{AccessSettings, secret_text};
use keymill::front::addresses::AddressRules;
use keymill::front::http::BrowserRules;
use keymill::server::ServerLimits;
use keymill_engine::clock::{Clock, ClockHand};
use keymill_engine::operations::{TokenRecord, TokenSecret};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::rights::Guarded;
use super::{Answer, Instance, over_http2};

/// How a page of the server itself sends a request, in a browser of today and in an older one.
const OWN: &str = "sec-fetch-site: same-origin\r\n";
const OWN_OLD: &str = "origin: http://localhost\r\n";

#[tokio::test]
async fn a_page_signs_in_asks_who_it_is_and_signs_out() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:links", "read:*"]});
    let shop = instance.token_by(&admin, &ask).await;
    let nobody = json!({"needs_token": true, "token": null, "allow": [], "expires_at": null});
    assert_eq!(instance.send("GET", "/v1/session", OWN, "").await.json(), nobody);
    let signed_in = sign_in(&instance, &shop, OWN).await;
    let told = signed_in.json();
    assert_eq!((&told["needs_token"], &told["token"]), (&json!(true), &json!("shop")), "{told}");
    assert_eq!(told["allow"], json!(["take:links", "read:*"]));
    let end: Timestamp = told["expires_at"].as_str().unwrap().parse().unwrap();
    let lasts = end.duration_since(Timestamp::now());
    assert!(lasts <= SignedDuration::from_hours(12), "{lasts}");
    assert!(lasts > SignedDuration::from_hours(12) - SignedDuration::from_mins(1), "{lasts}");
    let set = signed_in.header("set-cookie").unwrap();
    let (value, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "path=/; max-age=43200; httponly; samesite=strict");
    assert!(value.starts_with("keymill-session="), "{value}");
    assert!(!value.contains(&shop[4..12].to_lowercase()), "the cookie is not the token");
    assert_eq!(signed_in.header("cache-control"), Some("no-store"));
    let cookie = cookie_of(&signed_in);
    for own in [OWN, OWN_OLD, ""] {
        let seen = instance.send("GET", "/v1/session", &format!("{cookie}{own}"), "").await;
        assert_eq!(seen.json(), told, "{own}");
        assert_eq!(seen.header("cache-control"), Some("no-store"));
        let read = instance.send("GET", "/v1/spaces", &format!("{cookie}{own}"), "").await;
        assert_eq!(read.status, 200, "{}", read.body);
        // What it may not do is refused like with the token itself.
        let refused = instance.send("GET", "/v1/tokens", &format!("{cookie}{own}"), "").await;
        refused.is_problem(403, "forbidden", "`admin` for all keyspaces");
    }
    let out = instance.send("DELETE", "/v1/session", &format!("{cookie}{OWN}"), "").await;
    assert_eq!((out.status, out.body.as_str()), (204, ""));
    let cleared = out.header("set-cookie").unwrap();
    assert!(cleared.starts_with("keymill-session=; path=/; max-age=0; httponly"), "{cleared}");
    for (method, body) in [("PUT", "{}"), ("PATCH", "{}")] {
        let wrong = instance.send(method, "/v1/session", OWN, body).await;
        wrong.is_problem(405, "method_not_allowed", "");
    }
}

#[tokio::test]
async fn without_tokens_there_is_nothing_to_sign_in_to() {
    let instance = Instance::start().await;
    let all = json!({
        "needs_token": false, "token": null, "allow": ["admin:*"], "expires_at": null,
    });
    assert_eq!(instance.call("GET", "/v1/session").await.json(), all);
    let text = secret_text::make().unwrap().to_string();
    let body = json!({"token": text}).to_string();
    let answer = instance.send("POST", "/v1/session", OWN, &body).await;
    assert_eq!((answer.status, answer.json()), (200, all));
    assert_eq!(answer.header("set-cookie"), None);
}

#[tokio::test]
async fn nobody_signs_in_with_what_is_no_valid_token() {
    let guarded = Guarded::start().await;
    for (why, headers) in guarded.wrong_tokens().await {
        let Some(token) = headers.trim().strip_prefix("authorization: Bearer") else { continue };
        let body = json!({"token": token.trim()}).to_string();
        let refused = guarded.instance.send("POST", "/v1/session", OWN, &body).await;
        refused.is_problem(401, "unauthorized", "token");
        assert_eq!(refused.header("set-cookie"), None, "{why}");
    }
    for body in ["{}", r#"{"token":7}"#, r#"{"token":"x","y":1}"#, "[]", ""] {
        let refused = guarded.instance.send("POST", "/v1/session", OWN, body).await;
        refused.is_problem(400, "bad_body", "");
    }
    let body = json!({"token": guarded.admin}).to_string();
    for foreign in [
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\norigin: http://localhost:9090\r\n",
        "origin: https://evil.example\r\n",
    ] {
        let refused = guarded.instance.send("POST", "/v1/session", foreign, &body).await;
        refused.is_problem(403, "foreign_origin", "");
        let refused = guarded.instance.send("DELETE", "/v1/session", foreign, "").await;
        refused.is_problem(403, "foreign_origin", "");
    }
    let rebound =
        format!("GET /v1/session HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n{OWN}\r\n");
    guarded.instance.ask(&rebound).await.is_problem(403, "foreign_host", "evil.example");
}

#[tokio::test]
async fn tokens_are_guessed_no_faster_here_than_requests_come_without_one() {
    let instance = Instance::start().await;
    instance.admin().await;
    let address_limits = NonZeroU32::new(3).map(|rate| Arc::new(AddressLimits::new(rate)));
    instance.http.set_access(AccessSettings { address_limits, ..Default::default() });
    let body = json!({"token": "km_guess"}).to_string();
    for _ in 0..10_000 {
        let refused = instance.send("POST", "/v1/session", OWN, &body).await;
        if refused.status == 429 {
            return refused.is_problem(429, "rate_limited", "more than 3 a second");
        }
        refused.is_problem(401, "unauthorized", "");
    }
    panic!("guesses are never refused");
}

#[tokio::test]
async fn every_instance_of_a_store_accepts_a_session_and_ends_it_with_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("keymill.db").display());
    let start = async || Instance::start_on(Some(store.clone()), ServerLimits::default()).await;
    let (first, second) = (start().await, start().await);
    let admin = first.admin().await;
    let shop = first.token_by(&admin, &json!({"name": "shop", "allow": ["read:*"]})).await;
    let cookie = cookie_of(&sign_in(&first, &shop, OWN).await);
    // It knows of no token at all: what it is shown makes it look.
    let told = who(&second, &format!("authorization: Bearer {admin}\r\n")).await;
    assert_eq!(told["needs_token"], json!(true), "{told}");
    let later = first.token_by(&admin, &json!({"name": "later", "allow": ["read:*"]})).await;
    let later = cookie_of(&sign_in(&first, &later, OWN).await);
    for (cookie, name) in [(&cookie, "shop"), (&later, "later")] {
        eventually("the token is known there", async || {
            who(&second, &format!("{cookie}{OWN}")).await["token"] == json!(name)
        })
        .await;
        let read = second.send("GET", "/v1/spaces", &format!("{cookie}{OWN}"), "").await;
        assert_eq!(read.status, 200, "{}", read.body);
    }
    assert_eq!(first.call_as(&admin, "DELETE", "/v1/tokens/shop").await.status, 204);
    let read = async |instance: &Instance| {
        instance.send("GET", "/v1/spaces", &format!("{cookie}{OWN}"), "").await
    };
    read(&first).await.is_problem(401, "unauthorized", "sign in again");
    // The other one has read the list some time ago. An unknown token makes it read again, and so does its heartbeat.
    eventually("the other instance has learnt of it", async || {
        let unknown = secret_text::make().unwrap().to_string();
        second.call_as(&unknown, "GET", "/v1/spaces").await;
        read(&second).await.status == 401
    })
    .await;
    assert_eq!(who(&second, &format!("{cookie}{OWN}")).await["token"], Value::Null);
    assert_eq!(who(&second, &format!("{later}{OWN}")).await["token"], json!("later"));
    // One of another store, with tokens of its own, does not.
    let other = Instance::start().await;
    other.admin().await;
    let refused = other.send("GET", "/v1/spaces", &format!("{later}{OWN}"), "").await;
    refused.is_problem(401, "unauthorized", "sign in again");
}

/// A page asks for many things at once, and a load balancer spreads them.
#[tokio::test]
async fn a_session_that_is_new_to_an_instance_counts_for_all_requests_that_come_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("keymill.db").display());
    let start = async || Instance::start_on(Some(store.clone()), ServerLimits::default()).await;
    let (first, second) = (start().await, start().await);
    let admin = first.admin().await;
    // From here on the second one knows that there are tokens.
    assert_eq!(second.call_as(&admin, "GET", "/v1/spaces").await.status, 200);
    for round in 0..3 {
        // Longer than the list is not read again for the sake of unknown tokens.
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        let body = json!({"name": format!("shop-{round}"), "allow": ["read:*"]});
        let shop = first.token_by(&admin, &body).await;
        let headers = format!("{}{OWN}", cookie_of(&sign_in(&first, &shop, OWN).await));
        let ask = || second.send("GET", "/v1/spaces", &headers, "");
        let (a, b, c, d, e, f) = tokio::join!(ask(), ask(), ask(), ask(), ask(), ask());
        let statuses = [a, b, c, d, e, f].map(|answer| answer.status);
        assert_eq!(statuses, [200; 6], "in round {round}");
    }
}

#[tokio::test]
async fn a_session_ends_with_the_text_of_the_token_that_was_shown() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let make =
        async || instance.token_by(&admin, &json!({"name": "shop", "allow": ["read:*"]})).await;
    let read = async |cookie: &str| {
        instance.send("GET", "/v1/spaces", &format!("{cookie}{OWN}"), "").await.status
    };
    let old = make().await;
    let first = cookie_of(&sign_in(&instance, &old, OWN).await);
    // While both texts are valid, so are both sessions, the older one until the old text ends.
    let rotate = async |seconds: u32| {
        let body = json!({"overlap_seconds": seconds}).to_string();
        let made =
            instance.send_as(&admin, "POST", "/v1/tokens/shop/rotate", "", &body).await.json();
        made["token"].as_str().unwrap().to_owned()
    };
    let new = rotate(600).await;
    let second = cookie_of(&sign_in(&instance, &new, OWN).await);
    assert_eq!((read(&first).await, read(&second).await), (200, 200));
    let third = sign_in(&instance, &old, OWN).await;
    let seconds: u32 = attribute(&third, "max-age").parse().unwrap();
    assert!((590..=600).contains(&seconds), "it ends with the old text: {seconds}");
    let newest = rotate(0).await;
    assert_eq!((read(&first).await, read(&second).await), (401, 401));
    assert_eq!(read(&cookie_of(&third)).await, 401);
    let fourth = cookie_of(&sign_in(&instance, &newest, OWN).await);
    assert_eq!(read(&fourth).await, 200);
    assert_eq!(instance.call_as(&admin, "DELETE", "/v1/tokens/shop").await.status, 204);
    assert_eq!(read(&fourth).await, 401);
    // Another token by the same name is another one.
    let recreated = make().await;
    assert_eq!((read(&fourth).await, read(&first).await), (401, 401));
    assert_eq!(read(&cookie_of(&sign_in(&instance, &recreated, OWN).await)).await, 200);
}

#[tokio::test]
async fn tokens_of_the_settings_have_sessions_for_as_long_as_they_are_set() {
    let instance = Instance::start().await;
    let text = secret_text::make().unwrap().to_string();
    let hash = secret_text::hash(text.as_bytes()).unwrap();
    let ends = Timestamp::now() + SignedDuration::from_mins(10);
    let token = TokenRecord {
        name: "mall".to_owned(),
        secrets: vec![TokenSecret { sha256: hex::encode(hash), until: None }],
        allow: vec!["read:*".to_owned()],
        expires_at: Some(ends),
        rate: None,
        quota: None,
        certificate: None,
        created_at: Timestamp::UNIX_EPOCH,
        created_by: "settings".to_owned(),
    };
    let set = |tokens| instance.http.set_access(AccessSettings { tokens, ..Default::default() });
    set(vec![token.clone()]);
    let signed_in = sign_in(&instance, &text, OWN).await;
    let seconds: u32 = attribute(&signed_in, "max-age").parse().unwrap();
    assert!((590..=600).contains(&seconds), "it ends with its token: {seconds}");
    let headers = format!("{}{OWN}", cookie_of(&signed_in));
    let read = async || instance.send("GET", "/v1/spaces", &headers, "").await.status;
    assert_eq!(read().await, 200);
    set(Vec::new());
    assert_eq!(read().await, 401);
    set(vec![token]);
    assert_eq!(read().await, 200);
}

#[tokio::test]
async fn a_session_ends_after_twelve_hours() {
    let hand = Arc::<ClockHand>::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (limits, clock) = (ServerLimits::default(), Clock::moved_by(&hand));
    let instance = Instance::start_by(listener.into(), None, limits, clock).await;
    let admin = instance.admin().await;
    let headers = format!("{}{OWN}", cookie_of(&sign_in(&instance, &admin, OWN).await));
    let read = async || instance.send("GET", "/v1/spaces", &headers, "").await;
    hand.advance(Duration::from_secs(12 * 3_600 - 60));
    assert_eq!(read().await.status, 200);
    hand.advance(Duration::from_secs(61));
    read().await.is_problem(401, "unauthorized", "the session has ended");
    assert_eq!(who(&instance, &headers).await["token"], Value::Null);
    let again = cookie_of(&sign_in(&instance, &admin, &headers).await);
    assert_eq!(who(&instance, &format!("{again}{OWN}")).await["token"], json!("admin"));
}

#[tokio::test]
async fn what_was_changed_or_made_up_is_no_session() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let cookie = cookie_of(&sign_in(&instance, &admin, OWN).await);
    let value = cookie.trim().strip_prefix("cookie: keymill-session=").unwrap().to_owned();
    let mut wrong = vec![
        String::new(),
        "x".to_owned(),
        admin.clone(),
        hex::encode(secret_text::hash(admin.as_bytes()).unwrap()),
        value[..value.len() - 2].to_owned(),
        format!("{value}00"),
    ];
    for at in [0, 5, 70, 80, 100, value.len() - 1] {
        let mut changed = value.clone().into_bytes();
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        wrong.push(String::from_utf8(changed).unwrap());
    }
    for value in &wrong {
        let headers = format!("cookie: keymill-session={value}\r\n{OWN}");
        for (method, path) in [("GET", "/v1/spaces"), ("POST", "/v1/spaces/default/keys")] {
            let refused = instance.send(method, path, &headers, "").await;
            refused.is_problem(401, "unauthorized", "sign in again");
        }
        let told = who(&instance, &headers).await;
        assert_eq!((&told["token"], &told["expires_at"]), (&Value::Null, &Value::Null));
        // Beside another one, it does not count.
        let both = format!("cookie: keymill-session={value}; a=b\r\n{cookie}{OWN}");
        assert_eq!(instance.send("GET", "/v1/spaces", &both, "").await.status, 200, "{value}");
    }
    // Over plain HTTP, the name that stands for TLS is not looked at.
    let headers = format!("cookie: __Host-keymill-session={value}\r\n{OWN}");
    let refused = instance.send("GET", "/v1/spaces", &headers, "").await;
    refused.is_problem(401, "unauthorized", "Authorization");
    // Who needs no token needs no session either.
    let anonymous = Grants::parse(["take:default"]).unwrap();
    instance.http.set_access(AccessSettings { anonymous, ..Default::default() });
    let headers = format!("cookie: keymill-session={}\r\n{OWN}", wrong[0]);
    settled(async || instance.send("GET", "/get-key", &headers, "").await).await;
    let refused = instance.send("GET", "/v1/spaces", &headers, "").await;
    refused.is_problem(401, "unauthorized", "sign in again");
}

#[tokio::test]
async fn a_page_of_another_origin_or_port_gets_nothing_by_the_cookie() {
    let guarded = Guarded::start().await;
    let instance = &guarded.instance;
    instance.service.ensure_space("tickets", &serial()).await.unwrap();
    let cookie = cookie_of(&sign_in(instance, &guarded.admin, OWN).await);
    let ticket = async || {
        let path = "/get-key?space=tickets";
        settled(async || instance.call_as(&guarded.admin, "GET", path).await).await
    };
    let number: u64 = ticket().await.body.parse().unwrap();
    let changeable = async || {
        let read = async |path: &str| instance.call_as(&guarded.admin, "GET", path).await.json();
        let names = read("/v1/spaces").await["spaces"].as_array().unwrap().clone();
        let names = names.into_iter().map(|space| space["name"].clone()).collect::<Vec<_>>();
        (names, read("/v1/tokens?limit=1000").await, read("/v1/acts?limit=1000").await)
    };
    let before = changeable().await;
    let allowed_origins = vec!["https://shop.example".to_owned()];
    instance.http.set_browser_rules(BrowserRules { allowed_origins, ..Default::default() });
    for (headers, status) in [
        ("sec-fetch-site: cross-site\r\norigin: https://evil.example\r\n", 403),
        ("sec-fetch-site: cross-site\r\n", 403),
        ("sec-fetch-site: same-site\r\norigin: http://localhost:9090\r\n", 403),
        ("sec-fetch-site: same-site\r\n", 403),
        ("sec-fetch-site: cross-site\r\norigin: http://localhost\r\n", 403),
        ("sec-fetch-site: \r\n", 403),
        ("origin: http://localhost:9090\r\n", 403),
        ("origin: null\r\n", 403),
        // An image, over plain HTTP, in a browser that says nothing but its name.
        ("user-agent: Mozilla/5.0 (X11; Linux x86_64)\r\n", 403),
        // These may do what callers without a token may do, which is nothing here.
        ("sec-fetch-site: none\r\n", 401),
        ("sec-fetch-site: cross-site\r\norigin: https://shop.example\r\n", 401),
        ("origin: https://shop.example\r\n", 401),
        ("", 401),
    ] {
        let headers = format!("{cookie}{headers}");
        for (method, path, body) in [
            ("GET", "/get-key?space=tickets", ""),
            ("GET", "/get-key", ""),
            ("POST", "/v1/spaces/tickets/keys", ""),
            ("POST", "/v1/spaces/tickets/keys?count=2", ""),
            ("POST", "/v1/spaces/tickets/keys", r#"{"count":2}"#),
            ("PUT", "/v1/spaces/evil", "{}"),
            ("POST", "/v1/tokens", r#"{"name":"evil","allow":["admin:*"]}"#),
            ("DELETE", "/v1/tokens/victim", ""),
        ] {
            let refused = instance.send(method, path, &headers, body).await;
            assert_eq!(refused.status, status, "{method} {path} {headers}: {}", refused.body);
        }
        if headers.contains("sec-fetch-site") || headers.contains("origin: ") {
            let read = instance.send("GET", "/v1/tokens", &headers, "").await;
            read.is_problem(401, "unauthorized", "needs a token");
            assert_eq!(who(instance, &headers).await["token"], Value::Null, "{headers}");
        }
    }
    // By a name that was made to lead here.
    let rebound = format!(
        "GET /v1/tokens HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n{cookie}{OWN}\r\n"
    );
    instance.ask(&rebound).await.is_problem(403, "foreign_host", "");
    // What a browser asks for in advance.
    for headers in [OWN, OWN_OLD] {
        let headers = format!("{cookie}{headers}sec-purpose: prefetch\r\n");
        let refused = instance.send("GET", "/get-key?space=tickets", &headers, "").await;
        refused.is_problem(403, "prefetch", "");
    }
    assert_eq!(ticket().await.body, (number + 1).to_string(), "a key was taken in between");
    assert_eq!(changeable().await, before, "something was changed");
}

#[tokio::test]
async fn a_session_takes_and_changes_like_its_token_and_in_its_name() {
    let instance = Instance::start().await;
    instance.put("noted", &json!({"audit": "key"})).await;
    let admin = instance.admin().await;
    let ask = json!({"name": "till", "allow": ["take:*", "name:*"], "quota": 5});
    let till = instance.token_by(&admin, &ask).await;
    let root = format!("{}{OWN_OLD}", cookie_of(&sign_in(&instance, &admin, OWN_OLD).await));
    let cookie = cookie_of(&sign_in(&instance, &till, OWN).await);
    // At once and routed, over HTTP/1 and over HTTP/2.
    for (own, path) in [
        (OWN, "/v1/spaces/noted/keys"),
        (OWN_OLD, "/v1/spaces/noted/keys"),
        (OWN, "/v1/spaces/noted/keys?count=1"),
    ] {
        let headers = format!("{cookie}{own}");
        settled(async || instance.send("POST", path, &headers, "").await).await;
    }
    let value = cookie.trim().strip_prefix("cookie: ").unwrap();
    let take = ("POST", "/v1/spaces/noted/keys", "localhost");
    let headers = [("cookie", "a=b"), ("cookie", value), ("sec-fetch-site", "same-origin")];
    let taken = over_http2::ask(instance.address, take, &headers).await;
    assert!(taken.contains("\"keys\":["), "{taken}");
    let headers = [("cookie", value), ("sec-fetch-site", "same-site")];
    let refused = over_http2::ask(instance.address, take, &headers).await;
    assert!(refused.contains("\"foreign_origin\""), "{refused}");
    let headers = [("cookie", value), ("sec-fetch-site", "none")];
    let refused = over_http2::ask(instance.address, take, &headers).await;
    assert!(refused.contains("\"unauthorized\""), "{refused}");
    // The quota is that of the token.
    let own = format!("{cookie}{OWN}");
    let beyond = instance.send("POST", "/v1/spaces/noted/keys?count=2", &own, "").await;
    beyond.is_problem(429, "rate_limited", "1 of the 5 keys of this token are left");
    let last = instance.call_as(&till, "POST", "/v1/spaces/noted/keys").await;
    assert_eq!(last.status, 200, "{}", last.body);
    let used = instance.send("GET", "/v1/spaces/noted/used", &root, "").await.json();
    let callers: Vec<&Value> =
        used["used"].as_array().unwrap().iter().map(|used| &used["caller"]).collect();
    assert_eq!(callers, [&json!("till"); 5], "{used}");
    let put = instance.send("PUT", "/v1/spaces/made", &root, "{}").await;
    assert_eq!(put.status, 201, "{}", put.body);
    let acts = instance.send("GET", "/v1/acts", &root, "").await.json();
    let last = acts["acts"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["by"], &last["what"]), (&json!("admin"), &json!("PUT /v1/spaces/made")));
    // `/readyz` tells it what it tells the token.
    let made = instance.send("PUT", "/v1/spaces/coupons", &root, r#"{"kind":"pooled"}"#).await;
    assert_eq!(made.status, 201, "{}", made.body);
    instance.send("POST", "/v1/spaces/coupons/keys", &root, "").await;
    let told = async |headers: &str| {
        instance.send("GET", "/readyz", headers, "").await.body.contains("coupons")
    };
    assert!(told(&root).await && !told("").await && !told(&own).await);
}

#[tokio::test]
async fn a_token_that_is_sent_counts_and_not_the_cookie() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let shop = instance.token_by(&admin, &json!({"name": "shop", "allow": ["take:x"]})).await;
    let own = format!("{}{OWN}", cookie_of(&sign_in(&instance, &admin, OWN).await));
    let read = async |headers: &str| {
        instance.send("GET", "/v1/tokens", &format!("{own}{headers}"), "").await
    };
    assert_eq!(read("").await.status, 200);
    let bearer = |token: &str| format!("authorization: Bearer {token}\r\n");
    read(&bearer(&shop)).await.is_problem(403, "forbidden", "");
    let unknown = secret_text::make().unwrap().to_string();
    let basic = "authorization: Basic YTpi\r\n".to_owned();
    for wrong in &[bearer(&unknown), bearer(""), basic] {
        read(wrong).await.is_problem(401, "unauthorized", "");
        let told = who(&instance, &format!("{own}{wrong}")).await;
        assert_eq!((&told["token"], &told["expires_at"]), (&Value::Null, &Value::Null), "{wrong}");
    }
    let told = who(&instance, &format!("{own}{}", bearer(&shop))).await;
    assert_eq!((&told["token"], &told["expires_at"]), (&json!("shop"), &Value::Null), "{told}");
}

#[tokio::test]
async fn a_trusted_proxy_says_whether_the_browser_uses_tls() {
    let instance = Instance::start().await;
    let admin = instance.admin().await;
    let https = format!("{OWN}x-forwarded-proto: https\r\n");
    let name = |answer: &Answer| {
        answer.header("set-cookie").unwrap().split_once('=').unwrap().0.to_owned()
    };
    let untrusted = sign_in(&instance, &admin, &https).await;
    assert_eq!(name(&untrusted), "keymill-session");
    let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    instance.http.set_address_rules(AddressRules { trusted_proxies, ..AddressRules::default() });
    let secure = sign_in(&instance, &admin, &https).await;
    assert_eq!(name(&secure), "__host-keymill-session");
    assert!(secure.header("set-cookie").unwrap().ends_with("; samesite=strict; secure"));
    let value = secure.header("set-cookie").unwrap().split(['=', ';']).nth(1).unwrap();
    let cookie = format!("cookie: __Host-keymill-session={value}\r\n");
    let read = async |headers: &str| instance.send("GET", "/v1/spaces", headers, "").await.status;
    assert_eq!(read(&format!("{cookie}{https}")).await, 200);
    assert_eq!(read(&format!("{cookie}{OWN}x-forwarded-proto: http\r\n")).await, 401);
    assert_eq!(read(&format!("{cookie}{OWN}")).await, 401);
    let plain = format!("cookie: keymill-session={value}\r\n{https}");
    assert_eq!(read(&plain).await, 401, "another host or port may have planted it");
    // A page of the same host over plain HTTP is another one.
    let put = async |origin: &str| {
        let headers = format!("{cookie}x-forwarded-proto: https\r\norigin: {origin}\r\n");
        instance.send("PUT", "/v1/spaces/default", &headers, "{}").await.status
    };
    assert_eq!((put("https://localhost").await, put("http://localhost").await), (200, 401));
}

/// Signs in; the answer has the cookie.
#[track_caller]
pub(crate) fn sign_in(
    instance: &Instance,
    token: &str,
    headers: &str,
) -> impl Future<Output = Answer> {
    let body = json!({"token": token}).to_string();
    async move {
        let answer = instance.send("POST", "/v1/session", headers, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer
    }
}

/// The header by which a browser shows the cookie that an answer sets.
pub(crate) fn cookie_of(answer: &Answer) -> String {
    let set = answer.header("set-cookie").expect("it sets a cookie");
    format!("cookie: {}\r\n", set.split(';').next().unwrap())
}

/// An attribute of that cookie.
fn attribute<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let set = answer.header("set-cookie").expect("it sets a cookie");
    let mut attributes = set.split("; ").filter_map(|it| it.split_once('='));
    attributes.find(|(found, _)| *found == name).expect("it has the attribute").1
}

async fn who(instance: &Instance, headers: &str) -> Value {
    let answer = instance.send("GET", "/v1/session", headers, "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

/// Asks until keys are there: a first take may take longer than it waits.
async fn settled(ask: impl AsyncFn() -> Answer) -> Answer {
    for _ in 0..200 {
        let answer = ask().await;
        if answer.status != 503 {
            assert_eq!(answer.status, 200, "{}", answer.body);
            return answer;
        }
    }
    panic!("there are never any keys");
}

async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited).await.expect(what);
}

/// A keyspace whose keys tell how many were taken.
fn serial() -> keymill_engine::space::SpaceSpec {
    serde_json::from_value(json!({"kind": "sequential", "length": 0})).unwrap()
}
