//! The example `examples/shortener`: its built binary on real servers of keymill, with its links in SQLite and PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails to unwrap has failed, and says where")]

mod harmed;
mod links;
mod silent;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use keymill_proof::{Answer, Client, Fleet, ServerSpec, binary};
use serde_json::{Value, json};

/// A shortener that takes its keys from a fleet.
fn shortener(fleet: &Fleet, links: &str, folder: &Path) -> ServerSpec {
    let servers: Vec<_> = fleet.each().map(|it| format!("http://{}", it.address())).collect();
    let args = ["--listen", "127.0.0.1:0", "--keymill", &servers.join(","), "--links", links];
    ServerSpec {
        binary: binary("shortener"),
        args: args.map(str::to_owned).to_vec(),
        env: Vec::new(),
        log: folder.join("shortener.log"),
    }
}

/// A user with a connection.
struct Visitor {
    client: Client,
    cookie: String,
}

impl Visitor {
    fn new(address: SocketAddr, number: usize) -> Visitor {
        // Longer than the shortener's own patience, which it has for the key and for the link.
        let client = Client::new(address).time_max(Duration::from_secs(60));
        Visitor { client, cookie: format!("user={number:032x}") }
    }

    fn create(&mut self, new: &Value) -> std::io::Result<Answer> {
        let body = new.to_string();
        let headers = [("Content-Type", "application/json"), ("Cookie", &self.cookie)];
        self.client.request("POST", "/api/links", &headers, body.as_bytes())
    }

    /// The key of a link that is made, or was.
    #[track_caller]
    fn key(&mut self, new: &Value, status: u16) -> String {
        let answer = self.create(new).unwrap();
        assert_eq!(answer.status, status, "{new}: {}", answer.text());
        body(&answer)["key"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn is_refused(&mut self, new: &Value, status: u16, code: &str) {
        let answer = self.create(new).unwrap();
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        is_problem(&answer, status, code);
    }

    fn request(&mut self, method: &str, path: &str) -> Answer {
        self.client.request(method, path, &[("Cookie", &self.cookie)], b"").unwrap()
    }

    /// Status and target of a short link.
    fn follow(&mut self, key: &str) -> (u16, Option<String>) {
        let answer = self.request("GET", &format!("/{key}"));
        (answer.status, answer.header("location").map(str::to_owned))
    }

    #[track_caller]
    fn leads_to(&mut self, key: &str, url: &str) {
        assert_eq!(self.follow(key), (302, Some(url.to_owned())), "{key}");
    }
}

fn to(url: &str) -> Value {
    json!({"url": url})
}

/// An answer in JSON.
#[track_caller]
fn body(answer: &Answer) -> Value {
    serde_json::from_str(answer.text()).unwrap_or_else(|_| panic!("{}", answer.text()))
}

#[track_caller]
fn is_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{}", answer.text());
}
