//! TLS: what is spoken over it, how long a handshake may take, and certificates that are replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use keymill::front::addresses::AddressRules;
use keymill::server::{Endpoint, Listeners, ServerLimits, Tls};
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{HEALTHZ, ask_for_too_much, one_place, read_to_end};
use crate::certificates::{Authority, shake_hands};
use crate::http::{Answer, Instance};

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);
const LAST_HEALTHZ: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
const EVERY: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

/// An instance whose only listener uses TLS.
struct Secured {
    instance: Instance,
    authority: Authority,
    tls: Arc<Tls>,
    folder: tempfile::TempDir,
}

impl Secured {
    async fn start(limits: ServerLimits) -> Secured {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        let tls = Arc::new(Tls::load(authority.server().write(folder.path())).unwrap());
        let endpoint = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
        let listeners = Listeners::bind(&[endpoint], None).await.unwrap();
        let listeners = listeners.with_tls(Some(tls.clone()));
        let instance = Instance::start_at(listeners, None, limits).await;
        Secured { instance, authority, tls, folder }
    }

    async fn connect(&self, connector: &TlsConnector) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.instance.address).await.unwrap();
        shake_hands(connector, stream).await.unwrap()
    }

    fn connector(&self) -> TlsConnector {
        self.authority.connector(None, EVERY, "http/1.1")
    }

    /// Asks again and again, until there is a place for it.
    async fn serves_again(&self) {
        let served = async {
            loop {
                let mut stream = self.connect(&self.connector()).await;
                let request = LAST_HEALTHZ.replace("/healthz", "/get-key");
                stream.write_all(request.as_bytes()).await.unwrap();
                if Answer::read(&mut stream).await.status == 200 {
                    return;
                }
            }
        };
        timeout(PATIENCE, served).await.expect("the place is free again");
    }
}

#[tokio::test]
async fn a_listener_with_a_certificate_speaks_every_protocol_over_it() {
    let secured = Secured::start(ServerLimits::default()).await;
    for version in [&TLS12, &TLS13] {
        let connector = secured.authority.connector(None, &[version], "http/1.1");
        let mut stream = secured.connect(&connector).await;
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let request = "GET /get-key HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = Answer::read(&mut stream).await;
        assert_eq!((answer.status, answer.body.len()), (200, 7), "{}", answer.head);
        let connector = secured.authority.connector(None, &[version], "h2");
        let mut stream = secured.connect(&connector).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        let request = b"\0\0\x17\x01\x05\0\0\0\x01\x82\x86\x04\x08/healthz\x41\x09localhost";
        stream.write_all(&[&opening[..], &request[..]].concat()).await.unwrap();
        // Among others, HEADERS and DATA of the answer.
        let mut kinds = Vec::new();
        while !kinds.contains(&0) {
            let mut head = [0; 9];
            timeout(PATIENCE, stream.read_exact(&mut head)).await.expect("a frame comes").unwrap();
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            stream.read_exact(&mut vec![0; len as usize]).await.unwrap();
            kinds.push(head[3]);
        }
        assert!(kinds.contains(&1), "{kinds:?}");
    }
    // A client that speaks no TLS is told so in TLS, and not in HTTP.
    let mut plain = TcpStream::connect(secured.instance.address).await.unwrap();
    plain.write_all(HEALTHZ.as_bytes()).await.unwrap();
    let mut told = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut told)).await.expect("it ends");
    assert!(!told.starts_with(b"HTTP"), "{told:?}");
}

