//! Whom a browser shows the cookie of a session for: pages of the server itself, and no other.

use keymill::access::rights::Grants;
use keymill::access::{AccessSettings, secret_text};
use keymill::front::addresses::AddressRules;
use keymill::front::http::BrowserRules;
use serde_json::{Value, json};

use super::guarded::Guarded;
use super::sessions::{OWN, OWN_OLD, cookie_of, sign_in, who};
use super::{Answer, Instance, settled};

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
    let taken = settled(async || instance.send("GET", "/get-key", &headers, "").await).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
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

/// A keyspace whose keys tell how many were taken.
fn serial() -> keymill_engine::space::SpaceSpec {
    serde_json::from_value(json!({"kind": "sequential", "length": 0})).unwrap()
}
