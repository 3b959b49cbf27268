//! What is told of TLS: handshakes that fail, certificates that end, reloads that fail.

use std::sync::Arc;
use std::time::Duration;

use keymill::server::{Endpoint, Listeners, ServerLimits, Tls, TlsFiles};
use rcgen::SanType;
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::certificates::{Authority, Pair, shake_hands};
use crate::http::{Answer, Instance};

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);
const DAY: i64 = 86_400;

struct Secured {
    instance: Instance,
    authority: Authority,
    tls: Arc<Tls>,
    folder: tempfile::TempDir,
}

impl Secured {
    /// An instance whose certificate ends after so many seconds, with an authority for clients.
    async fn start(ends_after: i64) -> Secured {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        let client_ca = folder.path().join("clients.pem");
        std::fs::write(&client_ca, authority.pem()).unwrap();
        let files = authority.server_for(ends_after).write(folder.path());
        let files = TlsFiles { client_ca: Some(client_ca), ..files };
        let tls = Arc::new(Tls::load(files).unwrap());
        let endpoint = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
        let listeners = Listeners::bind(&[endpoint], None).await.unwrap();
        let listeners = listeners.with_tls(Some(tls.clone()));
        let instance = Instance::start_at(listeners, None, ServerLimits::default()).await;
        Secured { instance, authority, tls, folder }
    }

    async fn connect(&self, pair: Option<&Pair>) -> std::io::Result<TlsStream<TcpStream>> {
        let connector = self.authority.connector(pair, &[&TLS12, &TLS13], "http/1.1");
        let stream = TcpStream::connect(self.instance.address).await.unwrap();
        shake_hands(&connector, stream).await
    }

    /// What a client that trusts any certificate is answered.
    async fn ask(&self, path: &str) -> Answer {
        let connector = self.authority.careless_connector();
        let stream = TcpStream::connect(self.instance.address).await.unwrap();
        let mut stream = shake_hands(&connector, stream).await.unwrap();
        stream.write_all(request(path, "connection: close\r\n").as_bytes()).await.unwrap();
        Answer::read(&mut stream).await
    }

    /// The codes of readiness, which is never in doubt.
    async fn problems(&self) -> Vec<Value> {
        let answer = self.ask("/readyz").await;
        let ready = answer.json();
        assert_eq!((answer.status, &ready["ready"]), (200, &json!(true)), "{ready}");
        ready["problems"].as_array().unwrap().iter().map(|it| it["code"].clone()).collect()
    }

    async fn metric(&self, name: &str) -> Option<String> {
        let metrics = self.ask("/metrics").await.body;
        let mut lines = metrics.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_owned()))
    }
}

fn request(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")
}

#[tokio::test]
async fn handshakes_that_fail_are_counted_and_probes_of_the_port_are_not() {
    let secured = Secured::start(365 * DAY).await;
    let refused = async || {
        let count = secured.metric("keymill_tls_handshakes_refused_total").await;
        count.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(refused().await, 0);
    // Somebody who only looks whether the port is open.
    drop(TcpStream::connect(secured.instance.address).await.unwrap());
    // A client that speaks no TLS, and one whose certificate is of another authority.
    let mut plain = TcpStream::connect(secured.instance.address).await.unwrap();
    plain.write_all(request("/get-key", "").as_bytes()).await.unwrap();
    let _ = plain.read_to_end(&mut Vec::new()).await;
    let names = || vec![SanType::DnsName("shop.example".try_into().unwrap())];
    let stranger = Authority::new().client(names());
    if let Ok(mut stream) = secured.connect(Some(&stranger)).await {
        // With TLS 1.3, a client hears of it when it reads.
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut [0])).await;
        assert!(read.expect("the server ends it").is_err());
    }
    // One that is right is not counted.
    let mut right = secured.connect(Some(&secured.authority.client(names()))).await.unwrap();
    right.write_all(request("/healthz", "connection: close\r\n").as_bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut right).await.status, 200);
    let both = async {
        while refused().await < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, both).await.expect("both are counted");
    assert_eq!(refused().await, 2);
}

