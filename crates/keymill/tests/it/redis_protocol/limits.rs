//! How much a token may take over the Redis protocol, and how often callers without one may ask.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use keymill::access::AccessSettings;
use keymill::access::limits::AddressLimits;
use serde_json::json;

use super::client::{Client, command};
use super::{Server, Value};

/// More than anything here takes, unless nothing is ever refused.
const TRIES: usize = 10_000;

#[tokio::test]
async fn a_token_that_takes_too_fast_is_told_when_to_come_again() {
    let server = Server::start().await;
    server.instance.put("ids", &json!({"kind": "snowflake"})).await;
    let admin = server.instance.admin().await;
    let ask = json!({"name": "slow", "allow": ["take:*"], "rate": 2});
    let slow = server.instance.token_by(&admin, &ask).await;
    for parts in [&["SPOP", "default"][..], &["SPOP", "default", "2"], &["INCR", "ids"]] {
        let mut client = server.connect_as(&slow).await;
        until_refused(&mut client, parts, "ERR rate_limited: more than 2 a second").await;
        // Others are not held back by it.
        let mut other = server.connect_as(&admin).await;
        assert!(!other.settled(parts).await.keys().is_empty());
    }
    let mut client = server.connect_as(&slow).await;
    client.ask(&["SPOP", "default", "3"]).await.is_error("ERR above_burst: ");
}

#[tokio::test]
async fn a_quota_ends_with_the_day_and_counts_what_was_taken() {
    let server = Server::start().await;
    server.instance.put("empty", &json!({"kind": "pooled"})).await;
    server.warm("default").await;
    let admin = server.instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:*"], "quota": 5});
    let shop = server.instance.token_by(&admin, &ask).await;
    let mut client = server.connect_as(&shop).await;
    // What could not be taken is not counted.
    for _ in 0..10 {
        client.ask(&["SPOP", "empty", "3"]).await;
        client.ask(&["SPOP", "nope"]).await.is_error("ERR unknown_space");
    }
    assert_eq!(client.settled(&["SPOP", "default", "3"]).await.keys().len(), 3);
    // Unless a day has just ended.
    until_refused(&mut client, &["SPOP", "default"], "ERR rate_limited: ").await;
}

#[tokio::test]
async fn a_take_that_gets_fewer_keys_costs_no_more_of_the_quota() {
    let server = Server::start().await;
    let digits = json!({
        "kind": "sequential", "alphabet": "decimal", "length": 1, "blocklist": false,
    });
    for space in ["digits-15", "digits-5000"] {
        assert_eq!(server.instance.put(space, &digits).await.status, 201);
    }
    server.warm("default").await;
    let admin = server.instance.admin().await;
    // In one piece, and in several.
    for count in [15, 5_000] {
        let space = format!("digits-{count}");
        let ask = json!({"name": space, "allow": ["take:*"], "quota": 10 + count});
        let shop = server.instance.token_by(&admin, &ask).await;
        let mut client = server.connect_as(&shop).await;
        let count = count.to_string();
        assert_eq!(client.settled(&["SPOP", &space, &count]).await.keys().len(), 10);
        let rest = client.settled(&["SPOP", "default", &count]).await;
        assert_eq!(rest.keys().len().to_string(), count);
    }
}

/// The keys of equal commands are made together, but they are commands of their own.
#[tokio::test]
async fn a_pipeline_is_limited_command_by_command() {
    let server = Server::start().await;
    server.warm("default").await;
    let admin = server.instance.admin().await;
    let ask = json!({"name": "shop", "allow": ["take:*"], "quota": 50});
    let shop = server.instance.token_by(&admin, &ask).await;
    let mut client = server.connect_as(&shop).await;
    client.send(&command(&["SPOP", "default"]).repeat(200)).await;
    let mut keys = HashSet::new();
    for _ in 0..200 {
        match client.next().await {
            Value::Bulk(key) => assert!(keys.insert(key.clone()), "{key} was handed out twice"),
            refused => refused.is_error("ERR rate_limited: "),
        }
    }
    // Twice as many where a day has just ended.
    assert!([50, 100].contains(&keys.len()), "{}", keys.len());
}

#[tokio::test]
async fn callers_without_a_token_are_counted_by_address() {
    let server = Server::start().await;
    let limits = NonZeroU32::new(3).map(|rate| Arc::new(AddressLimits::new(rate)));
    let settings = AccessSettings { address_limits: limits, ..Default::default() };
    server.instance.http.set_access(settings);
    let mut client = server.connect().await;
    until_refused(&mut client, &["PING"], "ERR rate_limited: more than 3 a second").await;
    // Another connection of the same address is the same caller, and the limit is for each command.
    let mut other = server.connect().await;
    until_refused(&mut other, &["SPOP", "default"], "ERR rate_limited: ").await;
    // Leaving is free.
    assert_eq!(other.ask(&["QUIT"]).await, Value::word("OK"));
}

async fn until_refused(client: &mut Client, parts: &[&str], says: &str) {
    for _ in 0..TRIES {
        let answer = client.settled(parts).await;
        if matches!(answer, Value::Error(_)) {
            return answer.is_error(says);
        }
    }
    panic!("{parts:?} is never refused");
}
