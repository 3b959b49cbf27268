//! What holds for every request, whatever it asks for: its host, its name, the length of its body.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Answer, Instance};

#[tokio::test]
async fn a_request_names_exactly_one_host() {
    let instance = Instance::start().await;
    let ask = async |version: &str, headers: &str| {
        let request = format!("GET /get-key HTTP/{version}\r\nconnection: close\r\n{headers}\r\n");
        instance.ask(&request).await
    };
    ask("1.1", "").await.is_problem(400, "bad_host", "no `Host`");
    ask("1.1", "host: a\r\nhost: a\r\n").await.is_problem(400, "bad_host", "more than one");
    ask("1.0", "host: a\r\nhost: b\r\n").await.is_problem(400, "bad_host", "more than one");
    for host in ["a/b", "a b", "me@a", "a\\b", &"a".repeat(261)] {
        ask("1.1", &format!("host: {host}\r\n")).await.is_problem(400, "bad_host", "valid host");
    }
    for host in ["localhost", "127.0.0.1:8080", "[::1]:80"] {
        assert_eq!(ask("1.1", &format!("host: {host}\r\n")).await.status, 200, "{host}");
    }
    // Hosts, but not names of this server.
    for host in ["keys.example", "my_host", ""] {
        ask("1.1", &format!("host: {host}\r\n")).await.is_problem(403, "foreign_host", host);
    }
    assert_eq!(ask("1.0", "").await.status, 200);
}

/// As a client sends it to a proxy: what that has checked must be what counts here.
#[tokio::test]
async fn a_host_in_the_url_is_the_one_in_the_header() {
    let instance = Instance::start().await;
    let ask = async |url: &str, headers: &str| {
        let request = format!("GET {url} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
        instance.ask(&request).await
    };
    let says = "another one in its `Host` header";
    for (url, host) in [
        ("http://localhost/get-key", "evil.example"),
        ("http://evil.example/get-key", "localhost"),
        ("http://localhost:8080/get-key", "localhost:9090"),
        ("http://me@localhost/get-key", "localhost"),
        ("http://evil.example/healthz", "localhost"),
    ] {
        let refused = ask(url, &format!("host: {host}\r\n")).await;
        refused.is_problem(400, "bad_host", says);
    }
    assert_eq!(ask("http://LOCALHOST:8080/get-key", "host: localhost:8080\r\n").await.status, 200);
    let foreign = ask("http://evil.example/get-key", "host: evil.example\r\n").await;
    foreign.is_problem(403, "foreign_host", "evil.example");
}

#[tokio::test]
async fn every_answer_and_every_problem_names_its_request() {
    let instance = Instance::start().await;
    let mut ids = Vec::new();
    for (method, path) in [
        ("GET", "/get-key"),
        ("GET", "/healthz"),
        ("POST", "/v1/spaces/nope/keys"),
        ("GET", "/v1/spaces/nope"),
        ("GET", "/nowhere"),
        ("POST", "/healthz"),
        ("POST", "/v1/spaces/default/pool"),
    ] {
        let given = instance.send(method, path, "x-request-id: job-7.a:1\r\n", "").await;
        assert_eq!(given.header("x-request-id"), Some("job-7.a:1"), "{path}");
        let made = instance.call(method, path).await;
        let id = made.header("x-request-id").expect("it was made").to_owned();
        if made.status >= 400 {
            assert_eq!(given.json()["request_id"], "job-7.a:1", "{path}");
            assert_eq!(made.json()["request_id"], json!(id), "{path}");
            let length = made.header("content-length").unwrap().parse();
            assert_eq!(length, Ok(made.body.len()), "{path}");
        }
        ids.push(id);
    }
    for bad in ["a b", "\"", "{x}", "a,b", &"x".repeat(129)] {
        let answer = instance.send("GET", "/", &format!("x-request-id: {bad}\r\n"), "").await;
        let id = answer.header("x-request-id").expect("it was made").to_owned();
        assert_ne!(id, bad);
        ids.push(id);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 12, "{ids:?}");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_before_it_is_sent() {
    let instance = Instance::start().await;
    for path in ["/v1/spaces/big", "/v1/spaces/default/aliases/a"] {
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nexpect: 100-continue\r\n\
             content-length: 4097\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(8), Answer::read(&mut stream)).await;
        answer.expect("nothing else is waited for").is_problem(413, "body_too_large", "4096");
    }
    // One that fits is asked for.
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    let head = "PUT /v1/spaces/small HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 25];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{}").await.unwrap();
    assert_eq!(Answer::read(&mut stream).await.status, 201);
}

/// Takes as long as a client may trickle before it is cut off: about half a minute of waiting.
#[tokio::test]
async fn imports_that_trickle_lose_their_places() {
    let instance = Instance::start().await;
    instance.put("pool", &json!({"kind": "pooled"})).await;
    let mut trickles = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        let head = "POST /v1/spaces/pool/pool HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                    content-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        trickles.push(tokio::spawn(async move {
            let (mut from, mut to) = stream.into_split();
            let trickle = async {
                // Often enough that the time for a single piece is never over.
                while to.write_all(b"1\r\n7\r\n").await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
                std::future::pending::<()>().await;
            };
            let mut status = [0; 12];
            tokio::select! {
                read = from.read_exact(&mut status) => { read.unwrap(); },
                () = trickle => unreachable!("it never ends"),
            }
            status
        }));
    }
    let plain = "content-type: text/plain\r\n";
    let import = async || instance.send("POST", "/v1/spaces/pool/pool", plain, "abc1234\n").await;
    let begin = std::time::Instant::now();
    // Until all eight have been heard of.
    while import().await.status != 503 {
        assert!(begin.elapsed().as_secs() < 10, "eight imports do not occupy all places");
    }
    while import().await.status != 200 {
        assert!(begin.elapsed().as_secs() < 180, "no place is ever free again");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    for trickle in trickles {
        let status = trickle.await.unwrap();
        assert_eq!(String::from_utf8_lossy(&status), "HTTP/1.1 408");
    }
}