#[tokio::test]
async fn a_certificate_that_ends_soon_is_told_by_readiness_and_metrics() {
    for (ends_after, expected) in [
        (365 * DAY, json!([])),
        (13 * DAY, json!(["tls_certificate_expires"])),
        (-DAY, json!(["tls_certificate_expired"])),
    ] {
        let secured = Secured::start(ends_after).await;
        assert_eq!(json!(secured.problems().await), expected, "{ends_after}");
        let end = secured.metric("keymill_tls_certificate_expires_timestamp_seconds").await;
        let end: i64 = end.unwrap().parse().unwrap();
        let expected_end = jiff::Timestamp::now().as_second() + ends_after;
        assert!((end - expected_end).abs() < 600, "{end} is not {expected_end}");
        assert_eq!(secured.tls.expiry().is_some(), expected != json!([]), "{ends_after}");
        // A new one is as good as any.
        secured.authority.server_for(365 * DAY).write(secured.folder.path());
        assert!(secured.tls.reload(&secured.instance.http).await, "the files are new");
        assert_eq!(json!(secured.problems().await), json!([]));
    }
}

#[tokio::test]
async fn a_reload_that_fails_is_told_until_one_works() {
    let secured = Secured::start(365 * DAY).await;
    // Once it answers, it has told of the certificate that it started with.
    assert_eq!(secured.problems().await, [] as [&str; 0]);
    let key = std::fs::read(secured.folder.path().join("tls.key")).unwrap();
    std::fs::write(secured.folder.path().join("tls.key"), "nonsense").unwrap();
    for _ in 0..2 {
        assert!(!secured.tls.reload(&secured.instance.http).await);
        assert_eq!(secured.problems().await, ["tls_reload_failed"]);
        let metrics = secured.ask("/metrics").await.body;
        assert!(metrics.contains("keymill_problem{code=\"tls_reload_failed\""), "{metrics}");
        assert!(metrics.contains("\nkeymill_ready 1\n"), "{metrics}");
    }
    let detail = secured.ask("/readyz").await.json()["problems"][0]["detail"].clone();
    let folder = secured.folder.path().display().to_string();
    assert!(!detail.as_str().unwrap().contains(&folder), "{detail}");
    std::fs::write(secured.folder.path().join("tls.key"), key).unwrap();
    secured.tls.reload(&secured.instance.http).await;
    assert_eq!(secured.problems().await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_clients_certificate_counts_until_it_ends_also_on_an_open_connection() {
    let secured = Secured::start(365 * DAY).await;
    // While there are no tokens, so that nothing else is needed to make one.
    let body =
        json!({"name": "shop", "allow": ["take:*"], "certificate": "shop.example"}).to_string();
    let mut stream = secured.connect(None).await.unwrap();
    let head = "POST /v1/tokens HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-type: application/json\r\n";
    let create = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(create.as_bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut stream).await.status, 201);
    let names = vec![SanType::DnsName("shop.example".try_into().unwrap())];
    let pair = secured.authority.client_for(names, 3);
    let mut kept = secured.connect(Some(&pair)).await.unwrap();
    let mut statuses = Vec::new();
    let until_refused = async {
        loop {
            kept.write_all(request("/get-key", "").as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            // Every answer has a length, and is small.
            while !String::from_utf8_lossy(&answer).contains("\r\n\r\n") {
                assert!(kept.read_buf(&mut answer).await.unwrap() > 0, "it ended");
            }
            let answer = String::from_utf8(answer).unwrap();
            let status: u16 = answer.split(' ').nth(1).unwrap().parse().unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let head = head.to_lowercase();
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut rest = vec![0; len.parse::<usize>().unwrap() - body.len()];
            kept.read_exact(&mut rest).await.unwrap();
            statuses.push(status);
            if status == 401 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, until_refused).await.expect("it ends");
    assert!(statuses.contains(&200), "it never counted: {statuses:?}");
}
