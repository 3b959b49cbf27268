//! Connections of the Redis protocol: limits, listeners, TLS, and what is no command.

use std::sync::Arc;
use std::time::Duration;

use keymill::access::AccessSettings;
use keymill::access::issue::{self, TokenAsk};
use keymill::front::addresses::AddressRules;
use keymill::server::{Endpoint, Listeners, ServerLimits, Tls};
use rcgen::SanType;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::client::{Client, PATIENCE, command};
use super::{Server, Value};
use crate::certificates::{Authority, shake_hands};

/// What a proxy says of a client, in version 1 of the PROXY protocol.
const PROXIED: &[u8] = b"PROXY TCP4 203.0.113.7 127.0.0.1 4711 6380\r\n";

#[tokio::test]
async fn bytes_that_are_no_commands_are_told_so_and_end_the_connection() {
    let server = Server::start().await;
    server.warm("default").await;
    let space = server.instance.service.space("default").await.unwrap();
    let before = space.at_hand();
    let take = String::from_utf8(command(&["SPOP", "default"])).unwrap();
    let http = "not HTTP, which is at the addresses that `listen` names";
    for (bytes, says) in [
        // What a web page can have a browser send, with commands where it can choose the bytes.
        (format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{take}"), http),
        (format!("GET /{take} HTTP/1.1\r\n\r\n"), http),
        (format!("OPTIONS / HTTP/1.1\r\nOrigin: x\r\n\r\n{take}"), http),
        (format!("Host: localhost\r\n\r\n{take}"), http),
        (format!("* / HTTP/1.1\r\n\r\n{take}"), "a length must be a whole number"),
        (format!("*1 / HTTP/1.1\r\n\r\n{take}"), "a length must be a whole number"),
        (format!("SPOP default\r\n{take}"), "the only one that may be sent as a line is PING"),
        (format!("\r\n\n{take}"), "the only one that may be sent as a line is PING"),
        (format!("\r\n\r\nGET / HTTP/1.1\r\n{take}"), http),
        (format!("\x16\x03\x01\x02\0{take}"), "the only one that may be sent as a line is PING"),
        (format!("*0\r\n{take}"), "an array must have from 1 to 64 parts"),
        (format!("*1\r\n$5000\r\n{take}"), "at most 4096 bytes"),
        (format!("*2\r\n$4\r\nSPOP\r\n:5\r\n{take}"), "must be a bulk string"),
    ] {
        let mut client = server.connect().await;
        client.send(bytes.as_bytes()).await;
        let answers = client.rest().await;
        let [Value::Error(error)] = &answers[..] else { panic!("{bytes:?}: {answers:?}") };
        assert!(error.starts_with("ERR Protocol error: ") && error.contains(says), "{error}");
    }
    assert_eq!(space.at_hand(), before, "nothing was taken");
    // Commands before them are answered.
    let mut client = server.connect().await;
    client.send(format!("{take}\r\n\r\nPING\r\nGET / HTTP/1.1\r\n\r\n{take}").as_bytes()).await;
    let answers = client.rest().await;
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(answers[1], Value::word("PONG"));
}

#[tokio::test]
async fn beyond_the_limit_clients_are_told_and_closed_and_others_are_not_kept_out() {
    let limits = ServerLimits { connections_max: 1, ..ServerLimits::default() };
    let server = Server::start_with(limits).await;
    let mut held = server.connect().await;
    assert_eq!(held.ask(&["PING"]).await, Value::word("PONG"));
    for _ in 0..200 {
        let mut client = server.connect().await;
        let answers = client.rest().await;
        assert_eq!(answers, [Value::Error("ERR max number of clients reached".to_owned())]);
    }
    // They share the limit with HTTP, where health checks have a reserve.
    assert_eq!(server.instance.call("GET", "/healthz").await.status, 200);
    assert_eq!(server.instance.call("GET", "/get-key").await.status, 503);
    assert_eq!(held.ask(&["PING"]).await, Value::word("PONG"));
    drop(held);
    let served = async {
        loop {
            let mut client = server.connect().await;
            let _ = client.stream.write_all(&command(&["PING"])).await;
            if client.next_or_end().await == Some(Value::word("PONG")) {
                return;
            }
        }
    };
    timeout(PATIENCE, served).await.expect("a place is free again");
    let metrics = server.instance.call("GET", "/metrics").await.body;
    assert!(metrics.contains("keymill_connections_refused_total{reason=\"full\"}"), "{metrics}");
}

#[tokio::test]
async fn an_address_has_so_many_connections_of_both_protocols_together() {
    let server = Server::start().await;
    server.instance.http.set_address_rules(AddressRules {
        trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
        connections_per_address_max: 1,
    });
    let mut first = server.connect().await;
    first.send(&[PROXIED, &command(&["CLIENT", "INFO"])].concat()).await;
    let Value::Bulk(line) = first.next().await else { panic!("a line") };
    assert!(line.contains(" addr=203.0.113.7 "), "{line}");
    // It says nothing more: what is not read when a connection is closed resets it, and the refusal with it.
    let mut second = server.connect().await;
    second.send(PROXIED).await;
    second.next().await.is_error("ERR too_many_connections: ");
    let mut http = TcpStream::connect(server.instance.address).await.unwrap();
    http.write_all(PROXIED).await.unwrap();
    let mut answer = String::new();
    let _ = timeout(PATIENCE, http.read_to_string(&mut answer)).await.expect("it ends");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    // The proxy itself is not counted.
    assert_eq!(server.connect().await.ask(&["PING"]).await, Value::word("PONG"));
}

#[tokio::test]
async fn known_clients_may_stay_and_strangers_may_not() {
    let limits = ServerLimits {
        first_byte_time_max: Duration::from_millis(200),
        header_time_max: Duration::from_millis(200),
        idle_time_max: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    let server = Server::start_with(limits).await;
    let long = Duration::from_millis(1_500);
    // Without tokens, everybody is known.
    let (mut silent, mut used) = (server.connect().await, server.connect().await);
    assert_eq!(used.ask(&["PING"]).await, Value::word("PONG"));
    tokio::time::sleep(long).await;
    for client in [&mut silent, &mut used] {
        assert_eq!(client.ask(&["PING"]).await, Value::word("PONG"));
    }
    // But a command that was begun has to be ended.
    let mut slow = server.connect().await;
    slow.send(b"*1\r\n$4\r\nPI").await;
    assert_eq!(timeout(PATIENCE, slow.next_or_end()).await.expect("it is ended"), None);
    let admin = server.instance.admin().await;
    let mut known = server.connect_as(&admin).await;
    let (mut silent, mut refused) = (server.connect().await, server.connect().await);
    refused.ask(&["PING"]).await.is_error("NOAUTH ");
    for client in [&mut silent, &mut refused] {
        assert_eq!(timeout(PATIENCE, client.next_or_end()).await.expect("it is ended"), None);
    }
    tokio::time::sleep(long).await;
    assert_eq!(known.ask(&["PING"]).await, Value::word("PONG"));
}

#[tokio::test]
async fn a_limit_for_idle_clients_can_be_set() {
    let limits = ServerLimits {
        redis_idle_time_max: Some(Duration::from_millis(200)),
        ..ServerLimits::default()
    };
    let server = Server::start_with(limits).await;
    let mut idle = server.connect().await;
    assert_eq!(idle.ask(&["PING"]).await, Value::word("PONG"));
    assert_eq!(timeout(PATIENCE, idle.next_or_end()).await.expect("it is ended"), None);
}

#[tokio::test]
async fn a_unix_socket_speaks_it_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let local = [Endpoint::Tcp(([127, 0, 0, 1], 0).into())];
    let listeners = Listeners::bind(&local, None).await.unwrap();
    let endpoints = [Endpoint::Unix(path.clone()), local[0].clone()];
    let listeners = listeners.with_redis(&endpoints).await.unwrap();
    let server = Server::start_at(listeners, None, ServerLimits::default()).await;
    let mut client = Client::new(UnixStream::connect(&path).await.unwrap());
    assert_eq!(client.settled(&["SPOP", "default", "3"]).await.keys().len(), 3);
    assert_eq!(server.connect().await.ask(&["PING"]).await, Value::word("PONG"));
}

#[tokio::test]
async fn over_tls_it_is_the_same_and_a_certificate_stands_for_its_token() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let clients = folder.path().join("clients.pem");
    std::fs::write(&clients, authority.pem()).unwrap();
    let mut files = authority.server().write(folder.path());
    files.client_ca = Some(clients);
    let tls = Arc::new(Tls::load(files).unwrap());
    let local = [Endpoint::Tcp(([127, 0, 0, 1], 0).into())];
    let unix = [Endpoint::Unix(folder.path().join("http.sock"))];
    let listeners = Listeners::bind(&unix, None).await.unwrap();
    let listeners = listeners.with_redis(&local).await.unwrap().with_tls(Some(tls));
    let server = Server::start_at(listeners, None, ServerLimits::default()).await;
    let pair = authority.client(vec![SanType::DnsName("shop.internal".try_into().unwrap())]);
    for version in [&TLS12, &TLS13] {
        for pair in [None, Some(&pair)] {
            let connector = authority.connector(pair, &[version], "http/1.1");
            let stream = TcpStream::connect(server.address).await.unwrap();
            let mut client = Client::new(shake_hands(&connector, stream).await.unwrap());
            assert_eq!(client.settled(&["SPOP", "default", "5000"]).await.keys().len(), 5_000);
        }
    }
    let ask = TokenAsk {
        name: "shop".to_owned(),
        allow: vec!["take:default".to_owned()],
        certificate: Some("shop.internal".to_owned()),
        ..TokenAsk::default()
    };
    let (record, _) = issue::make(&ask, "test").unwrap();
    let settings = AccessSettings { tokens: vec![record], ..AccessSettings::default() };
    server.instance.http.set_access(settings);
    for (pair, expected) in [(Some(&pair), "NOPERM "), (None, "NOAUTH ")] {
        let connector = authority.connector(pair, &[&TLS13], "http/1.1");
        let stream = TcpStream::connect(server.address).await.unwrap();
        let mut client = Client::new(shake_hands(&connector, stream).await.unwrap());
        if pair.is_some() {
            assert_eq!(client.settled(&["SPOP", "default"]).await.keys().len(), 1);
        }
        client.ask(&["SCARD", "default"]).await.is_error(expected);
    }
    // A client that speaks no TLS is told nothing in the clear.
    let mut plain = server.connect().await;
    plain.send(&command(&["PING"])).await;
    let mut told = Vec::new();
    let _ = timeout(PATIENCE, plain.stream.read_to_end(&mut told)).await.expect("it ends");
    assert!(!told.starts_with(b"+") && !told.starts_with(b"-"), "{told:?}");
}
