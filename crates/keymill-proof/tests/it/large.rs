//! Large takes and slow requests beside everybody else: what they take in memory, who is cut off for
//! it, and how long a small take waits beside many of them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keymill_proof::{Client, Server, ServerSpec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::put;

/// As the README states it: the process itself, each connection, each HTTP/2 request under way with what its
/// headers and its small answer take, and the bodies of one HTTP/2 connection.
const PROCESS_BYTES: u64 = 64 << 20;
const CONNECTION_BYTES: u64 = 64 << 10;
const STREAM_BYTES: u64 = 8 << 10;
const HEADERS_BYTES: u64 = 24 << 10;
const SMALL_ANSWER_BYTES: u64 = 16 << 10;
const BODIES_BYTES: u64 = 256 << 10;

/// How many requests one HTTP/2 connection may have under way.
const STREAMS: u32 = 64;
const COUNT: u32 = 100_000;
/// The largest body of a request.
const BODY_LEN: usize = 64 << 10;

#[test]
fn answers_that_nobody_reads_take_bounded_memory_and_hold_up_nobody() {
    const DEAF: u64 = 2_000;
    const DEAF_HTTP2: u64 = 8;
    const UNSENT: u64 = 16 << 20;
    allow_open_files();
    let folder = tempfile::tempdir().unwrap();
    let spec = ServerSpec::keymill(folder.path(), "d0")
        .env("KEYMILL_LIMITS_UNSENT_MAX_BYTES", UNSENT.to_string())
        .env("KEYMILL_LIMITS_WAITING_MAX", "4096")
        .env("KEYMILL_LIMITS_WAIT_SECONDS", "60");
    let server = Server::start(&spec);
    // Enough at hand for all of them; and nothing to look at before the text is made.
    put(&server, "big", r#"{"blocklist": false, "lease_size_min": 100000000}"#);
    let bound = PROCESS_BYTES
        + (DEAF + DEAF_HTTP2) * CONNECTION_BYTES
        + DEAF_HTTP2 * u64::from(STREAMS) * STREAM_BYTES
        + UNSENT;
    let mut highest = 0;
    let mut check = || {
        let rss = rss(server.pid());
        highest = highest.max(rss);
        assert!(rss < bound, "{} MB in use, {} MB stated", rss >> 20, bound >> 20);
    };
    let mut deaf: Vec<Http2> = (0..DEAF_HTTP2).map(|_| Http2::connect(&server)).collect();
    for connection in &mut deaf {
        connection.take_on_all_streams("big", COUNT);
        check();
    }
    let path = format!("/v1/spaces/big/keys?count={COUNT}");
    let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
    let mut streams = Vec::new();
    for _ in 0..DEAF {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        streams.push(stream);
        if streams.len() % 100 == 0 {
            check();
        }
    }
    // All of them have been answered, as far as anybody knows who reads only the status line.
    for stream in &mut streams {
        let mut start = [0; 512];
        let length = stream.read(&mut start).unwrap();
        let start = String::from_utf8_lossy(&start[..length]);
        assert!(start.starts_with("HTTP/1.1 200"), "{start}");
    }
    let mut client = Client::new(server.address());
    for _ in 0..50 {
        assert_eq!(client.get("/get-key").unwrap().status, 200);
        check();
        std::thread::sleep(Duration::from_millis(100));
    }
    println!(
        "{DEAF} takes over HTTP/1 and {} over HTTP/2, of {COUNT} keys each and not read: \
         at most {} MB in use, {} MB stated",
        DEAF_HTTP2 * u64::from(STREAMS),
        highest >> 20,
        bound >> 20
    );
}

#[test]
fn requests_that_do_not_end_take_bounded_memory() {
    const HTTP1: u64 = 500;
    const HTTP2: u64 = 40;
    const UNSENT: u64 = 16 << 20;
    let folder = tempfile::tempdir().unwrap();
    let spec = ServerSpec::keymill(folder.path(), "d0")
        .env("KEYMILL_LIMITS_UNSENT_MAX_BYTES", UNSENT.to_string());
    let server = Server::start(&spec);
    let stream = u64::from(STREAMS) * (STREAM_BYTES + HEADERS_BYTES);
    let bound = PROCESS_BYTES
        + (HTTP1 + HTTP2) * CONNECTION_BYTES
        + HTTP2 * (stream + BODIES_BYTES)
        + UNSENT / 2;
    let mut highest = 0;
    let mut check = || {
        let rss = rss(server.pid());
        highest = highest.max(rss);
        assert!(rss < bound, "{} MB in use, {} MB stated", rss >> 20, bound >> 20);
    };
    // All of a body of 64 KB but its last byte.
    let head = format!(
        "PUT /v1/spaces/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: {BODY_LEN}\r\n\r\n"
    );
    let mut streams = Vec::new();
    for _ in 0..HTTP1 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // What the server does not read stays in the socket.
        let _ = stream.write_all(&[b' '; BODY_LEN - 1]);
        streams.push(stream);
    }
    check();
    let mut unfinished = Vec::new();
    for _ in 0..HTTP2 {
        let mut connection = Http2::connect(&server);
        connection.send_bodies_without_end();
        unfinished.push(connection);
        check();
    }
    let mut client = Client::new(server.address());
    assert_eq!(client.get("/get-key").unwrap().status, 200);
    // Small bodies wait for nobody.
    put(&server, "small", r#"{"length": 9}"#);
    println!(
        "{HTTP1} bodies over HTTP/1 and {} over HTTP/2 that do not end: at most {} MB in use, {} MB stated",
        HTTP2 * u64::from(STREAMS),
        highest >> 20,
        bound >> 20
    );
}

#[test]
fn small_answers_and_digests_that_nobody_reads_take_bounded_memory() {
    const SMALL: u64 = 40;
    const DIGESTS: u64 = 10;
    const UNSENT: u64 = 16 << 20;
    let folder = tempfile::tempdir().unwrap();
    let spec = ServerSpec::keymill(folder.path(), "d0")
        .env("KEYMILL_LIMITS_UNSENT_MAX_BYTES", UNSENT.to_string());
    let server = Server::start(&spec);
    put(&server, "big", r#"{"blocklist": false, "lease_size_min": 100000000}"#);
    put(&server, "urls", r#"{"kind": "digest"}"#);
    let answers = u64::from(STREAMS) * (STREAM_BYTES + SMALL_ANSWER_BYTES);
    let bound = PROCESS_BYTES
        + (SMALL + DIGESTS) * (CONNECTION_BYTES + answers + BODIES_BYTES)
        + UNSENT
        + UNSENT / 2;
    let mut highest = 0;
    let mut check = || {
        let rss = rss(server.pid());
        highest = highest.max(rss);
        assert!(rss < bound, "{} MB in use, {} MB stated", rss >> 20, bound >> 20);
    };
    let mut deaf: Vec<Http2> = (0..SMALL + DIGESTS).map(|_| Http2::connect(&server)).collect();
    for connection in &mut deaf[..usize::try_from(SMALL).unwrap()] {
        // 10 bytes a key.
        connection.take_on_all_streams("big", 1_600);
        connection.read_heads();
        check();
    }
    for connection in &mut deaf[usize::try_from(SMALL).unwrap()..] {
        connection.digest_on_all_streams("urls");
        check();
    }
    for _ in 0..50 {
        check();
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut client = Client::new(server.address());
    assert_eq!(client.get("/get-key").unwrap().status, 200);
    println!(
        "{} small answers and {} of 1,000 digests each over HTTP/2 and not read: at most {} MB in \
         use, {} MB stated",
        SMALL * u64::from(STREAMS),
        DIGESTS * u64::from(STREAMS),
        highest >> 20,
        bound >> 20
    );
}

#[test]
fn who_holds_the_budget_without_reading_is_cut_off_when_others_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ServerSpec::keymill(folder.path(), "d0")
        .env("KEYMILL_LIMITS_UNSENT_MAX_BYTES", (1 << 20).to_string());
    let mut server = Server::start(&spec);
    put(&server, "big", r#"{"blocklist": false, "lease_size_min": 100000000}"#);
    // Each holds a piece of 8 KB on 64 streams: together all there is.
    let mut deaf: Vec<Http2> = (0..2).map(|_| Http2::connect(&server)).collect();
    for connection in &mut deaf {
        connection.take_on_all_streams("big", COUNT);
        connection.read_heads();
    }
    let mut client = Client::new(server.address()).time_max(Duration::from_secs(60));
    let began = Instant::now();
    assert_eq!(client.get("/get-key").unwrap().status, 200);
    let small = began.elapsed();
    let answer = client.take("big", COUNT).unwrap();
    let large = began.elapsed();
    assert_eq!((answer.status, answer.lines().count()), (200, COUNT as usize));
    println!("the small take after {small:?}, the large one after {large:?}");
    assert!(small < Duration::from_secs(5), "{small:?}");
    server.log_with("disconnected clients that did not read their large answers");
    drop(deaf);
    assert!(server.stop().success());
}

#[test]
fn a_small_take_beside_64_large_ones_is_not_held_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&ServerSpec::keymill(folder.path(), "d0"));
    put(&server, "big", r#"{"lease_size_min": 100000000}"#);
    let (stop, keys) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let large: Vec<_> = (0..64)
        .map(|_| {
            let (address, stop, keys) = (server.address(), stop.clone(), keys.clone());
            std::thread::spawn(move || {
                let mut client = Client::new(address).time_max(Duration::from_secs(120));
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.take("big", COUNT).unwrap();
                    let count = answer.lines().count();
                    assert_eq!((answer.status, count), (200, COUNT as usize));
                    keys.fetch_add(count as u64, Ordering::Relaxed);
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let mut client = Client::new(server.address()).time_max(Duration::from_secs(60));
    let began = Instant::now();
    let mut times = Vec::new();
    while began.elapsed() < Duration::from_secs(5) {
        let asked = Instant::now();
        assert_eq!(client.get("/get-key").unwrap().status, 200);
        times.push(asked.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
    stop.store(true, Ordering::Relaxed);
    for thread in large {
        thread.join().unwrap();
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "beside 64 connections that take {COUNT} keys each: {} small takes, p50 {:?}, p95 {:?}, \
         longest {:?}; {} keys in the large ones",
        times.len(),
        at(50),
        at(95),
        at(100),
        keys.load(Ordering::Relaxed)
    );
    assert!(at(50) < Duration::from_secs(1), "{:?}", at(50));
}

/// A connection over HTTP/2 that allows no byte of any body to be sent.
struct Http2 {
    stream: TcpStream,
}

impl Http2 {
    fn connect(server: &Server) -> Http2 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        // SETTINGS with an initial window (4) of nothing.
        stream.write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])).unwrap();
        Http2 { stream }
    }

    fn take_on_all_streams(&mut self, space: &str, count: u32) {
        let path = format!("/v1/spaces/{space}/keys?count={count}");
        // POST and http from the static table, then path and authority as they are.
        let mut head = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        head.extend_from_slice(path.as_bytes());
        head.extend_from_slice(b"\x01\x09localhost");
        let frames: Vec<u8> =
            (0..STREAMS).flat_map(|number| frame(1, 0x5, 2 * number + 1, &head)).collect();
        self.stream.write_all(&frames).unwrap();
    }

    /// Asks for a thousand digests on every stream.
    fn digest_on_all_streams(&mut self, space: &str) {
        let path = format!("/v1/spaces/{space}/digests");
        let inputs: Vec<String> = (0..1_000).map(|number| format!("\"{number}\"")).collect();
        let body = format!("{{\"inputs\":[{}]}}", inputs.join(","));
        let mut head = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        head.extend_from_slice(path.as_bytes());
        head.extend_from_slice(b"\x01\x09localhost\x0f\x10\x10application/json");
        self.send_bodies(&head, body.as_bytes(), true);
    }

    /// Begins a request with large headers and a large body on every stream, and sends as much of the
    /// bodies as the server lets it, but for the last byte of each.
    fn send_bodies_without_end(&mut self) {
        let mut head =
            b"\x02\x03PUT\x86\x04\x0c/v1/spaces/x\x01\x09localhost\x0f\x0d\x0565536".to_vec();
        // 7,000 bytes: the length has 7 bits, then 7 more in each byte.
        head.extend_from_slice(b"\x00\x03big\x7f\xd9\x35");
        head.extend_from_slice(&[b'x'; 7_000]);
        self.send_bodies(&head, &[b' '; BODY_LEN - 1], false);
    }

    /// Sends one body on every stream, as flow control allows, until nothing more is allowed for a
    /// while.
    fn send_bodies(&mut self, head: &[u8], body: &[u8], ends: bool) {
        let mut windows = [65_535_i64; STREAMS as usize + 1];
        let mut sent = [0; STREAMS as usize];
        for number in 0..STREAMS {
            self.stream.write_all(&frame(1, 0x4, 2 * number + 1, head)).unwrap();
        }
        self.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        loop {
            for (number, sent) in sent.iter_mut().enumerate() {
                let room = windows[0].min(windows[number + 1]).clamp(0, 16 << 10);
                let len = usize::try_from(room).unwrap().min(body.len() - *sent);
                if len > 0 {
                    let (at, id) = (*sent, 2 * u32::try_from(number).unwrap() + 1);
                    *sent += len;
                    let flags = u8::from(ends && *sent == body.len());
                    self.stream.write_all(&frame(0, flags, id, &body[at..*sent])).unwrap();
                    windows[0] -= i64::try_from(len).unwrap();
                    windows[number + 1] -= i64::try_from(len).unwrap();
                }
            }
            let Some((kind, id, payload)) = self.read_frame() else { return };
            let number = |bytes: &[u8]| i64::from(u32::from_be_bytes(bytes.try_into().unwrap()));
            match kind {
                // SETTINGS, in which 4 is the window of streams.
                4 => payload.chunks(6).filter(|it| it[..2] == [0, 4]).for_each(|it| {
                    windows[1..].iter_mut().for_each(|window| *window += number(&it[2..]) - 65_535);
                }),
                // WINDOW_UPDATE.
                8 => windows[id as usize / 2 + usize::from(id > 0)] += number(&payload),
                _ => {}
            }
        }
    }

    /// The next frame: its type, its stream and its payload; `None` where none comes for a while.
    fn read_frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut start = [0; 9];
        self.stream.read_exact(&mut start).ok()?;
        let len = u32::from_be_bytes([0, start[0], start[1], start[2]]);
        let mut payload = vec![0; len as usize];
        self.stream.read_exact(&mut payload).unwrap();
        let stream = u32::from_be_bytes([start[5], start[6], start[7], start[8]]);
        Some((start[3], stream, payload))
    }

    /// Waits until every stream was answered with a status line.
    fn read_heads(&mut self) {
        let mut heads = 0;
        while heads < STREAMS {
            let (kind, _, _) = self.read_frame().expect("every stream is answered");
            assert!([1, 4, 6, 8].contains(&kind), "a frame of type {kind}");
            heads += u32::from(kind == 1);
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![len[1], len[2], len[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The memory of a process that is its own and in use.
fn rss(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// As many open files as the system lets us have: each connection is one.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}
