//! The HTTP front on a true server, in this process, on a port of its own.

mod activity;
mod administration;
mod advancing;
mod aliases;
mod ask;
mod audit;
mod browsers;
mod callers;
mod contract;
mod digests;
mod docs;
mod expiry;
pub(crate) mod guarded;
mod ids;
mod input;
mod instance;
mod limits;
mod lists;
mod methods;
mod metrics;
mod moving;
mod over_http2;
mod pieces;
mod requests;
mod rights;
mod session_ends;
mod session_origins;
pub(crate) mod sessions;
mod spaces;
mod take;
mod tokens;
mod web_page;

use std::net::SocketAddr;
use std::time::Duration;

use keymill::front::http::Http;
use keymill::server::{self, Endpoint, Listeners, ServerLimits};
use keymill_core::Blocklist;
use keymill_engine::clock::Clock;
use keymill_engine::operations::{Limits, OpenedStore, Opening, Service, Setup};
use keymill_engine::space::SpaceSpec;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

pub(crate) struct Instance {
    pub(crate) address: SocketAddr,
    pub(crate) service: Service,
    pub(crate) http: Http,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) ended: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Instance {
    pub(crate) async fn start() -> Instance {
        Instance::start_with(ServerLimits::default()).await
    }

    pub(crate) async fn start_with(limits: ServerLimits) -> Instance {
        Instance::start_on(None, limits).await
    }

    /// On a store of its own, a SQLite file where none is named.
    pub(crate) async fn start_on(store: Option<String>, limits: ServerLimits) -> Instance {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Instance::start_at(listener.into(), store, limits).await
    }

    /// On listeners of the test's choice; its address is that of the first that has one.
    pub(crate) async fn start_at(
        listeners: Listeners,
        store: Option<String>,
        limits: ServerLimits,
    ) -> Instance {
        Instance::start_by(listeners, store, limits, Clock::default()).await
    }

    /// The same by a clock that a test moves.
    pub(crate) async fn start_by(
        listeners: Listeners,
        store: Option<String>,
        limits: ServerLimits,
        clock: Clock,
    ) -> Instance {
        let folder = tempfile::tempdir().unwrap();
        let file = || format!("sqlite:{}", folder.path().join("keymill.db").display());
        let url = store.unwrap_or_else(file);
        let setup = Setup {
            store: OpenedStore::open(&url, Opening::default()).await.unwrap(),
            data_dir: folder.path().to_owned(),
            secret: None,
            blocklist: Blocklist::builtin(),
            alias_rules: Default::default(),
            limits: Limits { wait_max: Duration::from_millis(300), ..Limits::default() },
            require_existing: false,
            worker: None,
            clock,
            unsafe_store: None,
        };
        let service = Service::start(setup).await.unwrap();
        service.ensure_space("default", &SpaceSpec::default()).await.unwrap();
        let http = Http::new(service.clone(), "default", 4_096);
        let first = listeners.public().unwrap().into_iter().find_map(|endpoint| match endpoint {
            Endpoint::Tcp(address) => Some(address),
            Endpoint::Unix(_) => None,
        });
        let address = first.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let (stop, stopped) = oneshot::channel();
        let served = http.clone();
        let ended = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or(()) };
            server::run(listeners, served, ServerLimits { threads: 1, ..limits }, stopped)
                .await
                .unwrap();
        });
        Instance { address, service, http, stop: Some(stop), ended, _folder: folder }
    }

    pub(crate) async fn ask(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        Answer::read(&mut stream).await
    }

    pub(crate) async fn call(&self, method: &str, path: &str) -> Answer {
        self.send(method, path, "", "").await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let len = body.len();
        // A test that says nothing else means JSON.
        let is_json = body.starts_with(['{', '[']) && !headers.contains("content-type");
        let label = if is_json { "content-type: application/json\r\n" } else { "" };
        self.ask(&format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len}\r\n{label}{headers}\r\n{body}"
        ))
        .await
    }

    /// The same with a token.
    pub(crate) async fn send_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Answer {
        let headers = format!("authorization: Bearer {token}\r\n{headers}");
        self.send(method, path, &headers, body).await
    }

    pub(crate) async fn call_as(&self, token: &str, method: &str, path: &str) -> Answer {
        self.send_as(token, method, path, "", "").await
    }

    /// Makes the first token, which may do everything; its text.
    pub(crate) async fn admin(&self) -> String {
        self.token_by("", &serde_json::json!({"name": "admin", "allow": ["admin:*"]})).await
    }

    /// Makes a token; its text.
    #[track_caller]
    pub(crate) fn token_by(&self, admin: &str, ask: &Value) -> impl Future<Output = String> {
        let (headers, body) = ("content-type: application/json\r\n", ask.to_string());
        async move {
            let made = self.send_as(admin, "POST", "/v1/tokens", headers, &body).await;
            assert_eq!(made.status, 201, "{body}: {}", made.body);
            made.json()["token"].as_str().unwrap().to_owned()
        }
    }

    pub(crate) async fn put(&self, space: &str, body: &Value) -> Answer {
        let json = "content-type: application/json\r\n";
        self.send("PUT", &format!("/v1/spaces/{space}"), json, &body.to_string()).await
    }
}

impl Answer {
    /// Reads until the connection ends.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Answer {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// A header of it, the name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Asserts that this is a problem, with its status, code and a part of what it says.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str, says: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let problem = self.json();
        assert_eq!(problem["code"], code);
        assert_eq!(problem["status"], status);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "`{detail}` does not say `{says}`");
    }
}

/// Asks until keys are there: a first take may take longer than it waits.
pub(crate) async fn settled(ask: impl AsyncFn() -> Answer) -> Answer {
    for _ in 0..200 {
        let answer = ask().await;
        if answer.status != 503 {
            return answer;
        }
    }
    panic!("there are never any keys");
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited).await.expect(what);
}
