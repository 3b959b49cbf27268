//! One table of commands and their answers, in both versions of the protocol.

use serde_json::json;

use super::client::command;
use super::{Server, Value};

use Is::{Array, Bulk, Error, Has, Integer, Key, Map, Null, Number, Set, Word};

/// What an answer is.
#[derive(Debug, Clone, Copy)]
enum Is {
    Word(&'static str),
    Bulk(&'static str),
    /// A string that contains this.
    Has(&'static str),
    /// A key of 7 characters.
    Key,
    Integer(i64),
    /// Any number.
    Number,
    Null,
    /// A list of so many.
    Array(usize),
    /// A set of so many; in version 2 a list.
    Set(usize),
    /// So many names with values; in version 2 a list of twice as many.
    Map(usize),
    /// An error that begins like this.
    Error(&'static str),
}

/// Commands in the order in which they are sent, on one connection.
#[rustfmt::skip]
const ROWS: &[(&[&str], Is)] = &[
    (&["PING"], Word("PONG")),
    (&["ping", "hello"], Bulk("hello")),
    (&["PING", "a", "b"], Error("ERR wrong number of arguments for 'ping' command")),
    (&["ECHO", ""], Bulk("")),
    (&["ECHO", "a\r\nb"], Bulk("a\r\nb")),
    (&["ECHO"], Error("ERR wrong number of arguments for 'echo' command")),
    (&["HELLO"], Map(7)),
    (&["HELLO", "4"], Error("NOPROTO ")),
    (&["HELLO", "2 "], Error("NOPROTO ")),
    (&["HELLO", "3", "AUTH", "default"], Error("ERR syntax error in HELLO option 'AUTH'")),
    (&["HELLO", "3", "NOPE"], Error("ERR syntax error in HELLO option 'NOPE'")),
    // Without tokens, whatever is shown is ignored, as over HTTP.
    (&["AUTH", "secret"], Word("OK")),
    (&["AUTH", "default", "secret"], Word("OK")),
    (&["AUTH"], Error("ERR wrong number of arguments for 'auth' command")),
    (&["SELECT", "0"], Word("OK")),
    (&["SELECT", "15"], Word("OK")),
    (&["SELECT", "16"], Error("ERR DB index is out of range")),
    (&["SELECT", "x"], Error("ERR DB index is out of range")),
    (&["CLIENT", "GETNAME"], Null),
    (&["CLIENT", "SETNAME", "shop"], Word("OK")),
    (&["client", "getname"], Bulk("shop")),
    (&["CLIENT", "SETNAME", "two words"], Error("ERR client names have")),
    (&["CLIENT", "SETINFO", "lib-name", "x"], Word("OK")),
    (&["CLIENT", "ID"], Number),
    (&["CLIENT", "INFO"], Has(" name=shop db=0 ")),
    (&["CLIENT", "LIST"], Has(" name=shop db=0 ")),
    (&["CLIENT", "NO-EVICT", "ON"], Word("OK")),
    (&["CLIENT", "NO-TOUCH", "off"], Word("OK")),
    (&["CLIENT", "NO-TOUCH", "maybe"], Error("ERR unknown subcommand 'NO-TOUCH'")),
    (&["CLIENT", "REPLY", "ON"], Word("OK")),
    (&["CLIENT", "REPLY", "OFF"], Error("ERR unknown subcommand 'REPLY'. keymill knows CLIENT ")),
    (&["CLIENT", "TRACKING", "ON"], Error("ERR unknown subcommand 'TRACKING'")),
    (&["COMMAND", "COUNT"], Integer(21)),
    (&["COMMAND"], Array(21)),
    (&["COMMAND", "LIST"], Array(21)),
    (&["COMMAND", "INFO"], Array(21)),
    (&["COMMAND", "INFO", "spop", "nope"], Array(2)),
    (&["COMMAND", "DOCS"], Map(21)),
    (&["COMMAND", "DOCS", "SPOP", "nope"], Map(1)),
    (&["COMMAND", "GETKEYS"], Error("ERR unknown subcommand 'GETKEYS'")),
    (&["CONFIG", "GET", "save"], Map(1)),
    (&["CONFIG", "GET", "save", "appendonly"], Map(2)),
    (&["CONFIG", "GET", "*"], Map(0)),
    (&["CONFIG", "SET", "save", ""], Error("ERR unknown subcommand 'SET'")),
    (&["INFO"], Has("redis_version:")),
    (&["INFO", "server", "clients"], Has("keymill_version:")),
    (&["SPOP", "default"], Key),
    (&["spop", "default"], Key),
    (&["SPOP", "default", "3"], Set(3)),
    (&["SPOP", "default", "1"], Set(1)),
    (&["SPOP", "default", "0"], Set(0)),
    (&["SPOP", "default", "300"], Set(300)),
    (&["SPOP", "default", "-1"], Error("ERR bad_count: count must be a whole number from 0 to 100000")),
    (&["SPOP", "default", "100001"], Error("ERR bad_count")),
    (&["SPOP", "default", "99999999999999999999"], Error("ERR bad_count")),
    (&["SPOP", "default", "x"], Error("ERR bad_count")),
    (&["SPOP"], Error("ERR wrong number of arguments for 'spop' command")),
    (&["SPOP", "default", "1", "2"], Error("ERR wrong number of arguments for 'spop' command")),
    (&["SPOP", "nope"], Error("ERR unknown_space: there is no keyspace `nope`")),
    (&["SPOP", "NOPE", "3"], Error("ERR unknown_space")),
    (&["SPOP", ""], Error("ERR unknown_space")),
    (&["SPOP", "a\r\nb"], Error("ERR unknown_space: there is no keyspace `a\\r\\nb`")),
    (&["SPOP", "ids:free"], Error("ERR unknown_space: there is no keyspace `ids:free`, and there cannot be one: names have")),
    (&["SPOP", "urls"], Error("WRONGTYPE `urls` makes keys from inputs, for which the Redis protocol has no command")),
    (&["SPOP", "urls", "2"], Error("WRONGTYPE ")),
    (&["SPOP", "sealed"], Error("ERR sealed: ")),
    (&["SPOP", "empty"], Null),
    (&["SPOP", "empty", "5"], Set(0)),
    (&["INCR", "default"], Error("WRONGTYPE the keys of `default` are not plain integers")),
    (&["INCR", "nope"], Error("ERR unknown_space")),
    (&["INCR", "urls"], Error("WRONGTYPE ")),
    (&["INCR", "tickets"], Integer(0)),
    (&["INCR", "tickets"], Integer(1)),
    (&["SPOP", "tickets"], Bulk("2")),
    (&["INCR", "tickets", "2"], Error("ERR wrong number of arguments for 'incr' command")),
    (&["INCRBY", "tickets", "1"], Integer(3)),
    (&["INCRBY", "tickets", "2"], Error("ERR INCRBY takes one key, so its amount must be 1, not '2'")),
    (&["INCRBY", "tickets", "-1"], Error("ERR INCRBY takes one key")),
    (&["INCRBY", "tickets", "01"], Error("ERR INCRBY takes one key")),
    (&["INCRBY", "tickets"], Error("ERR wrong number of arguments for 'incrby' command")),
    (&["INCRBY", "default", "1"], Error("WRONGTYPE the keys of `default` are not plain integers")),
    (&["INCRBY", "nope", "1"], Error("ERR unknown_space")),
    (&["INCR", "tickets"], Integer(4)),
    (&["SCARD", "nope"], Error("ERR unknown_space")),
    (&["SCARD", "urls"], Error("WRONGTYPE ")),
    (&["SCARD", "empty"], Integer(0)),
    (&["SCARD", "sealed"], Integer(0)),
    (&["SCARD", "ids"], Integer(i64::MAX)),
    (&["SISMEMBER", "default", "!"], Integer(0)),
    (&["SISMEMBER", "tickets", "2"], Integer(0)),
    (&["SISMEMBER", "tickets", "999999999"], Integer(1)),
    (&["SISMEMBER", "tickets"], Error("ERR wrong number of arguments for 'sismember' command")),
    (&["SISMEMBER", "nope", "x"], Error("ERR unknown_space")),
    (&["EXISTS", "default"], Integer(1)),
    (&["EXISTS", "default", "nope", "default", "tickets"], Integer(3)),
    (&["TYPE", "default"], Word("set")),
    (&["TYPE", "tickets"], Word("string")),
    (&["TYPE", "ids"], Word("string")),
    (&["TYPE", "nope"], Word("none")),
    (&["EXEC"], Error("ERR EXEC without MULTI")),
    (&["DISCARD"], Error("ERR DISCARD without MULTI")),
    (&["GET", "default"], Error("ERR unknown command 'GET'. This is keymill, which hands out unique keys")),
    (&["FLUSHALL"], Error("ERR unknown command 'FLUSHALL'. This is keymill")),
    (&["SPOPX", "default"], Error("ERR unknown command 'SPOPX'")),
    (&[""], Error("ERR unknown command ''")),
];

#[tokio::test]
async fn every_command_is_answered_in_both_versions() {
    for version in [2, 3] {
        let server = Server::start().await;
        prepare(&server).await;
        let mut client =
            if version == 3 { server.connect3().await } else { server.connect().await };
        for (parts, expected) in ROWS {
            let answer = client.settled(parts).await;
            assert!(expected.is(version, &answer), "{version}: {parts:?}: {answer:?}");
        }
        // It speaks the same version to the end, and another once it is asked.
        let other = if version == 3 { "2" } else { "3" };
        let answer = client.ask(&["HELLO", other]).await;
        assert!(Map(7).is(5 - version, &answer), "{answer:?}");
        assert_eq!(client.ask(&["RESET"]).await, Value::word("RESET"));
        let answer = client.ask(&["CLIENT", "GETNAME"]).await;
        assert_eq!(answer, Value::Null, "a reset forgets its name");
        assert!(Set(1).is(2, &client.ask(&["SPOP", "default", "1"]).await));
        assert_eq!(client.ask(&["QUIT"]).await, Value::word("OK"));
        assert_eq!(client.next_or_end().await, None);
    }
}

#[tokio::test]
async fn a_hello_tells_who_answers() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let Value::Map(pairs) = client.ask(&["HELLO", "3", "SETNAME", "shop"]).await else {
        panic!("version 3 has maps")
    };
    let value = |name: &str| {
        let found = pairs.iter().find(|(it, _)| *it == Value::bulk(name));
        found.unwrap_or_else(|| panic!("there is no {name}")).1.clone()
    };
    assert_eq!(value("server"), Value::bulk("keymill"));
    assert_eq!((value("proto"), value("role")), (Value::Integer(3), Value::bulk("master")));
    assert_eq!(
        (value("modules"), value("mode")),
        (Value::Array(vec![]), Value::bulk("standalone"))
    );
    assert_eq!(client.ask(&["CLIENT", "ID"]).await, value("id"));
    assert_eq!(client.ask(&["CLIENT", "GETNAME"]).await, Value::bulk("shop"));
}

#[tokio::test]
async fn answers_are_counted_and_refusals_too() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for parts in [&["PING"][..], &["PING"], &["SPOP", "nope"], &["NOPE"]] {
        client.ask(parts).await;
    }
    let metrics = server.instance.call("GET", "/metrics").await.body;
    for line in [
        "keymill_requests_total{protocol=\"redis\",route=\"other\",status=\"2xx\"} 2",
        "keymill_requests_total{protocol=\"redis\",route=\"other\",status=\"4xx\"} 1",
        "keymill_requests_total{protocol=\"redis\",route=\"take\",status=\"4xx\"} 1",
        "keymill_request_duration_seconds_count{protocol=\"redis\",route=\"other\"} 3",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_pipeline_is_answered_in_order_and_in_one_piece() {
    let server = Server::start().await;
    let mut wanted = tickets();
    wanted["lease_size_min"] = json!(100_000);
    server.instance.put("tickets", &wanted).await;
    server.warm("tickets").await;
    let mut client = server.connect().await;
    let mut sent = Vec::new();
    // Some are answered at once, and some wait.
    for number in 0..2_000 {
        sent.extend(command(&["INCR", "tickets"]));
        if number % 100 == 0 {
            sent.extend(command(&["SISMEMBER", "tickets", "999999999"]));
            sent.extend(command(&["SPOP", "tickets", "3"]));
            sent.extend(command(&["ECHO", &number.to_string()]));
        }
    }
    client.send(&sent).await;
    let mut last = 0;
    for number in 0..2_000 {
        let Value::Integer(ticket) = client.next().await else { panic!("a ticket") };
        assert!(ticket > last, "{ticket} behind {last}");
        last = ticket;
        if number % 100 == 0 {
            assert_eq!(client.next().await, Value::Integer(1));
            let three: Vec<i64> =
                client.next().await.keys().iter().map(|key| key.parse().unwrap()).collect();
            assert_eq!(three, [last + 1, last + 2, last + 3]);
            last += 3;
            assert_eq!(client.next().await, Value::bulk(&number.to_string()));
        }
    }
}

#[tokio::test]
async fn a_command_that_comes_byte_by_byte_is_answered_once_it_is_whole() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for byte in command(&["ECHO", "slow"]) {
        client.send(&[byte]).await;
    }
    assert_eq!(client.next().await, Value::bulk("slow"));
    client.send(b"PI").await;
    client.send(b"NG\r\n*1\r\n$4\r\nPING\r").await;
    assert_eq!(client.next().await, Value::word("PONG"));
    client.send(b"\n").await;
    assert_eq!(client.next().await, Value::word("PONG"));
}

#[tokio::test]
async fn keys_that_cannot_be_had_now_may_be_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keymill.db");
    let url = format!("sqlite:{}", file.display());
    let server = Server::start_on(Some(url), Default::default()).await;
    // Its first lease cannot be written.
    server.instance.service.space("default").await.unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut client = server.connect().await;
    for parts in [&["SPOP", "default"][..], &["SPOP", "default", "5"]] {
        client
            .ask(parts)
            .await
            .is_error("TRYAGAIN no_keys_ready: the keyspace `default` has no keys");
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert!(Key.is(2, &client.settled(&["SPOP", "default"]).await));
}

/// Keyspaces of several kinds.
async fn prepare(server: &Server) {
    let instance = &server.instance;
    for (space, wanted) in [
        ("tickets", tickets()),
        ("ids", json!({"kind": "snowflake"})),
        ("urls", json!({"kind": "digest"})),
        ("empty", json!({"kind": "pooled"})),
        ("sealed", json!({})),
    ] {
        let made = instance.put(space, &wanted).await;
        assert_eq!(made.status, 201, "{space}: {}", made.body);
    }
    instance.service.seal("sealed").await.unwrap();
}

pub(super) fn tickets() -> serde_json::Value {
    json!({"kind": "sequential", "length": 0, "alphabet": "decimal"})
}

impl Is {
    fn is(self, version: u32, answer: &Value) -> bool {
        let is_3 = version == 3;
        match (self, answer) {
            (Word(word), Value::Word(answer)) => word == answer,
            (Bulk(text), Value::Bulk(answer)) => text == answer,
            (Has(part), Value::Bulk(answer)) => answer.contains(part),
            (Key, Value::Bulk(key)) => {
                key.len() == 7 && key.bytes().all(|byte| byte.is_ascii_alphanumeric())
            }
            (Number, Value::Integer(_)) | (Null, Value::Null) => true,
            (Integer(number), Value::Integer(answer)) => number == *answer,
            (Array(count), Value::Array(values)) => values.len() == count,
            (Set(count), Value::Set(keys)) => is_3 && keys.len() == count,
            (Set(count), Value::Array(keys)) => !is_3 && keys.len() == count,
            (Map(count), Value::Map(pairs)) => is_3 && pairs.len() == count,
            (Map(count), Value::Array(values)) => !is_3 && values.len() == 2 * count,
            (Error(start), Value::Error(error)) => error.starts_with(start),
            _ => false,
        }
    }
}
