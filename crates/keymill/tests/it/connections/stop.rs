//! The orderly stop: nobody who asks on an open connection goes without an answer.

use std::time::Duration;

use keymill::server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{HEALTHZ, read_answer};
use crate::http::Instance;

#[tokio::test]
async fn busy_connections_lose_no_request_to_a_stop() {
    let mut instance = Instance::start().await;
    let mut clients = Vec::new();
    for _ in 0..64 {
        let stream = TcpStream::connect(instance.address).await.unwrap();
        clients.push(tokio::spawn(take_until_told(stream)));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    instance.stop.take().unwrap().send(()).unwrap();
    let mut answered = 0;
    for client in clients {
        answered += client.await.unwrap();
    }
    assert!(answered >= 64, "{answered} answers on 64 connections");
    let ended = tokio::time::timeout(Duration::from_secs(8), &mut instance.ended).await;
    ended.expect("all connections were closed").unwrap();
}

/// Asks, one request after the other, until an answer says that it is the last. Fails when a
/// request is not answered.
async fn take_until_told(mut stream: TcpStream) -> u32 {
    let request =
        "POST /v1/spaces/default/keys HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    for answered in 1.. {
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_answer(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        if answer.contains("\r\nconnection: close\r\n") {
            assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "closed behind its last answer");
            return answered;
        }
    }
    unreachable!("it stops some time")
}

#[tokio::test]
async fn an_idle_connection_has_time_for_a_request_that_is_on_its_way() {
    let mut instance = Instance::start().await;
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    stream.write_all(HEALTHZ.as_bytes()).await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert!(!answer.contains("connection: close"), "{answer}");
    instance.stop.take().unwrap().send(()).unwrap();
    while TcpStream::connect(instance.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stream.write_all(HEALTHZ.as_bytes()).await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn a_client_of_http_1_0_that_keeps_its_connection_is_told_its_end_too() {
    let mut instance = Instance::start().await;
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    let request = "GET /healthz HTTP/1.0\r\nhost: localhost\r\nconnection: keep-alive\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert!(answer.contains("\r\nconnection: keep-alive\r\n"), "{answer}");
    instance.stop.take().unwrap().send(()).unwrap();
    while TcpStream::connect(instance.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(!answer.contains("keep-alive"), "{answer}");
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "closed behind its last answer");
}

#[tokio::test]
async fn readiness_ends_with_the_signal_and_service_only_after_the_delay() {
    let limits = ServerLimits { drain_delay: Duration::from_secs(60), ..ServerLimits::default() };
    let mut instance = Instance::start_with(limits).await;
    assert_eq!(instance.call("GET", "/readyz").await.status, 200);
    instance.stop.take().unwrap().send(()).unwrap();
    let not_ready = loop {
        let answer = instance.call("GET", "/readyz").await;
        if answer.status != 200 {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(not_ready.status, 503);
    let health = not_ready.json();
    assert_eq!(health["ready"], false);
    assert_eq!(health["problems"][0]["code"], "stopping");
    // New connections are accepted, and nobody is sent away yet.
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    for _ in 0..2 {
        stream.write_all(HEALTHZ.as_bytes()).await.unwrap();
        let answer = read_answer(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
}
