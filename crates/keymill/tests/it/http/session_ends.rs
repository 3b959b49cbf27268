//! When a session of a browser ends: with its token, with the text of it that was shown, and after twelve hours.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use keymill::access::{AccessSettings, secret_text};
use keymill::server::ServerLimits;
use keymill_engine::clock::{Clock, ClockHand};
use keymill_engine::operations::{TokenRecord, TokenSecret};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::sessions::{OWN, cookie_of, sign_in, who};
use super::{Answer, Instance, eventually};

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

/// An attribute of that cookie.
fn attribute<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let set = answer.header("set-cookie").expect("it sets a cookie");
    let mut attributes = set.split("; ").filter_map(|it| it.split_once('='));
    attributes.find(|(found, _)| *found == name).expect("it has the attribute").1
}
