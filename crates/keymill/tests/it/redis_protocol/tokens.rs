//! Tokens over the Redis protocol: how they are shown, and how long they hold.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use keymill::access::rights::Grants;
use keymill::access::{AccessSettings, secret_text};
use keymill_engine::operations::{TokenRecord, TokenSecret};
use serde_json::json;

use super::{Server, Value};

#[tokio::test]
async fn a_token_is_shown_with_auth_or_hello_under_its_own_name_or_the_usual_one() {
    let server = Server::start().await;
    let admin = server.instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:*"]});
    let shop = server.instance.token_by(&admin, &ask).await;
    let shop = shop.as_str();
    let unknown = secret_text::make().unwrap().to_string();
    let last = if shop.ends_with('x') { 'y' } else { 'x' };
    let mistyped = format!("{}{last}", &shop[..shop.len() - 1]);
    for (parts, is_accepted) in [
        (vec!["AUTH", shop], true),
        (vec!["AUTH", "default", shop], true),
        (vec!["AUTH", "shop", shop], true),
        (vec!["AUTH", "", shop], true),
        (vec!["HELLO", "2", "AUTH", "default", shop], true),
        (vec!["HELLO", "3", "AUTH", "shop", shop, "SETNAME", "x"], true),
        (vec!["HELLO", "3", "SETNAME", "x", "AUTH", "default", shop], true),
        (vec!["AUTH", "admin", shop], false),
        (vec!["AUTH", "Shop", shop], false),
        (vec!["AUTH", shop, "default"], false),
        (vec!["AUTH", &unknown], false),
        (vec!["AUTH", &mistyped], false),
        (vec!["AUTH", ""], false),
        (vec!["AUTH", "default", ""], false),
        (vec!["AUTH", "letmein"], false),
        (vec!["HELLO", "3", "AUTH", "default", &unknown], false),
        (vec!["HELLO", "3", "AUTH", "other", shop], false),
    ] {
        let mut client = server.connect().await;
        let answer = client.ask(&parts).await;
        let taken = client.settled(&["SPOP", "default"]).await;
        if is_accepted {
            assert!(!matches!(answer, Value::Error(_)), "{parts:?}: {answer:?}");
            assert_eq!(taken.keys().len(), 1, "{parts:?}");
        } else {
            answer.is_error("WRONGPASS ");
            taken.is_error("NOAUTH Authentication required");
        }
    }
}

#[tokio::test]
async fn a_wrong_token_leaves_the_one_before_and_a_reset_leaves_none() {
    let server = Server::start().await;
    let admin = server.instance.admin().await;
    let mut client = server.connect_as(&admin).await;
    client.ask(&["AUTH", "nonsense"]).await.is_error("WRONGPASS ");
    assert_eq!(client.ask(&["PING"]).await, Value::word("PONG"));
    let Value::Bulk(line) = client.ask(&["CLIENT", "INFO"]).await else { panic!("a line") };
    assert!(line.contains(" user=admin"), "{line}");
    assert_eq!(client.ask(&["RESET"]).await, Value::word("RESET"));
    client.ask(&["PING"]).await.is_error("NOAUTH ");
}

#[tokio::test]
async fn a_revocation_holds_on_open_connections_and_for_the_rest_of_a_pipeline_after_a_wait() {
    let server = Server::start().await;
    let admin = server.instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:*"]});
    let shop = server.instance.token_by(&admin, &ask).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect_as(&shop).await;
        client.settled(&["SPOP", "default"]).await;
        clients.push(client);
    }
    let revoked = server.instance.call_as(&admin, "DELETE", "/v1/tokens/shop").await;
    assert_eq!(revoked.status, 204, "{}", revoked.body);
    for mut client in clients {
        let refusal = client.ask(&["SPOP", "default"]).await;
        refusal.is_error("NOAUTH the token is no longer valid");
        // Another token is as good as any.
        assert_eq!(client.ask(&["AUTH", &admin]).await, Value::word("OK"));
        assert_eq!(client.settled(&["SPOP", "default"]).await.keys().len(), 1);
    }
}

