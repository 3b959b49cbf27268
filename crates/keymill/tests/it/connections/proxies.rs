//! Connections of trusted proxies: the PROXY protocol, and limits for each client behind them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use keymill::front::addresses::AddressRules;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::{Answer, Instance};

const PATIENCE: Duration = Duration::from_secs(20);
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
const LAST_HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// An instance that trusts whoever connects from this machine.
async fn behind_a_proxy(connections_per_address_max: usize) -> Instance {
    let instance = Instance::start().await;
    let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    instance.http.set_address_rules(AddressRules { trusted_proxies, connections_per_address_max });
    instance
}

/// The header of version 2 that names a client.
fn header(client: &str) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec();
    match client.parse::<IpAddr>().unwrap() {
        IpAddr::V4(client) => {
            header.extend([0x11, 0, 12]);
            header.extend(client.octets());
            header.extend(Ipv4Addr::LOCALHOST.octets());
        }
        IpAddr::V6(client) => {
            header.extend([0x21, 0, 36]);
            header.extend(client.octets());
            header.extend([0; 16]);
        }
    }
    header.extend([0x12, 0x67, 0, 80]);
    header
}

async fn open(instance: &Instance, start: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    stream.write_all(start).await.unwrap();
    stream
}

/// A connection of a client that was answered, and stays open; `None` where it was refused.
async fn hold(instance: &Instance, client: &str) -> Option<TcpStream> {
    let mut stream = open(instance, &[header(client).as_slice(), HEALTH.as_bytes()].concat()).await;
    let mut status = [0; 12];
    let read = timeout(PATIENCE, stream.read_exact(&mut status)).await.expect("it is answered");
    match read {
        Ok(_) if status == *b"HTTP/1.1 200" => Some(stream),
        // The refusal does not wait for the request, so the end may come first.
        Ok(_) => {
            assert_eq!(&status, b"HTTP/1.1 503");
            None
        }
        Err(_) => None,
    }
}

#[tokio::test]
async fn a_client_behind_a_proxy_has_so_many_connections() {
    let instance = behind_a_proxy(2).await;
    let clients = [
        ("203.0.113.7", "203.0.113.7", "203.0.113.8"),
        ("2001:db8::1", "2001:db8::ffff:0:1", "2001:db8:0:1::1"),
    ];
    for (client, same, other) in clients {
        let first = hold(&instance, client).await.expect("one is allowed");
        let _second = hold(&instance, same).await.expect("two are allowed");
        assert!(hold(&instance, client).await.is_none(), "a third is refused");
        assert!(hold(&instance, other).await.is_some(), "others have their own");
        drop(first);
        let again = async { while hold(&instance, client).await.is_none() {} };
        timeout(PATIENCE, again).await.expect("a place is free again");
    }
    let metrics = instance.call("GET", "/metrics").await.body;
    let refused = "keymill_connections_refused_total{reason=\"address\"} ";
    let refused = metrics.lines().find_map(|line| line.strip_prefix(refused));
    assert!(refused.unwrap().parse::<u64>().unwrap() >= 2, "{metrics}");
}

#[tokio::test]
async fn a_refused_client_is_told_why() {
    let instance = behind_a_proxy(1).await;
    let _held = hold(&instance, "203.0.113.7").await.unwrap();
    // Nothing is sent behind the header, so that the answer cannot be overtaken by the end.
    let mut refused = open(&instance, &header("203.0.113.7")).await;
    let answer = timeout(PATIENCE, Answer::read(&mut refused)).await.expect("it is answered");
    answer.is_problem(503, "too_many_connections", "your address");
    assert!(answer.header("retry-after").is_some(), "{}", answer.head);
}

#[tokio::test]
async fn a_trusted_proxy_is_served_with_and_without_a_header_and_is_not_counted() {
    let instance = behind_a_proxy(1).await;
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".as_slice();
    let v1 = b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 80\r\n".as_slice();
    for start in [b"".as_slice(), b"", local, local, v1, b"PROXY UNKNOWN\r\n"] {
        let mut stream = open(&instance, &[start, LAST_HEALTH.as_bytes()].concat()).await;
        let answer = timeout(PATIENCE, Answer::read(&mut stream)).await.expect("it is answered");
        assert_eq!(answer.status, 200, "{start:?}");
    }
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = open(&instance, HEALTH.as_bytes()).await;
        stream.read_exact(&mut [0; 15]).await.unwrap();
        held.push(stream);
    }
}

#[tokio::test]
async fn a_broken_header_ends_the_connection() {
    let instance = behind_a_proxy(8).await;
    let too_long = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".as_slice();
    let endless = [b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat();
    for start in [too_long, &endless, b"PROXY TCP4 x y 1 2\r\n"] {
        let mut stream = open(&instance, start).await;
        let mut answer = Vec::new();
        let ended = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        // With bytes left unread, the end is a reset.
        let _ = ended.expect("it ends");
        assert!(answer.is_empty(), "{answer:?}");
    }
    assert_eq!(instance.call("GET", "/healthz").await.status, 200);
}

#[tokio::test]
async fn nobody_else_is_believed() {
    let instance = Instance::start().await;
    for start in [header("203.0.113.7"), b"PROXY TCP4 203.0.113.7 127.0.0.1 1 2\r\n".to_vec()] {
        let mut stream =
            open(&instance, &[start.as_slice(), LAST_HEALTH.as_bytes()].concat()).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it ends");
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
