//! A server that answers what a test tells it to, also what no keymill would.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to answer to a request, by its number; `None` closes the connection.
type Answer = dyn Fn(u64) -> Option<String> + Send + Sync;

pub(super) struct Fake {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Fake {
    pub(super) fn start(answer: impl Fn(u64) -> Option<String> + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fake = Fake { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let (requests, answer): (_, Arc<Answer>) = (fake.requests.clone(), Arc::new(answer));
        // It ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (requests, answer) = (requests.clone(), answer.clone());
                std::thread::spawn(move || serve(&stream.unwrap(), &requests, &*answer));
            }
        });
        fake
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests have come.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn serve(stream: &TcpStream, requests: &AtomicU64, answer: &Answer) {
    let mut lines = BufReader::new(stream).lines();
    loop {
        // A request without a body ends with an empty line. A client that is gone is none of our business.
        loop {
            match lines.next() {
                Some(Ok(line)) if line.is_empty() => break,
                Some(Ok(_)) => {}
                _ => return,
            }
        }
        let Some(answer) = answer(requests.fetch_add(1, Ordering::Relaxed)) else { return };
        let mut writer = stream;
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// An answer of success.
pub(super) fn ok(body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}