#[tokio::test]
async fn a_token_that_expires_while_it_is_used_is_refused_from_then_on() {
    let server = Server::start().await;
    let admin = server.instance.admin().await;
    let text = put_on_record(&server, Some(Timestamp::now() + SignedDuration::from_secs(3))).await;
    // So that this instance has learnt of it.
    server.instance.token_by(&admin, &json!({"name": "last", "allow": ["take:x"]})).await;
    let mut client = server.connect_as(&text).await;
    let refused = async {
        loop {
            match client.ask(&["SPOP", "default"]).await {
                Value::Error(error) if error.starts_with("NOAUTH ") => return,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), refused).await.expect("it expires");
}

#[tokio::test]
async fn a_token_that_was_just_made_elsewhere_becomes_known() {
    let server = Server::start().await;
    server.instance.admin().await;
    let text = put_on_record(&server, None).await;
    let mut client = server.connect().await;
    // Unknown tokens have the list read again once a second, and the first may have been a moment ago.
    let known = async {
        while client.ask(&["AUTH", &text]).await != Value::word("OK") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), known).await.expect("it is known");
}

#[tokio::test]
async fn the_first_token_closes_the_door_on_open_connections() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.settled(&["SPOP", "default"]).await;
    let admin = server.instance.admin().await;
    client.ask(&["SPOP", "default"]).await.is_error("NOAUTH Authentication required");
    client.ask(&["HELLO", "3"]).await.is_error("NOAUTH ");
    assert!(matches!(client.ask(&["HELLO", "3", "AUTH", "x", &admin]).await, Value::Error(_)));
    assert_eq!(client.ask(&["AUTH", &admin]).await, Value::word("OK"));
    assert_eq!(client.settled(&["SPOP", "default"]).await.keys().len(), 1);
}

#[tokio::test]
async fn callers_without_a_token_may_do_what_the_settings_allow_them() {
    let server = Server::start().await;
    server.instance.put("links", &json!({})).await;
    server.instance.admin().await;
    let anonymous = Grants::parse(["take:links"]).unwrap();
    server.instance.http.set_access(AccessSettings { anonymous, ..Default::default() });
    let mut client = server.connect3().await;
    assert_eq!(client.settled(&["SPOP", "links"]).await.keys().len(), 1);
    assert_eq!(client.ask(&["PING"]).await, Value::word("PONG"));
    client.ask(&["SPOP", "default"]).await.is_error("NOAUTH ");
    client.ask(&["SCARD", "links"]).await.is_error("NOAUTH ");
}

#[tokio::test]
async fn the_name_of_a_token_is_the_caller_of_its_keys() {
    let server = Server::start().await;
    server.instance.put("noted", &json!({"audit": "key"})).await;
    let admin = server.instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:*"]});
    let shop = server.instance.token_by(&admin, &ask).await;
    let mut client = server.connect_as(&shop).await;
    let first = client.settled(&["SPOP", "noted"]).await.keys()[0].clone();
    client.ask(&["CLIENT", "SETNAME", "till-3"]).await;
    let second = client.settled(&["SPOP", "noted"]).await.keys()[0].clone();
    for (caller, key) in [("shop", first), ("shop/till-3", second)] {
        let path = format!("/v1/spaces/noted/used?caller={caller}");
        let used = server.instance.call_as(&admin, "GET", &path).await.json();
        assert_eq!(used["used"][0]["key"], key.as_str(), "{used}");
    }
}

/// Puts a token on record as another instance would; its text.
async fn put_on_record(server: &Server, expires_at: Option<Timestamp>) -> String {
    let text = secret_text::make().unwrap().to_string();
    let hash = secret_text::hash(text.as_bytes()).unwrap();
    let record = TokenRecord {
        name: "elsewhere".to_owned(),
        secrets: vec![TokenSecret { sha256: hex::encode(hash), until: None }],
        allow: vec!["take:*".to_owned()],
        expires_at,
        rate: None,
        quota: None,
        certificate: None,
        created_at: Timestamp::now(),
        created_by: "test".to_owned(),
    };
    let add = |tokens: &mut Vec<TokenRecord>| {
        tokens.push(record.clone());
        Ok(())
    };
    server.instance.service.change_tokens(add).await.unwrap();
    text
}
