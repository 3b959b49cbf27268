//! Large takes and slow requests beside everybody else: what they take in memory, who is cut off for
//! it, and how long a small take waits beside many of them.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keymill_proof::{Client, Deployment, End, Server, ServerSpec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::http2::{BODY_LEN, Http2, STREAMS};
use super::put;

/// As the README states it: the process itself, each connection, each HTTP/2 request under way with what its
/// headers and its small answer take, and the bodies of one HTTP/2 connection.
const PROCESS_BYTES: u64 = 64 << 20;
const CONNECTION_BYTES: u64 = 64 << 10;
const STREAM_BYTES: u64 = 8 << 10;
const HEADERS_BYTES: u64 = 24 << 10;
const SMALL_ANSWER_BYTES: u64 = 16 << 10;
const BODIES_BYTES: u64 = 256 << 10;

/// How many keys a large take is for.
const COUNT: u32 = 100_000;
/// A keyspace with enough at hand for all of them, and nothing to look at before the text is made.
const BIG: &str = r#"{"blocklist": false, "lease_size_min": 100000000}"#;
/// How much of large answers may wait to be sent.
const UNSENT: u64 = 16 << 20;

#[test]
fn answers_that_nobody_reads_take_bounded_memory_and_hold_up_nobody() {
    const DEAF: u64 = 2_000;
    const DEAF_HTTP2: u64 = 8;
    allow_open_files();
    let deployment = Deployment::sqlite();
    let server = limited(&deployment, UNSENT)
        .env("KEYMILL_LIMITS_WAITING_MAX", "4096")
        .env("KEYMILL_LIMITS_WAIT_SECONDS", "60")
        .start();
    put(&server, "big", BIG);
    let bound = PROCESS_BYTES
        + (DEAF + DEAF_HTTP2) * CONNECTION_BYTES
        + DEAF_HTTP2 * u64::from(STREAMS) * STREAM_BYTES
        + UNSENT;
    let mut memory = Memory { of: &server, bound, highest: 0 };
    let mut deaf: Vec<Http2> = (0..DEAF_HTTP2).map(|_| Http2::deaf(server.address())).collect();
    for connection in &mut deaf {
        connection.take_on_all_streams("big", COUNT);
        memory.check();
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
            memory.check();
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
        memory.check();
        std::thread::sleep(Duration::from_millis(100));
    }
    println!(
        "{DEAF} takes over HTTP/1 and {} over HTTP/2, of {COUNT} keys each and not read: {memory}",
        DEAF_HTTP2 * u64::from(STREAMS)
    );
}

