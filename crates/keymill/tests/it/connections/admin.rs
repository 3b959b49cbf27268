//! The admin listener: what is answered only there, and that it has connections of its own.

use std::time::Duration;

use keymill::server::{Endpoint, Listeners, ServerLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::HEALTHZ;
use crate::http::{Answer, Instance};

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// An instance with an admin listener, and the address of that.
async fn start(limits: ServerLimits) -> (Instance, std::net::SocketAddr) {
    let local = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
    let listeners = Listeners::bind(std::slice::from_ref(&local), Some(&local)).await.unwrap();
    let Some(Endpoint::Tcp(admin)) = listeners.admin().unwrap() else { panic!("{listeners:?}") };
    (Instance::start_at(listeners, None, limits).await, admin)
}

async fn ask(address: std::net::SocketAddr, method: &str, path: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream)).await.expect("it is answered")
}

#[tokio::test]
async fn administration_metrics_and_pages_are_answered_only_there() {
    let (instance, admin) = start(ServerLimits::default()).await;
    for (method, path, status) in [
        ("GET", "/metrics", 200),
        ("GET", "/docs", 200),
        ("GET", "/docs/style.css", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/", 200),
        ("GET", "/page/script.js", 200),
        ("GET", "/v1/session", 200),
        ("PUT", "/v1/spaces/links", 201),
    ] {
        let hidden = ask(instance.address, method, path).await;
        hidden.is_problem(404, "not_found", "is not answered on this address");
        assert_eq!(ask(admin, method, path).await.status, status, "{method} {path}");
    }
    for address in [instance.address, admin] {
        for (method, path) in [
            ("GET", "/healthz"),
            ("GET", "/readyz"),
            ("GET", "/get-key"),
            ("GET", "/v1/spaces/links"),
            ("POST", "/v1/spaces/links/keys"),
        ] {
            assert_eq!(ask(address, method, path).await.status, 200, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn without_it_everything_is_answered_on_the_one_listener() {
    let instance = Instance::start().await;
    assert_eq!(instance.call("GET", "/metrics").await.status, 200);
    assert_eq!(instance.call("PUT", "/v1/spaces/links").await.status, 201);
}

#[tokio::test]
async fn it_answers_when_all_other_connections_are_in_use() {
    let limits = ServerLimits { connections_max: 1, ..ServerLimits::default() };
    let (instance, admin) = start(limits).await;
    let mut held = TcpStream::connect(instance.address).await.unwrap();
    held.write_all(HEALTHZ.as_bytes()).await.unwrap();
    held.read_exact(&mut [0; 15]).await.unwrap();
    assert_eq!(ask(instance.address, "GET", "/get-key").await.status, 503);
    for path in ["/healthz", "/readyz", "/metrics", "/v1/spaces", "/get-key"] {
        assert_eq!(ask(admin, "GET", path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_stop_waits_for_its_requests_too() {
    let (mut instance, admin) = start(ServerLimits::default()).await;
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let head = "PUT /v1/spaces/late HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json\r\ncontent-length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // Accepted after it, and answered: so that one has arrived, too.
    assert_eq!(ask(admin, "GET", "/healthz").await.status, 200);
    instance.stop.take().unwrap().send(()).unwrap();
    while TcpStream::connect(admin).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stream.write_all(b"{}").await.unwrap();
    let answer = timeout(PATIENCE, Answer::read(&mut stream)).await.expect("it is answered");
    assert_eq!(answer.status, 201, "{}", answer.body);
    timeout(PATIENCE, &mut instance.ended).await.expect("it ends").unwrap();
}
