//! Several listeners, and Unix sockets among them.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use keymill::front::addresses::AddressRules;
use keymill::server::{Endpoint, Listeners, ServerLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixSocket, UnixStream};
use tokio::time::timeout;

use super::HEALTHZ;
use crate::http::{Answer, Instance};

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);

fn unix(path: &Path) -> Endpoint {
    Endpoint::Unix(path.to_owned())
}

fn loopback() -> Endpoint {
    Endpoint::Tcp(([127, 0, 0, 1], 0).into())
}

async fn ask_at(path: &Path, start: &str, target: &str) -> Answer {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let request =
        format!("{start}GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    timeout(PATIENCE, Answer::read(&mut stream)).await.expect("it is answered")
}

#[tokio::test]
async fn a_unix_socket_is_for_its_owner_and_group_and_gone_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keymill.sock");
    let listeners = Listeners::bind(&[unix(&path)], None).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "{mode:o}");
    let mut instance = Instance::start_at(listeners, None, ServerLimits::default()).await;
    let answer = ask_at(&path, "", "/get-key").await;
    assert_eq!((answer.status, answer.body.len()), (200, 7), "{}", answer.head);
    instance.stop.take().unwrap().send(()).unwrap();
    timeout(PATIENCE, &mut instance.ended).await.expect("it ends").unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn a_socket_that_nothing_answers_on_is_replaced_and_any_other_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keymill.sock");
    // As a process leaves it that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listeners = Listeners::bind(&[unix(&path)], None).await.unwrap();
    let refused = Listeners::bind(&[unix(&path)], None).await.unwrap_err();
    assert_eq!(refused.source.kind(), ErrorKind::AddrInUse);
    assert!(refused.source.to_string().contains("another process answers"), "{refused:?}");
    assert!(UnixStream::connect(&path).await.is_ok(), "the refusal has removed nothing");
    drop(listeners);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    let refused = Listeners::bind(&[unix(&path)], None).await.unwrap_err();
    assert!(refused.source.to_string().contains("not a socket"), "{refused:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[tokio::test]
async fn a_socket_that_was_replaced_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keymill.sock");
    let first = Listeners::bind(&[unix(&path)], None).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let _second = Listeners::bind(&[unix(&path)], None).await.unwrap();
    drop(first);
    assert!(UnixStream::connect(&path).await.is_ok());
}

#[tokio::test]
async fn a_full_backlog_counts_as_answering() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keymill.sock");
    let busy = UnixSocket::new_stream().unwrap();
    busy.bind(&path).unwrap();
    let _busy = busy.listen(1).unwrap();
    // It accepts none, and the system keeps some of them.
    let mut waiting = Vec::new();
    let full = loop {
        match UnixStream::connect(&path).await {
            Ok(stream) => waiting.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    let refused = timeout(PATIENCE, Listeners::bind(&[unix(&path)], None)).await;
    let refused = refused.expect("it does not wait").unwrap_err();
    assert_eq!(refused.source.kind(), ErrorKind::AddrInUse);
}

#[tokio::test]
async fn all_listeners_answer_and_share_their_connections() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keymill.sock");
    let endpoints = [loopback(), unix(&path), loopback()];
    let listeners = Listeners::bind(&endpoints, None).await.unwrap();
    let bound = listeners.public().unwrap();
    let [Endpoint::Tcp(first), _, Endpoint::Tcp(second)] = bound[..] else { panic!("{bound:?}") };
    assert_ne!(first, second);
    let limits = ServerLimits { connections_max: 1, ..ServerLimits::default() };
    let _instance = Instance::start_at(listeners, None, limits).await;
    for _ in 0..3 {
        for address in [first, second] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(HEALTHZ.as_bytes()).await.unwrap();
            stream.read_exact(&mut [0; 15]).await.unwrap();
        }
        assert_eq!(ask_at(&path, "", "/healthz").await.status, 200);
    }
    let held = async {
        // The one place may not be free yet.
        loop {
            let mut stream = TcpStream::connect(first).await.unwrap();
            let request = "GET /get-key HTTP/1.1\r\nhost: localhost\r\n\r\n";
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.unwrap();
            if &status == b"HTTP/1.1 200" {
                return stream;
            }
        }
    };
    let _held = timeout(PATIENCE, held).await.expect("there is a place");
    ask_at(&path, "", "/get-key").await.is_problem(503, "too_many_connections", "in use");
    let mut stream = TcpStream::connect(second).await.unwrap();
    let request = "GET /get-key HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut stream).await.status, 503);
}

#[tokio::test]
async fn who_connects_through_a_unix_socket_counts_as_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keymill.sock");
    let listeners = Listeners::bind(&[unix(&path)], None).await.unwrap();
    let instance = Instance::start_at(listeners, None, ServerLimits::default()).await;
    let rules = AddressRules { connections_per_address_max: 1, ..AddressRules::default() };
    instance.http.set_address_rules(rules);
    let _others =
        [UnixStream::connect(&path).await.unwrap(), UnixStream::connect(&path).await.unwrap()];
    assert_eq!(ask_at(&path, "", "/get-key").await.status, 200);
    // A proxy on this machine may name its client there, and that is counted.
    let trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    let rules = AddressRules { trusted_proxies, connections_per_address_max: 1 };
    instance.http.set_address_rules(rules);
    let header = "PROXY TCP4 192.0.2.1 198.51.100.1 4711 80\r\n";
    let mut held = UnixStream::connect(&path).await.unwrap();
    held.write_all(format!("{header}{HEALTHZ}").as_bytes()).await.unwrap();
    held.read_exact(&mut [0; 15]).await.unwrap();
    // Without a request: what is not read when the server closes would reset the connection.
    let mut refused = UnixStream::connect(&path).await.unwrap();
    refused.write_all(header.as_bytes()).await.unwrap();
    let answer = timeout(PATIENCE, Answer::read(&mut refused)).await.expect("it is answered");
    answer.is_problem(503, "too_many_connections", "your address");
    let other = "PROXY TCP4 192.0.2.2 198.51.100.1 4711 80\r\n";
    assert_eq!(ask_at(&path, other, "/healthz").await.status, 200);
    assert_eq!(ask_at(&path, "", "/healthz").await.status, 200, "it speaks for itself");
}

#[tokio::test]
async fn ipv4_and_ipv6_can_have_the_same_port() {
    let Ok(free) = TcpListener::bind("[::1]:0").await else {
        eprintln!("\n*** NOT TESTED: this machine has no IPv6 ***\n");
        return;
    };
    let port = free.local_addr().unwrap().port();
    drop(free);
    let endpoint = |text: &str| Endpoint::Tcp(format!("{text}:{port}").parse().unwrap());
    let both = [endpoint("[::]"), endpoint("0.0.0.0")];
    let listeners = Listeners::bind(&both, None).await.unwrap();
    let _instance = Instance::start_at(listeners, None, ServerLimits::default()).await;
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(HEALTHZ.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 15]).await.unwrap();
    }
}
