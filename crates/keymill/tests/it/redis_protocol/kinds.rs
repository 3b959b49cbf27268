//! Every kind of keyspace, as a set from which keys are popped.

use std::collections::HashSet;

use serde_json::{Value as Json, json};

use super::cases::tickets;
use super::{Server, Value};

/// Name, settings, and whether its keys are integers.
fn kinds() -> Vec<(&'static str, Json, bool)> {
    vec![
        ("shuffled", json!({}), false),
        ("orders", json!({"prefix": "ord_", "length": 8, "group": 4, "check": true}), false),
        ("sequential", json!({"kind": "sequential"}), false),
        ("tickets", tickets(), true),
        ("digits", json!({"kind": "sequential", "alphabet": "decimal", "length": 9}), false),
        (
            "checked",
            json!({"kind": "sequential", "alphabet": "decimal", "length": 0, "check": true}),
            false,
        ),
        ("snowflake", json!({"kind": "snowflake"}), true),
        ("short-ids", json!({"kind": "snowflake", "alphabet": "base62"}), false),
        ("uuid", json!({"kind": "uuid"}), false),
        ("coupons", json!({"kind": "pooled"}), false),
        ("noted", json!({"audit": "key"}), false),
    ]
}

#[tokio::test]
async fn every_kind_gives_its_keys_and_none_twice() {
    let server = Server::start().await;
    for (space, wanted, is_integer) in kinds() {
        let made = server.instance.put(space, &wanted).await;
        assert_eq!(made.status, 201, "{space}: {}", made.body);
        if space == "coupons" {
            fill(&server, space, 2_000).await;
        }
        let mut seen = HashSet::new();
        let mut all = |value: &Value| {
            for key in value.keys() {
                assert!(seen.insert(key.clone()), "{key} of {space} was handed out twice");
            }
        };
        for mut client in [server.connect().await, server.connect3().await] {
            let one = client.settled(&["SPOP", space]).await;
            assert!(matches!(one, Value::Bulk(_)), "{space}: {one:?}");
            all(&one);
            let many = client.settled(&["SPOP", space, "500"]).await;
            assert_eq!(many.keys().len(), 500, "{space}");
            all(&many);
            let incr = client.settled(&["INCR", space]).await;
            match is_integer {
                true => all(&incr),
                false => incr.is_error("WRONGTYPE the keys of"),
            }
            let kind = if is_integer { "string" } else { "set" };
            assert_eq!(client.ask(&["TYPE", space]).await, Value::word(kind), "{space}");
        }
        // What HTTP hands out is of the same keyspace.
        let path = format!("/v1/spaces/{space}/keys?count=100");
        let answer = server.instance.call("POST", &path).await.json();
        let keys = answer["keys"].as_array().unwrap();
        let keys = keys.iter().map(|key| Value::bulk(key.as_str().unwrap()));
        all(&Value::Set(keys.collect()));
    }
}

#[tokio::test]
async fn an_integer_is_the_same_as_a_string() {
    let server = Server::start().await;
    server.instance.put("ids", &json!({"kind": "snowflake"})).await;
    let mut client = server.connect().await;
    let before: i64 = client.settled(&["SPOP", "ids"]).await.keys()[0].parse().unwrap();
    let Value::Integer(between) = client.settled(&["INCR", "ids"]).await else {
        panic!("an integer")
    };
    let after: i64 = client.settled(&["SPOP", "ids"]).await.keys()[0].parse().unwrap();
    assert!(before < between && between < after, "{before} {between} {after}");
}

