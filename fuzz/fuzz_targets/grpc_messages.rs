//! Calls over gRPC: any bytes, and fields of any kind, as messages of every method.
//!
//! An input is a few calls on one HTTP/2 connection. Each has an answer with a status, which is neither `INTERNAL` nor
//! `UNKNOWN`: a stranger cannot make the server fail.

#![no_main]

use arbitrary::Arbitrary;
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Version};
use keymill::server::in_memory;
use keymill_fuzz::words::{Text, pick};
use keymill_fuzz::world::Entrance;
use keymill_fuzz::{line, memory, world};
use libfuzzer_sys::fuzz_target;

/// What a connection may take, with a few calls on it: a stream of keys has some batches under way.
const BYTES_MAX: usize = 16 << 20;
const CALLS_MAX: usize = 4;
/// How much is read of an answer. A stream of keys would go on for as long as there is credit.
const READ_MAX: usize = 128 << 10;

const METHODS: &[&str] = &[
    "/keymill.v1.Keymill/Take",
    "/keymill.v1.Keymill/TakeStream",
    "/keymill.v1.Keymill/Digest",
    "/keymill.v1.Keymill/AddAlias",
    "/keymill.v1.Keymill/RemoveAlias",
    "/keymill.v1.Keymill/GetAlias",
    "/keymill.v1.Keymill/ListAliases",
    "/keymill.v1.Keymill/Explain",
    "/keymill.v1.Keymill/Retire",
    "/keymill.v1.Keymill/EnsureSpace",
    "/keymill.v1.Keymill/GetSpace",
    "/keymill.v1.Keymill/ListSpaces",
    "/keymill.v1.Keymill/Nothing",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

#[derive(Debug, Arbitrary)]
struct Call {
    method: u8,
    deadline: Option<u8>,
    pieces: Vec<Piece>,
    /// Whether the client goes away without an end.
    is_reset: bool,
}

/// A part of a body.
#[derive(Debug, Arbitrary)]
enum Piece {
    /// A message with what stands before it.
    Message(Vec<Field>),
    /// The same of any bytes.
    Framed(Vec<u8>),
    /// Bytes in place of one.
    Any(Vec<u8>),
}

/// A field as protobuf writes it.
#[derive(Debug, Arbitrary)]
struct Field {
    number: u8,
    value: Wire,
}

#[derive(Debug, Arbitrary)]
enum Wire {
    Small(u8),
    Varint(u64),
    Text(Text),
    Bytes(Vec<u8>),
    Message(Vec<Field>),
    Fixed(u64),
}

fuzz_target!(|input: (u8, Vec<Call>)| {
    let (entrance, calls) = input;
    memory::bounded(BYTES_MAX, || {
        world::enter(async |world| {
            let Entrance { http, token } = world.entrance(entrance);
            let (served, client) = line::connection();
            let talk = async {
                let (sender, connection) =
                    h2::client::handshake(client).await.expect("the server speaks HTTP/2");
                let ask = async move {
                    for call in calls.iter().take(CALLS_MAX) {
                        call.make(&sender, token).await;
                    }
                };
                // When the sender is gone, the connection ends.
                let _ = tokio::join!(ask, connection);
            };
            tokio::join!(in_memory::serve_http(served, http), talk);
            false
        });
    });
});

impl Call {
    async fn make(&self, sender: &SendRequest<Bytes>, token: Option<&str>) {
        let method = pick(METHODS, self.method);
        let mut request = Request::post(format!("http://localhost{method}"))
            .version(Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(seconds) = self.deadline {
            request = request.header("grpc-timeout", format!("{seconds}S"));
        }
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(()).expect("a request of constants");
        let mut ready = sender.clone().ready().await.expect("the connection lasts");
        let is_empty = self.pieces.is_empty() && !self.is_reset;
        let (answer, mut body) =
            ready.send_request(request, is_empty).expect("the connection lasts");
        for (place, piece) in self.pieces.iter().enumerate() {
            let is_last = place + 1 == self.pieces.len() && !self.is_reset;
            // It may be answered already.
            if body.send_data(piece.bytes().into(), is_last).is_err() {
                break;
            }
        }
        if self.is_reset {
            body.send_reset(Reason::CANCEL);
            return;
        }
        let answer = answer.await.expect("every call is answered");
        assert_eq!(answer.status(), 200, "{method}");
        let (head, body) = answer.into_parts();
        let is_refusal = head.headers.contains_key("grpc-status");
        match read(body, method.ends_with("Watch")).await {
            _ if is_refusal => check(method, &head.headers),
            Some(trailers) => check(method, &trailers),
            None => {}
        }
    }
}

/// Reads an answer, and gives its trailers; `None` where it is not read to its end.
async fn read(mut body: RecvStream, is_endless: bool) -> Option<HeaderMap> {
    let mut len = 0;
    while let Some(data) = body.data().await {
        let data = data.expect("an answer is not broken off");
        len += data.len();
        let _ = body.flow_control().release_capacity(data.len());
        if is_endless || len > READ_MAX {
            return None;
        }
    }
    let trailers = body.trailers().await.expect("an answer is not broken off");
    Some(trailers.unwrap_or_default())
}

fn check(method: &str, headers: &HeaderMap) {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let status = text("grpc-status").expect("an answer has a status");
    if status == "0" {
        return;
    }
    let message = text("grpc-message").unwrap_or_default();
    assert!(!matches!(status, "13" | "2"), "{method}: the server has failed: {message}");
    assert!(message.len() > 10, "{method}: not a clear error: {status} {message}");
    assert!(headers.contains_key("grpc-status-details-bin"), "{method}: {message}");
}

impl Piece {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Piece::Message(fields) => framed(&message(fields)),
            Piece::Framed(bytes) => framed(bytes),
            Piece::Any(bytes) => bytes.clone(),
        }
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &len.to_be_bytes()[..], message].concat()
}

fn message(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for Field { number, value } in fields {
        // The contract has numbers up to 22.
        let tag = |kind: u64| u64::from(number % 24) << 3 | kind;
        match value {
            Wire::Small(it) => [tag(0), u64::from(*it)].map(|it| put_varint(it, &mut out)),
            Wire::Varint(it) => [tag(0), *it].map(|it| put_varint(it, &mut out)),
            Wire::Text(it) => put_bytes(tag(2), it.as_str().as_bytes(), &mut out),
            Wire::Bytes(it) => put_bytes(tag(2), it, &mut out),
            Wire::Message(it) => put_bytes(tag(2), &message(it), &mut out),
            Wire::Fixed(it) => {
                put_varint(tag(1), &mut out);
                out.extend(it.to_le_bytes());
                [(), ()]
            }
        };
    }
    out
}

fn put_bytes(tag: u64, bytes: &[u8], out: &mut Vec<u8>) -> [(); 2] {
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let put = [tag, len].map(|it| put_varint(it, out));
    out.extend_from_slice(bytes);
    put
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}
