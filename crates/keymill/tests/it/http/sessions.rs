//! Sessions of browsers: a page signs in with a token, and its cookie stands for the token from then on.

use std::num::NonZeroU32;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use keymill::access::limits::AddressLimits;
use keymill::access::{AccessSettings, secret_text};
use keymill::server::ServerLimits;
use serde_json::{Value, json};

use super::guarded::Guarded;
use super::{Answer, Instance, over_http2, settled};

/// How a page of the server itself sends a request, in a browser of today and in an older one.
pub(super) const OWN: &str = "sec-fetch-site: same-origin\r\n";
pub(super) const OWN_OLD: &str = "origin: http://localhost\r\n";

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
        let taken = settled(async || instance.send("POST", path, &headers, "").await).await;
        assert_eq!(taken.status, 200, "{}", taken.body);
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

pub(super) async fn who(instance: &Instance, headers: &str) -> Value {
    let answer = instance.send("GET", "/v1/session", headers, "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}
