//! Connections: limits, ends and the orderly stop, on a true server in this process.

mod admin;
mod http2;
mod listeners;
mod pipelining;
mod places;
mod proxies;
mod stop;
mod tls;
mod tls_health;

use std::time::Duration;

use keymill::server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::Instance;

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_place() {
    let instance = Instance::start_with(one_place()).await;
    let mut deaf = TcpStream::connect(instance.address).await.unwrap();
    ask_for_too_much(&mut deaf).await;
    let other = async { while instance.call("GET", "/get-key").await.status != 200 {} };
    let other = tokio::time::timeout(Duration::from_secs(10), other);
    other.await.expect("the place is free again");
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
        first_byte_time_max: Duration::from_millis(200),
        header_time_max: Duration::from_millis(200),
        idle_time_max: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    let instance = Instance::start_with(limits).await;
    for start in
        ["", "G", "GET /get-key HTTP/1.1\r\nho", "GET /get-key HTTP/1.1\r\nhost: localhost\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer));
        assert!(ended.await.is_ok(), "still open after `{start}`");
    }
}

#[tokio::test]
async fn keep_alive_lasts_for_the_idle_time_and_not_for_that_of_headers() {
    let limits =
        ServerLimits { header_time_max: Duration::from_millis(100), ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    for _ in 0..2 {
        stream.write_all(HEALTHZ.as_bytes()).await.unwrap();
        read_answer(&mut stream).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    // The limit holds from the first byte of a header on.
    stream.write_all(b"GET /healthz HT").await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn a_header_begun_behind_a_request_has_the_time_of_headers_and_not_the_idle_time() {
    let limits =
        ServerLimits { header_time_max: Duration::from_millis(100), ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    let post = "PUT /v1/spaces/default HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    for request in [HEALTHZ, post] {
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        stream.write_all(format!("{request}GET /healthz HT").as_bytes()).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // A request alone, with or without a body, may be followed by silence for longer than that.
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        read_answer(&mut stream).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        stream.write_all(HEALTHZ.as_bytes()).await.unwrap();
        read_answer(&mut stream).await;
    }
}

#[tokio::test]
async fn silence_has_a_limit_of_its_own() {
    let limits =
        ServerLimits { first_byte_time_max: Duration::from_millis(100), ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    let mut silent = TcpStream::connect(instance.address).await.unwrap();
    assert_eq!(read_to_end(&mut silent).await, "");
}

#[tokio::test]
async fn the_beginning_of_a_preface_and_then_the_end_ends_the_connection_at_once() {
    // Nothing but the client's end ends them: no limit passes within this test.
    let limits = ServerLimits { connections_max: 1, ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    for start in ["P", "PR", "PRI * HTTP/2.0\r\n"] {
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        read_to_end(&mut stream).await;
    }
    assert_eq!(instance.call("GET", "/healthz").await.status, 200);
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
    let head = "PUT /v1/spaces/late HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json\r\ncontent-length: 2\r\n\r\n";
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

const HEALTHZ: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Limits with a place for one connection, which it soon loses.
fn one_place() -> ServerLimits {
    ServerLimits {
        connections_max: 1,
        idle_time_max: Duration::from_millis(200),
        ..ServerLimits::default()
    }
}

/// Asks for more than the buffers between take.
async fn ask_for_too_much(stream: &mut (impl AsyncWrite + Unpin)) {
    let request = "POST /v1/spaces/default/keys?count=100000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for _ in 0..50 {
        stream.write_all(request.as_bytes()).await.unwrap();
    }
    stream.flush().await.unwrap();
}

/// What comes until the server closes, or resets, the connection. Fails when it does neither.
async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    let ended = tokio::time::timeout(Duration::from_secs(10), read).await;
    // A reset is an end too; what came before it is there.
    let _ = ended.expect("the server ends the connection");
    String::from_utf8(bytes).unwrap()
}

/// One answer with a length, head and body.
async fn read_answer(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    loop {
        let mut bytes = [0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut bytes)).await;
        let count = read.expect("an answer comes").unwrap();
        assert!(count > 0, "closed after `{answer}`");
        answer.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        if let Some((head, body)) = answer.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_some_and(|length| body.len() >= length.parse().unwrap()) {
                return answer;
            }
        }
    }
}
