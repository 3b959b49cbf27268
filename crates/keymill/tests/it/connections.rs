//! Connections: limits, ends and the orderly stop, on a true server in this process.

use std::time::Duration;

use keymill::server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::Instance;

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_place() {
    let limits = ServerLimits {
        connections_max: 1,
        idle_time_max: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    let instance = Instance::start_with(limits).await;
    let mut deaf = TcpStream::connect(instance.address).await.unwrap();
    let request = "POST /v1/spaces/default/keys?count=100000 HTTP/1.1\r\nhost: k\r\n\r\n";
    // More than the buffers between take.
    for _ in 0..50 {
        deaf.write_all(request.as_bytes()).await.unwrap();
    }
    let other = tokio::time::timeout(Duration::from_secs(10), instance.call("GET", "/healthz"));
    assert_eq!(other.await.expect("the place is free again").status, 200);
}

#[tokio::test]
async fn http2_is_spoken_on_the_same_port() {
    let instance = Instance::start().await;
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4, "the server answers with its settings");
}

#[tokio::test]
async fn slow_and_idle_connections_are_ended() {
    let limits = ServerLimits {
        header_time_max: Duration::from_millis(200),
        idle_time_max: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    let instance = Instance::start_with(limits).await;
    for start in
        ["", "G", "GET /get-key HTTP/1.1\r\nho", "GET /get-key HTTP/1.1\r\nhost: k\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer));
        assert!(ended.await.is_ok(), "still open after `{start}`");
    }
}

#[tokio::test]
async fn a_connection_that_never_spoke_does_not_hold_up_a_stop() {
    let mut instance = Instance::start().await;
    let _silent = TcpStream::connect(instance.address).await.unwrap();
    assert_eq!(instance.call("GET", "/healthz").await.status, 200);
    instance.stop.take().unwrap().send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), &mut instance.ended).await;
    ended.expect("well before the time for draining is over").unwrap();
}

#[tokio::test]
async fn a_request_under_way_is_answered_however_short_the_idle_time() {
    let limits =
        ServerLimits { idle_time_max: Duration::from_millis(30), ..ServerLimits::default() };
    let mut instance = Instance::start_with(limits).await;
    // Its body comes late: longer than many idle periods, and across the beginning of a stop.
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    let head = "PUT /v1/spaces/late HTTP/1.1\r\nhost: k\r\ncontent-length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    instance.stop.take().unwrap().send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    stream.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

#[tokio::test]
async fn connections_beyond_the_cap_wait_for_a_place() {
    let limits = ServerLimits { connections_max: 2, ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: k\r\n\r\n").await.unwrap();
        stream.read_exact(&mut [0; 15]).await.unwrap();
        held.push(stream);
    }
    let third = instance.call("GET", "/healthz");
    let mut third = std::pin::pin!(third);
    let waited = tokio::time::timeout(Duration::from_millis(200), third.as_mut()).await;
    assert!(waited.is_err(), "answered although two connections are open");
    held.pop();
    assert_eq!(third.await.status, 200);
}

#[tokio::test]
async fn a_stop_answers_what_is_under_way_and_gives_leases_back() {
    let mut instance = Instance::start().await;
    instance.call("GET", "/get-key").await;
    instance.stop.take().unwrap().send(()).unwrap();
    (&mut instance.ended).await.unwrap();
    assert!(TcpStream::connect(instance.address).await.is_err());
    instance.service.stop(Duration::from_secs(5)).await;
    let report = instance.service.report("default").await.unwrap();
    assert_eq!((report.leased, report.record.returned.count()), (1, 999));
    assert!(!instance.service.health().ready);
}
