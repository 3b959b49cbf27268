//! Requests over HTTP: every route, with queries and bodies of any kind.
//!
//! An input is a few requests that are well-formed as HTTP, and hardly ever right. Each is answered, with a status that
//! does not blame the server; an error is a problem (RFC 9457) with a code and a sentence.

#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use keymill::server::in_memory;
use keymill_fuzz::line::Sent;
use keymill_fuzz::words::{Text, pick};
use keymill_fuzz::world::World;
use keymill_fuzz::{line, memory, world};
use libfuzzer_sys::fuzz_target;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::{Map, Number, Value};

/// What a request may take: it has a body of at most 64 KB, and may fill a pool.
const BYTES_MAX: usize = 32 << 20;
const REQUESTS_MAX: usize = 6;

/// Methods and paths. `{s}` is a keyspace, `{n}` the name of something in it.
#[rustfmt::skip]
const ROUTES: &[(&str, &str)] = &[
    ("POST", "/v1/spaces/{s}/keys"), ("GET", "/get-key"), ("HEAD", "/get-key"),
    ("POST", "/v1/spaces/{s}/digests"), ("PUT", "/v1/spaces/{s}"), ("PATCH", "/v1/spaces/{s}"),
    ("GET", "/v1/spaces/{s}"), ("GET", "/v1/spaces"), ("POST", "/v1/spaces/{s}/grow"),
    ("POST", "/v1/spaces/{s}/seal"), ("GET", "/v1/spaces/{s}/keys/{n}"),
    ("DELETE", "/v1/spaces/{s}/keys/{n}"), ("GET", "/v1/spaces/{s}/aliases"),
    ("GET", "/v1/spaces/{s}/aliases/{n}"), ("PUT", "/v1/spaces/{s}/aliases/{n}"),
    ("DELETE", "/v1/spaces/{s}/aliases/{n}"), ("GET", "/v1/spaces/{s}/used"),
    ("GET", "/v1/spaces/{s}/pool"), ("POST", "/v1/spaces/{s}/pool"),
    ("POST", "/v1/spaces/{s}/pool/fill"), ("POST", "/v1/spaces/{s}/used-keys"),
    ("POST", "/v1/spaces/{s}/advance"), ("GET", "/v1/spaces/{s}/bounds"),
    ("POST", "/v1/spaces/{s}/export"), ("POST", "/v1/import"), ("GET", "/v1/store"),
    ("GET", "/v1/leases"), ("GET", "/v1/instances"), ("GET", "/v1/acts"), ("GET", "/v1/tokens"),
    ("POST", "/v1/tokens"), ("GET", "/v1/tokens/{n}"), ("DELETE", "/v1/tokens/{n}"),
    ("POST", "/v1/tokens/{n}/rotate"), ("GET", "/readyz"), ("OPTIONS", "/v1/spaces/{s}"),
    ("GET", "/{n}"), ("POST", "/v1/{n}/{s}"),
];
const LABELS: [&str; 4] =
    ["application/json", "text/plain", "application/x-ndjson", "application/JSON; charset=x"];

#[derive(Debug, Arbitrary)]
struct Asked {
    route: u8,
    space: Text,
    name: Text,
    query: Vec<(Text, Text)>,
    label: u8,
    body: Body,
    headers: Vec<(u8, Text)>,
    entrance: u8,
}

