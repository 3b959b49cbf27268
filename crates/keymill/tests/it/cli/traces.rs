//! Traces: a collector, here a listener that keeps what it is sent, sees requests and the store calls behind them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::Place;
use super::serve::Server;

const LOOPBACK: [&str; 2] = ["--listen", "127.0.0.1:0"];
/// Of the caller: its trace, and the span that the request is part of.
const TRACE: [u8; 16] = *b"\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c";
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn a_collector_is_sent_requests_and_store_calls_of_the_trace_that_they_are_part_of() {
    let (url, exports) = collector();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ("OTEL_SERVICE_NAME", "keys-of-the-shop"),
    ];
    let mut server = Server::start_with(Place::new(), &LOOPBACK, &variables);
    assert!(server.ask("GET", "/get-key", "").starts_with("HTTP/1.1 200"));
    let traced =
        "GET /v1/spaces/default/aliases HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    assert!(
        send(&server, &format!("{traced}traceparent: {TRACEPARENT}\r\n\r\n")).contains(" 200 ")
    );
    let spans = received(&exports, |spans| {
        has(spans, b"alias") && has(spans, b"names") && has(spans, &TRACE)
    });
    assert!(has(&spans, b"keys-of-the-shop") && has(&spans, b"db.operation.name"));
    assert!(!has(&spans, b"/v1/spaces"), "paths may hold keys");
    // Both of them are of the trace, and there is no other of it.
    let of_trace = spans.windows(TRACE.len()).filter(|some| *some == TRACE).count();
    assert!(of_trace >= 2, "{of_trace} spans of the trace");

    // From memory, and yet with a span, because it is part of a trace.
    let take = "GET /get-key HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    assert!(send(&server, &format!("{take}traceparent: {TRACEPARENT}\r\n\r\n")).contains(" 200 "));
    server.signal("TERM");
    received(&exports, |spans| has(spans, b"get_key") && has(spans, &TRACE));
    assert!(server.ended().0.success());
}

#[test]
fn a_collector_that_goes_away_stops_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let is_leaving = Arc::new(AtomicBool::new(false));
    let leaves = is_leaving.clone();
    std::thread::spawn(move || {
        while !leaves.load(Ordering::Relaxed) {
            let (mut stream, _) = listener.accept().unwrap();
            while !leaves.load(Ordering::Relaxed) && export(&mut stream).is_some() {}
        }
    });
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let mut server = Server::start_with(Place::new(), &LOOPBACK, &variables);
    is_leaving.store(true, Ordering::Relaxed);
    for _ in 0..5 {
        assert!(server.ask("GET", "/v1/spaces", "").starts_with("HTTP/1.1 200"));
        std::thread::sleep(Duration::from_millis(60));
    }
    server.logged("the collector does not take traces");
    server.signal("TERM");
    assert!(server.ended().0.success());
}

fn send(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A listener that answers every export, and hands on its body.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (exported, exports) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, exported) = (stream.unwrap(), exported.clone());
            std::thread::spawn(move || {
                while let Some(body) = export(&mut stream) {
                    if exported.send(body).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, exports)
}

/// Reads one request and answers it; `None` at the end of the connection.
fn export(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.trim().parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    Some(body)
}

/// All that was sent, once it is as it should be.
fn received(exports: &Receiver<Vec<u8>>, is_whole: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut all, begin) = (Vec::new(), Instant::now());
    while !is_whole(&all) {
        let left = Duration::from_secs(30).saturating_sub(begin.elapsed());
        let more = exports.recv_timeout(left);
        all.extend(more.unwrap_or_else(|_| panic!("only {}", String::from_utf8_lossy(&all))));
    }
    all
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|some| some == part)
}