#[tokio::test]
async fn what_is_left_falls_with_every_key_and_ends_with_nothing() {
    let server = Server::start().await;
    let few = json!({"kind": "sequential", "alphabet": "decimal", "length": 2, "blocklist": false});
    assert_eq!(server.instance.put("few", &few).await.status, 201);
    server.instance.put("coupons", &json!({"kind": "pooled"})).await;
    fill(&server, "coupons", 100).await;
    for space in ["few", "coupons"] {
        for mut client in [server.connect().await, server.connect3().await] {
            let Value::Integer(mut left) = client.ask(&["SCARD", space]).await else {
                panic!("a number")
            };
            for _ in 0..5 {
                client.settled(&["SPOP", space]).await;
                left -= 1;
                // Keys on their way from the store to memory are counted nowhere.
                while client.ask(&["SCARD", space]).await != Value::Integer(left) {}
            }
        }
        let mut client = server.connect().await;
        let rest = client.settled(&["SPOP", space, "1000"]).await;
        assert_eq!(rest.keys().len(), 90, "{space}: all that is left");
        while client.ask(&["SCARD", space]).await != Value::Integer(0) {}
        assert_eq!(client.settled(&["SPOP", space]).await, Value::Null, "{space}");
        assert_eq!(client.settled(&["SPOP", space, "3"]).await, Value::Array(vec![]), "{space}");
        let mut client = server.connect3().await;
        assert_eq!(client.settled(&["SPOP", space]).await, Value::Null, "{space}");
        assert_eq!(client.settled(&["SPOP", space, "3"]).await, Value::Set(vec![]), "{space}");
    }
}

#[tokio::test]
async fn a_key_is_a_member_until_it_may_have_been_handed_out() {
    let server = Server::start().await;
    let instance = &server.instance;
    for (space, wanted) in [
        ("tickets", tickets()),
        ("ids", json!({"kind": "snowflake"})),
        ("uuids", json!({"kind": "uuid"})),
        ("coupons", json!({"kind": "pooled"})),
        ("urls", json!({"kind": "digest"})),
        ("sealed", tickets()),
    ] {
        assert_eq!(instance.put(space, &wanted).await.status, 201, "{space}");
    }
    fill(&server, "coupons", 500).await;
    let alias = instance.call("PUT", "/v1/spaces/tickets/aliases/777777").await;
    assert_eq!(alias.status, 201, "{}", alias.body);
    let digest = instance.send("POST", "/v1/spaces/urls/digests", "", r#"{"input":"x"}"#).await;
    let digest = digest.json()["key"].as_str().unwrap().to_owned();
    let mut client = server.connect().await;
    let mut taken = Vec::new();
    for space in ["tickets", "ids", "uuids", "coupons"] {
        taken.push((space, client.settled(&["SPOP", space]).await.keys()[0].clone()));
    }
    instance.service.seal("sealed").await.unwrap();
    let is_member = |answer| match answer {
        Value::Integer(number) => number == 1,
        other => panic!("{other:?}"),
    };
    for (space, key) in &taken {
        assert!(!is_member(client.ask(&["SISMEMBER", space, key]).await), "{key} of {space}");
    }
    for (space, key, expected) in [
        ("tickets", "888888888", true),
        ("tickets", "777777", false),
        ("tickets", "abc", false),
        ("tickets", "", false),
        ("tickets", "\u{fffd}", false),
        ("coupons", "cou0499", true),
        ("coupons", "nothere", false),
        ("ids", "9000000000000000000", true),
        ("ids", "1", false),
        ("uuids", "00000000-0000-4000-8000-000000000000", false),
        ("urls", digest.as_str(), false),
        ("sealed", "5", false),
    ] {
        let answer = client.ask(&["SISMEMBER", space, key]).await;
        assert_eq!(is_member(answer), expected, "{key} of {space}");
    }
}

#[tokio::test]
async fn the_name_of_a_client_is_recorded_with_its_keys() {
    let server = Server::start().await;
    server.instance.put("noted", &json!({"audit": "key"})).await;
    let mut client = server.connect().await;
    client.ask(&["CLIENT", "SETNAME", "checkout-7"]).await;
    let key = client.settled(&["SPOP", "noted"]).await.keys()[0].clone();
    let used = server.instance.call("GET", "/v1/spaces/noted/used?caller=checkout-7").await.json();
    assert_eq!(used["used"][0]["key"], key.as_str(), "{used}");
}

/// Puts keys into a pool: cou0000, cou0001, …
async fn fill(server: &Server, space: &str, count: u32) {
    let lines: String = (0..count).map(|number| format!("cou{number:04}\n")).collect();
    let path = format!("/v1/spaces/{space}/pool");
    let answer = server.instance.send("POST", &path, "content-type: text/plain\r\n", &lines).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}