#[tokio::test]
async fn the_cookie_of_a_session_is_kept_to_tls() {
    let secured = Secured::start(ServerLimits::default()).await;
    let ask = async |request: &str, body: &str| {
        let mut stream = secured.connect(&secured.connector()).await;
        let len = body.len();
        let request = format!(
            "{request}host: localhost\r\nsec-fetch-site: same-origin\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Answer::read(&mut stream).await
    };
    let body = r#"{"name":"admin","allow":["admin:*"]}"#;
    let made = ask("POST /v1/tokens HTTP/1.1\r\n", body).await.json();
    let body = format!(r#"{{"token":{}}}"#, made["token"]);
    let signed_in = ask("POST /v1/session HTTP/1.1\r\n", &body).await;
    let set = signed_in.header("set-cookie").unwrap();
    let value = set.strip_prefix("__host-keymill-session=").unwrap().split(';').next().unwrap();
    let attributes = "path=/; max-age=43200; httponly; samesite=strict; secure";
    assert!(set.ends_with(attributes), "{set}");
    for (name, status) in [("__Host-keymill-session", 200), ("keymill-session", 401)] {
        let request = format!("GET /v1/tokens HTTP/1.1\r\ncookie: {name}={value}\r\n");
        assert_eq!(ask(&request, "").await.status, status, "{name}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_come_to_its_end_is_ended() {
    let limits = ServerLimits {
        connections_max: 1,
        first_byte_time_max: Duration::from_millis(200),
        header_time_max: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    let secured = Secured::start(limits).await;
    // Silence, the beginning of a hello, and one that promises more than it sends.
    for start in [&b""[..], b"\x16", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"] {
        let mut stream = TcpStream::connect(secured.instance.address).await.unwrap();
        stream.write_all(start).await.unwrap();
        read_to_end(&mut stream).await;
    }
    // Silence, and the beginning of a request, after it.
    for start in ["", "GET / HT"] {
        let mut stream = secured.connect(&secured.connector()).await;
        stream.write_all(start.as_bytes()).await.unwrap();
        let ended = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
        let _ = ended.expect("the server ends the connection");
    }
    secured.serves_again().await;
}

#[tokio::test]
async fn a_handshake_does_not_hold_up_a_stop() {
    let mut secured = Secured::start(ServerLimits::default()).await;
    let mut half = TcpStream::connect(secured.instance.address).await.unwrap();
    half.write_all(b"\x16\x03\x01").await.unwrap();
    let mut stream = secured.connect(&secured.connector()).await;
    stream.write_all(LAST_HEALTHZ.as_bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut stream).await.status, 200);
    secured.instance.stop.take().unwrap().send(()).unwrap();
    let ended = timeout(Duration::from_secs(5), &mut secured.instance.ended).await;
    ended.expect("well before the time for draining is over").unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_place() {
    let secured = Secured::start(one_place()).await;
    let mut deaf = secured.connect(&secured.connector()).await;
    ask_for_too_much(&mut deaf).await;
    secured.serves_again().await;
}

#[tokio::test]
async fn a_session_is_resumed_also_after_a_reload() {
    let secured = Secured::start(ServerLimits::default()).await;
    for version in [&TLS12, &TLS13] {
        // A connector remembers the sessions that it had.
        let connector = secured.authority.connector(None, &[version], "http/1.1");
        let kind = async || {
            let mut stream = secured.connect(&connector).await;
            stream.write_all(LAST_HEALTHZ.as_bytes()).await.unwrap();
            assert_eq!(Answer::read(&mut stream).await.status, 200);
            stream.get_ref().1.handshake_kind()
        };
        assert_eq!(kind().await, Some(HandshakeKind::Full));
        assert_eq!(kind().await, Some(HandshakeKind::Resumed));
        secured.authority.server().write(secured.folder.path());
        secured.tls.reload(&secured.instance.http).await;
        assert_eq!(kind().await, Some(HandshakeKind::Resumed));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn certificates_replaced_under_load_lose_no_request() {
    let secured = Arc::new(Secured::start(ServerLimits::default()).await);
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (secured, is_over) = (secured.clone(), is_over.clone());
            let answered = answered.clone();
            tokio::spawn(async move {
                // One connection stays open over all certificates, the others come and go.
                let mut kept = secured.connect(&secured.connector()).await;
                while !is_over.load(Ordering::Relaxed) {
                    kept.write_all(HEALTHZ.as_bytes()).await.unwrap();
                    let mut answer = Vec::new();
                    while !answer.ends_with(b"ok\n") {
                        assert!(kept.read_buf(&mut answer).await.unwrap() > 0, "it ended");
                    }
                    let mut stream = secured.connect(&secured.connector()).await;
                    stream.write_all(LAST_HEALTHZ.as_bytes()).await.unwrap();
                    assert_eq!(Answer::read(&mut stream).await.status, 200);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for _ in 0..20 {
        let before = answered.load(Ordering::Relaxed);
        let newest = secured.authority.server();
        newest.write(secured.folder.path());
        secured.tls.reload(&secured.instance.http).await;
        let stream = secured.connect(&secured.connector()).await;
        assert_eq!(stream.get_ref().1.peer_certificates().unwrap(), [newest.der()]);
        let more = async {
            while answered.load(Ordering::Relaxed) < before + 8 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, more).await.expect("requests are answered");
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_keep_the_old_certificate_and_are_counted() {
    let secured = Secured::start(ServerLimits::default()).await;
    let path = |name: &str| secured.folder.path().join(name);
    let first = std::fs::read(path("tls.pem")).unwrap();
    let other = secured.authority.server();
    std::fs::write(path("tls.key"), &other.key).unwrap();
    secured.tls.reload(&secured.instance.http).await;
    std::fs::write(path("tls.pem"), "nonsense").unwrap();
    secured.tls.reload(&secured.instance.http).await;
    std::fs::remove_file(path("tls.pem")).unwrap();
    secured.tls.reload(&secured.instance.http).await;
    let mut stream = secured.connect(&secured.connector()).await;
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    stream.write_all(LAST_HEALTHZ.replace("/healthz", "/metrics").as_bytes()).await.unwrap();
    let metrics = Answer::read(&mut stream).await.body;
    assert!(metrics.contains("\nkeymill_tls_reload_failures_total 3\n"), "{metrics}");
    std::fs::write(path("tls.pem"), &first).unwrap();
    let first = secured.authority.connector(None, EVERY, "http/1.1");
    let again = secured.connect(&first).await;
    assert_eq!(again.get_ref().1.peer_certificates().unwrap(), [shown]);
    std::fs::write(path("tls.pem"), &other.certificate).unwrap();
    secured.tls.reload(&secured.instance.http).await;
    let newest = secured.connect(&secured.connector()).await;
    assert_eq!(newest.get_ref().1.peer_certificates().unwrap(), [other.der()]);
}

#[tokio::test]
async fn a_proxy_names_its_client_before_the_handshake() {
    let secured = Secured::start(ServerLimits::default()).await;
    let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let rules = AddressRules { trusted_proxies, ..AddressRules::default() };
    secured.instance.http.set_address_rules(rules);
    for header in ["", "PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n"] {
        let mut stream = TcpStream::connect(secured.instance.address).await.unwrap();
        stream.write_all(header.as_bytes()).await.unwrap();
        let mut stream = shake_hands(&secured.connector(), stream).await.unwrap();
        stream.write_all(LAST_HEALTHZ.as_bytes()).await.unwrap();
        assert_eq!(Answer::read(&mut stream).await.status, 200, "{header}");
    }
}
