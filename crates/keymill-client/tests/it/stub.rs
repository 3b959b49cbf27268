//! A stub of a server: it does with each request what the next entry of its script says, and gives keys when there is none.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// What the stub says of its keyspace, unless its script says something else.
pub(crate) const SETTINGS: &str = r#"{"name":"links","kind":"shuffled","audit":"batch","sealed":false,
    "created_at":"2026-11-17T23:04:59.74Z","capacity":1,"next":0,"leased":0,"named":0,"remaining":0,"at_hand":0,
    "density":0.0,"rate":0.0,"leased_rate":0.0}"#;

/// What the stub does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// Answers with a status, more header lines, and a body.
    Answer(u16, &'static str, String),
    /// The same, after a while.
    Late(Duration, String),
    /// Reads it, and closes the connection.
    HangUp,
    /// Reads it, and never answers.
    Stall,
}

/// A running stub. It ends with the runtime of its test.
#[derive(Debug, Clone)]
pub(crate) struct Stub {
    pub(crate) url: String,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    script: Mutex<VecDeque<Deed>>,
    /// What is done when the script has ended; keys if nothing is said.
    always: Mutex<Option<Deed>>,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    keys: AtomicUsize,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Method and target.
    pub(crate) line: String,
    /// The header lines, in lower case.
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Deed {
    /// A problem with a code.
    pub(crate) fn problem(status: u16, headers: &'static str, code: &str) -> Deed {
        Deed::Answer(status, headers, format!(r#"{{"code":"{code}","detail":"no"}}"#))
    }
}

impl Stub {
    pub(crate) async fn start(script: impl IntoIterator<Item = Deed>) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stub = Stub::new(url, script);
        let state = stub.state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, state.clone()));
            }
        });
        stub
    }

    #[cfg(unix)]
    pub(crate) fn start_unix(path: &std::path::Path) -> Stub {
        let listener = tokio::net::UnixListener::bind(path).unwrap();
        let stub = Stub::new(format!("unix:{}", path.display()), []);
        let state = stub.state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, state.clone()));
            }
        });
        stub
    }

    fn new(url: String, script: impl IntoIterator<Item = Deed>) -> Stub {
        let state = State::default();
        *state.script.lock().unwrap() = script.into_iter().collect();
        Stub { url, state: Arc::new(state) }
    }

    /// The same, but it always does this.
    pub(crate) fn always(self, deed: Deed) -> Stub {
        *self.state.always.lock().unwrap() = Some(deed);
        self
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl State {
    fn next(&self) -> Option<Deed> {
        let next = self.script.lock().unwrap().pop_front();
        next.or_else(|| self.always.lock().unwrap().clone())
    }

    /// Keys that never came before, as many as are asked for.
    fn keys(&self, line: &str) -> String {
        let count = line.split("count=").nth(1).and_then(|rest| rest.split('&').next());
        let count = count.map_or(1, |count| count.parse().unwrap());
        let first = self.keys.fetch_add(count, Ordering::SeqCst);
        let keys: Vec<String> = (first..first + count).map(|key| format!("{key:06}")).collect();
        format!(r#"{{"space":"links","keys":["{}"],"later":true}}"#, keys.join("\",\""))
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<State>) {
    state.connections.fetch_add(1, Ordering::SeqCst);
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let line = request.line.clone();
        state.requests.lock().unwrap().push(request);
        let (status, headers, body) = match state.next() {
            Some(Deed::Answer(status, headers, body)) => (status, headers, body),
            Some(Deed::Late(time, body)) => {
                sleep(time).await;
                (200, "", body)
            }
            Some(Deed::HangUp) => return,
            Some(Deed::Stall) => std::future::pending().await,
            None if line.starts_with("GET ") => (200, "", SETTINGS.to_owned()),
            None => (200, "", state.keys(&line)),
        };
        let head =
            format!("HTTP/1.1 {status} Any\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        if stream.write_all((head + &body).as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<impl AsyncRead + Unpin>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let line = line(stream).await?;
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let first = lines.remove(0);
    let headers = lines.join("\n").to_lowercase();
    let mut body = Vec::new();
    if headers.contains("transfer-encoding: chunked") {
        loop {
            let size = usize::from_str_radix(&line(stream).await?, 16).unwrap();
            let mut chunk = vec![0; size];
            stream.read_exact(&mut chunk).await.ok()?;
            line(stream).await?;
            if size == 0 {
                break;
            }
            body.extend(chunk);
        }
    } else if let Some(rest) = headers.split("content-length: ").nth(1) {
        body = vec![0; rest.split('\n').next()?.parse().unwrap()];
        stream.read_exact(&mut body).await.ok()?;
    }
    let line = first.trim_end_matches(" HTTP/1.1").to_owned();
    Some(Request { line, headers, body: String::from_utf8(body).unwrap() })
}

async fn line(stream: &mut BufReader<impl AsyncRead + Unpin>) -> Option<String> {
    let mut line = String::new();
    let len = stream.read_line(&mut line).await.ok()?;
    (len > 0).then(|| line.trim_end().to_owned())
}
