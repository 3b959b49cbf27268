//! Connections beyond a limit: who is answered all the same, and what the others are told.

use std::time::Duration;

use keymill::server::{RESERVE, ServerLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::Instance;

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that has its place: it was answered, and stays open.
async fn hold(instance: &Instance) -> TcpStream {
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    stream.read_exact(&mut [0; 15]).await.unwrap();
    stream
}

#[tokio::test]
async fn when_connections_run_out_health_and_metrics_are_answered_and_everything_else_is_refused() {
    let limits = ServerLimits { connections_max: 2, ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    let mut held = vec![hold(&instance).await, hold(&instance).await];
    for path in ["/healthz", "/readyz", "/metrics"] {
        let health = timeout(PATIENCE, instance.call("GET", path)).await.expect("it is answered");
        assert_eq!(health.status, 200, "{path}");
        assert_eq!(health.header("connection"), Some("close"));
    }
    for (method, path) in [("GET", "/get-key"), ("POST", "/v1/spaces/default/keys"), ("GET", "/")] {
        let refused = timeout(PATIENCE, instance.call(method, path)).await.expect("it is answered");
        refused.is_problem(503, "too_many_connections", "in use");
        assert_eq!(refused.header("connection"), Some("close"));
        assert!(refused.header("retry-after").is_some(), "{}", refused.head);
    }
    // Without being asked to close, too.
    let mut stream = TcpStream::connect(instance.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it ends").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    held.pop();
    let served = async { while instance.call("GET", "/get-key").await.status != 200 {} };
    timeout(PATIENCE, served).await.expect("a place is free again");
    let metrics = instance.call("GET", "/metrics").await.body;
    let counted = metrics
        .lines()
        .find_map(|line| line.strip_prefix("keymill_connections_refused_total{reason=\"full\"} "));
    assert!(counted.unwrap().parse::<u64>().unwrap() >= 6, "{metrics}");
}

#[tokio::test]
async fn silent_connections_do_not_keep_health_checks_out() {
    let limits = ServerLimits { connections_max: 1, ..ServerLimits::default() };
    let instance = Instance::start_with(limits).await;
    let mut silent = vec![hold(&instance).await];
    for _ in 0..3 * RESERVE {
        silent.push(TcpStream::connect(instance.address).await.unwrap());
    }
    let health = timeout(PATIENCE, instance.call("GET", "/healthz")).await;
    assert_eq!(health.expect("it is answered").status, 200);
}

#[tokio::test]
async fn a_silent_connection_beyond_the_limit_is_ended_soon() {
    // Far from any other limit.
    let long = Duration::from_secs(600);
    let limits = ServerLimits {
        connections_max: 1,
        header_time_max: long,
        idle_time_max: long,
        ..ServerLimits::default()
    };
    let instance = Instance::start_with(limits).await;
    let _held = hold(&instance).await;
    let mut silent = TcpStream::connect(instance.address).await.unwrap();
    let ended = timeout(PATIENCE, silent.read(&mut [0; 1])).await;
    assert!(!matches!(ended.expect("it ends"), Ok(1)), "nothing was asked");
}
