//! Requests one behind the other, and what is no request.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{HEALTHZ, read_answer, read_to_end};
use crate::http::Instance;

#[tokio::test]
async fn a_blank_line_behind_a_request_does_not_hold_up_its_answer() {
    let instance = Instance::start().await;
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    for _ in 0..2 {
        stream.write_all(format!("{HEALTHZ}\r\n").as_bytes()).await.unwrap();
        let answer = read_answer(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn valid_requests_are_answered_before_the_garbage_behind_them_is_refused() {
    let instance = Instance::start().await;
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    let request = format!("{HEALTHZ}{HEALTHZ}\0garbage\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert_eq!(statuses(&answer), ["200", "200", "400"], "{answer}");
}

#[tokio::test]
async fn malformed_requests_are_told_so() {
    let instance = Instance::start().await;
    let many = "x: y\r\n".repeat(200);
    // Most of it is unread when the server answers, and must not cost the answer.
    let large = format!("x: {}\r\n", "y".repeat(200_000));
    for (request, status) in [
        ("GARBAGE\r\n\r\n".to_owned(), "400"),
        ("GET /healthz HTTP/9.9\r\nhost: localhost\r\n\r\n".to_owned(), "400"),
        ("GET /healthz HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), "400"),
        (format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"), "431"),
        (format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{large}\r\n"), "431"),
    ] {
        let mut stream = TcpStream::connect(instance.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert_eq!(statuses(&answer), [status], "{answer}");
    }
}

#[tokio::test]
async fn answers_that_are_not_read_are_not_made() {
    let instance = Instance::start().await;
    let mut deaf = TcpStream::connect(instance.address).await.unwrap();
    let request = "POST /v1/spaces/default/keys?count=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // 55 MB of answers; the buffers of two sockets have a few.
    deaf.write_all(request.repeat(500).as_bytes()).await.unwrap();
    let mut drawn = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = std::mem::replace(&mut drawn, keys_drawn(&instance).await);
        if drawn > 0 && drawn == before {
            break;
        }
    }
    assert!(drawn < 2_500_000, "{drawn} keys were drawn for a client that reads none");
}

async fn keys_drawn(instance: &Instance) -> u64 {
    let metrics = instance.call("GET", "/metrics").await.body;
    let mut lines = metrics.lines();
    let drawn = "keymill_keys_total{space=\"default\",kind=\"shuffled\"} ";
    let drawn = lines.find_map(|line| line.strip_prefix(drawn));
    drawn.map_or(0, |drawn| drawn.parse().unwrap())
}

fn statuses(answers: &str) -> Vec<&str> {
    answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect()
}