#[derive(Debug, Arbitrary)]
enum Body {
    Nothing,
    /// An object with these fields.
    Object(Vec<(Text, Json)>),
    Lines(Vec<Text>),
    Any(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
enum Json {
    Null,
    Bool(bool),
    Small(u8),
    Whole(i64),
    Large(u64),
    Float(f64),
    Text(Text),
    Texts(Vec<Text>),
    List(Vec<Json>),
    Object(Vec<(Text, Json)>),
}

fuzz_target!(|requests: Vec<Asked>| {
    memory::bounded(BYTES_MAX, || {
        world::enter(async |world| {
            for asked in requests.iter().take(REQUESTS_MAX) {
                if asked.ask(world).await {
                    return true;
                }
            }
            false
        });
    });
});

impl Asked {
    /// Sends it and looks at the answer; whether it has left a world in which nothing more can be asked.
    async fn ask(&self, world: &World) -> bool {
        let (method, path) = pick(ROUTES, self.route);
        let (served, client) = line::connection();
        let mut answer = Vec::new();
        let entrance = world.entrance(self.entrance);
        let request = self.request(method, path, entrance.token);
        // The server closes the connection behind its answer.
        let sent = Sent { bytes: &request, lengths: &[], patience: Duration::MAX };
        let talk = line::talk(client, sent, |bytes| {
            // Of a long one, the beginning is enough.
            let len = bytes.len().min((64_usize << 10).saturating_sub(answer.len()));
            answer.extend_from_slice(&bytes[..len]);
            bytes.len()
        });
        tokio::join!(in_memory::serve_http(served, entrance.http), talk);
        let status = check(method, &answer);
        let is_last = ["/tokens", "/seal", "/export", "/import"];
        method == "POST" && status < 300 && is_last.iter().any(|end| path.ends_with(end))
    }

    fn request(&self, method: &str, path: &str, token: Option<&str>) -> Vec<u8> {
        let encoded =
            |text: &Text| percent_encode(text.as_str().as_bytes(), NON_ALPHANUMERIC).to_string();
        let path = path.replace("{s}", &encoded(&self.space)).replace("{n}", &encoded(&self.name));
        let query: Vec<String> = self
            .query
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let (query, label, body) = (query.join("&"), pick(&LABELS, self.label), self.body.bytes());
        let mut head = format!(
            "{method} {path}{mark}{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: {label}\r\ncontent-length: {}\r\n",
            body.len()
        );
        if let Some(token) = token {
            head.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        for (place, value) in &self.headers {
            let name = pick(&["accept", "authorization", "origin", "x-request-id"], *place);
            let value = value.as_str().replace(char::is_control, "");
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        [head.as_bytes(), b"\r\n", &body].concat()
    }
}

/// The status of an answer, which must be one that a stranger may get.
fn check(method: &str, answer: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").expect("every request is answered");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status: u16 = status.expect("an answer has a status");
    assert!(status < 500 || status == 503, "a stranger cannot make the server fail: {text}");
    // Headers of such a size are refused before anybody reads them.
    if status < 400 || status == 414 || status == 431 || method == "HEAD" {
        return status;
    }
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let is_clear = |name: &str| problem[name].as_str().is_some_and(|text| !text.is_empty());
    assert!(is_clear("code") && is_clear("detail"), "not a clear error: {text}");
    status
}

impl Body {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Body::Nothing => Vec::new(),
            Body::Object(fields) => object(fields).to_string().into_bytes(),
            Body::Lines(lines) => {
                let lines: Vec<_> = lines.iter().map(Text::as_str).collect();
                lines.join("\n").into_bytes()
            }
            Body::Any(bytes) => bytes.clone(),
        }
    }
}

impl Json {
    fn value(&self) -> Value {
        match self {
            Json::Null => Value::Null,
            Json::Bool(it) => Value::Bool(*it),
            Json::Small(it) => Value::from(*it),
            Json::Whole(it) => Value::from(*it),
            Json::Large(it) => Value::from(*it),
            Json::Float(it) => Number::from_f64(*it).map_or(Value::Null, Value::Number),
            Json::Text(it) => Value::from(it.as_str()),
            Json::Texts(all) => all.iter().map(|it| Value::from(it.as_str())).collect(),
            Json::List(all) => all.iter().map(Json::value).collect(),
            Json::Object(fields) => object(fields),
        }
    }
}

fn object(fields: &[(Text, Json)]) -> Value {
    let fields = fields.iter().map(|(name, value)| (name.as_str().into_owned(), value.value()));
    Value::Object(fields.collect::<Map<_, _>>())
}