#[test]
fn a_contract_that_nobody_reads_takes_bounded_memory() {
    const DEAF: u64 = 40;
    let deployment = Deployment::sqlite();
    let server = limited(&deployment, UNSENT).start();
    let stream = STREAM_BYTES + SMALL_ANSWER_BYTES;
    let bound = PROCESS_BYTES
        + DEAF * (CONNECTION_BYTES + BODIES_BYTES + u64::from(STREAMS) * stream)
        + UNSENT / 2;
    let mut memory = Memory { of: &server, bound, highest: 0 };
    let mut deaf = Vec::new();
    for _ in 0..DEAF {
        let mut connection = Http2::deaf(server.address());
        connection.reflect_on_all_streams();
        deaf.push(connection);
        memory.check();
    }
    let mut client = Client::new(server.address());
    for _ in 0..20 {
        assert_eq!(client.get("/get-key").unwrap().status, 200);
        memory.check();
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("{} questions for the contract, not read: {memory}", DEAF * u64::from(STREAMS) * 30);
}

#[test]
fn requests_that_do_not_end_take_bounded_memory() {
    const HTTP1: u64 = 500;
    const HTTP2: u64 = 40;
    let deployment = Deployment::sqlite();
    let server = limited(&deployment, UNSENT).start();
    let stream = u64::from(STREAMS) * (STREAM_BYTES + HEADERS_BYTES);
    let bound = PROCESS_BYTES
        + (HTTP1 + HTTP2) * CONNECTION_BYTES
        + HTTP2 * (stream + BODIES_BYTES)
        + UNSENT / 2;
    let mut memory = Memory { of: &server, bound, highest: 0 };
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
    memory.check();
    let mut unfinished = Vec::new();
    for _ in 0..HTTP2 {
        let mut connection = Http2::deaf(server.address());
        connection.send_bodies_without_end();
        unfinished.push(connection);
        memory.check();
    }
    let mut client = Client::new(server.address());
    assert_eq!(client.get("/get-key").unwrap().status, 200);
    // Small bodies wait for nobody.
    put(&server, "small", r#"{"length": 9}"#);
    println!(
        "{HTTP1} bodies over HTTP/1 and {} over HTTP/2 that do not end: {memory}",
        HTTP2 * u64::from(STREAMS)
    );
}

#[test]
fn small_answers_and_digests_that_nobody_reads_take_bounded_memory() {
    const SMALL: u64 = 40;
    const DIGESTS: u64 = 10;
    let deployment = Deployment::sqlite();
    let server = limited(&deployment, UNSENT).start();
    put(&server, "big", BIG);
    put(&server, "urls", r#"{"kind": "digest"}"#);
    let answers = u64::from(STREAMS) * (STREAM_BYTES + SMALL_ANSWER_BYTES);
    let bound = PROCESS_BYTES
        + (SMALL + DIGESTS) * (CONNECTION_BYTES + answers + BODIES_BYTES)
        + UNSENT
        + UNSENT / 2;
    let mut memory = Memory { of: &server, bound, highest: 0 };
    let mut deaf: Vec<Http2> =
        (0..SMALL + DIGESTS).map(|_| Http2::deaf(server.address())).collect();
    for connection in &mut deaf[..usize::try_from(SMALL).unwrap()] {
        // 10 bytes a key.
        connection.take_on_all_streams("big", 1_600);
        connection.read_heads();
        memory.check();
    }
    for connection in &mut deaf[usize::try_from(SMALL).unwrap()..] {
        connection.digest_on_all_streams("urls");
        memory.check();
    }
    for _ in 0..50 {
        memory.check();
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut client = Client::new(server.address());
    assert_eq!(client.get("/get-key").unwrap().status, 200);
    println!(
        "{} small answers and {} of 1,000 digests each over HTTP/2 and not read: {memory}",
        SMALL * u64::from(STREAMS),
        DIGESTS * u64::from(STREAMS)
    );
}

#[test]
fn who_holds_the_budget_without_reading_is_cut_off_when_others_wait_for_it() {
    let deployment = Deployment::sqlite();
    let mut server = limited(&deployment, 1 << 20).start();
    put(&server, "big", BIG);
    // Each holds a piece of 8 KB on 64 streams: together all there is.
    let mut deaf: Vec<Http2> = (0..2).map(|_| Http2::deaf(server.address())).collect();
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
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    put(&server, "big", r#"{"lease_size_min": 100000000}"#);
    let (address, end, keys) = (server.address(), End::default(), AtomicU64::new(0));
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        let _end = end.when_dropped();
        for _ in 0..64 {
            scope.spawn(|| {
                let mut client = Client::new(address).time_max(Duration::from_secs(120));
                while !end.has_come() {
                    let answer = client.take("big", COUNT).unwrap();
                    let count = answer.lines().count();
                    assert_eq!((answer.status, count), (200, COUNT as usize));
                    keys.fetch_add(count as u64, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(1));
        let mut client = Client::new(address).time_max(Duration::from_secs(60));
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            let asked = Instant::now();
            assert_eq!(client.get("/get-key").unwrap().status, 200);
            times.push(asked.elapsed());
            std::thread::sleep(Duration::from_millis(2));
        }
    });
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

/// A server that lets so much of large answers wait to be sent.
fn limited(deployment: &Deployment, unsent: u64) -> ServerSpec {
    deployment.server("d0").env("KEYMILL_LIMITS_UNSENT_MAX_BYTES", unsent.to_string())
}

/// The memory of a server, which has a bound that the README states.
struct Memory<'a> {
    of: &'a Server,
    bound: u64,
    highest: u64,
}

impl Memory<'_> {
    #[track_caller]
    fn check(&mut self) {
        self.highest = self.highest.max(rss(self.of.pid()));
        assert!(self.highest < self.bound, "{self}");
    }
}

impl fmt::Display for Memory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} MB in use, {} MB stated", self.highest >> 20, self.bound >> 20)
    }
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
