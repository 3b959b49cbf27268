//! Calls that no proper client makes: the server answers each of them, and goes on.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use hyper::http::{Request, Version};
use keymill_proto::v1;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use prost::Message;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Instance, SOON, client, take};

const UNARY: [&str; 13] = [
    "/keymill.v1.Keymill/Take",
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
    "/grpc.health.v1.Health/Check",
    "/keymill.v1.Keymill/Nothing",
];
const STREAMS: [&str; 3] = [
    "/keymill.v1.Keymill/TakeStream",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

#[tokio::test]
async fn each_wrong_message_has_its_code() {
    let instance = Instance::start().await;
    let mut sender = connect(instance.address).await;
    let take = v1::TakeRequest { space: "nowhere".to_owned(), ..Default::default() };
    let take = framed(&take.encode_to_vec());
    let twice = Bytes::from([&take[..], &take[..]].concat());
    for (body, status) in [
        (Bytes::new(), "3"),
        (Bytes::from_static(b"\0"), "3"),
        (Bytes::from_static(b"\0\0\0\0\x05abc"), "3"),
        (Bytes::from_static(b"\x01\0\0\0\0"), "12"),
        (Bytes::from_static(b"\x07\0\0\0\0"), "3"),
        (Bytes::from_static(b"\0\0\x10\0\0"), "8"),
        (framed(b"\xff\xff\xff"), "3"),
        (framed(b"\x0a\x7f"), "3"),
        (framed(b"\x0a\x02\xff\xfe"), "3"),
        // Fields that nobody knows are passed over, and without a name there is nothing to take from.
        (framed(b"\x98\x06\x01"), "3"),
        (framed(b""), "3"),
        (take.clone(), "5"),
        (twice, "3"),
    ] {
        let found = ask(&mut sender, "/keymill.v1.Keymill/Take", std::slice::from_ref(&body)).await;
        assert_eq!(found.as_deref(), Some(status), "{body:?}");
    }
    let found = ask(&mut sender, "/keymill.v1.Keymill/TakeStream", &[framed(b"\x0a\x7f")]).await;
    assert_eq!(found.as_deref(), Some("3"));
}

#[tokio::test]
async fn a_body_that_does_not_come_ends_in_time() {
    let instance = Instance::start().await;
    let mut sender = connect(instance.address).await.ready().await.unwrap();
    let mut answers = Vec::new();
    for path in ["/keymill.v1.Keymill/Take", "/keymill.v1.Keymill/Digest"] {
        let (answer, body) = sender.send_request(request(path), false).unwrap();
        answers.push((answer, body));
    }
    for (answer, _body) in answers {
        let answer = timeout(Duration::from_secs(30), answer).await.expect("it ends").unwrap();
        assert_eq!(answer.headers()["grpc-status"], "4");
    }
}

#[test]
fn random_bytes_are_answered_and_break_nothing() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap();
    let instance = runtime.block_on(Instance::start());
    let path =
        prop_oneof![proptest::sample::select(&UNARY[..]), proptest::sample::select(&STREAMS[..])];
    // Bytes of any kind, messages of any kind, and fields that look like those of the contract.
    let field = (0_u8..8, 0_u8..6, vec(any::<u8>(), 0..12)).prop_map(|(field, kind, rest)| {
        let mut bytes = vec![field << 3 | kind, u8::try_from(rest.len()).unwrap_or(0)];
        bytes.extend(rest);
        bytes
    });
    let message =
        prop_oneof![vec(any::<u8>(), 0..80), vec(field, 0..6).prop_map(|all| all.concat())];
    let piece = prop_oneof![
        vec(any::<u8>(), 0..40).prop_map(Bytes::from),
        message.prop_map(|message| framed(&message)),
    ];
    let call = (path, vec(piece, 0..4));
    let mut runner = TestRunner::new(Config { cases: 400, ..Config::default() });
    let address = instance.address;
    runner
        .run(&call, |(path, pieces)| {
            let status = runtime.block_on(async {
                let mut sender = connect(address).await;
                ask(&mut sender, path, &pieces).await
            });
            // INTERNAL and UNKNOWN would be the server's fault.
            let is_fault = matches!(status.as_deref(), Some("13" | "2"));
            prop_assert!(!is_fault, "{path} {pieces:?}: {status:?}");
            prop_assert!(status.is_some(), "{path} {pieces:?} has no status");
            Ok(())
        })
        .unwrap();
    // It has panicked nowhere, and serves on.
    runtime.block_on(async {
        let mut client = client(&instance).await;
        take(&mut client, "default", 1).await.unwrap();
    });
}

#[test]
fn random_bytes_behind_the_preface_end_their_own_connection_alone() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let instance = runtime.block_on(Instance::start());
    let address = instance.address;
    let mut runner = TestRunner::new(Config { cases: 100, ..Config::default() });
    let sent = (any::<bool>(), vec(any::<u8>(), 0..200));
    runner
        .run(&sent, |(has_settings, bytes)| {
            runtime.block_on(async {
                use tokio::io::AsyncWriteExt;
                let mut stream = TcpStream::connect(address).await.unwrap();
                let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
                if has_settings {
                    all.extend(b"\0\0\0\x04\0\0\0\0\0");
                }
                all.extend(bytes);
                stream.write_all(&all).await.unwrap();
            });
            Ok(())
        })
        .unwrap();
    runtime.block_on(async {
        let mut client = client(&instance).await;
        take(&mut client, "default", 1).await.unwrap();
    });
}

/// A connection over which anything can be sent.
pub(super) async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

/// The headers of a call.
pub(super) fn request(path: &str) -> Request<()> {
    Request::post(format!("http://localhost{path}"))
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

/// A message with what stands before it.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).unwrap());
    bytes.put_slice(message);
    bytes.freeze()
}

/// Sends a body in pieces; the status of the answer, from its headers or its trailers.
async fn ask(sender: &mut SendRequest<Bytes>, path: &str, pieces: &[Bytes]) -> Option<String> {
    let mut ready = sender.clone().ready().await.unwrap();
    let (answer, mut body) = ready.send_request(request(path), pieces.is_empty()).unwrap();
    for (at, piece) in pieces.iter().enumerate() {
        // The answer may have come, and ended the call.
        if body.send_data(piece.clone(), at + 1 == pieces.len()).is_err() {
            break;
        }
    }
    let read = async {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let status = answer.headers().get("grpc-status").cloned();
        let mut body = answer.into_body();
        while let Some(data) = body.data().await {
            let len = data.unwrap().len();
            body.flow_control().release_capacity(len).unwrap();
        }
        let trailers = body.trailers().await.unwrap();
        status.or_else(|| trailers?.get("grpc-status").cloned())
    };
    let status = timeout(SOON, read).await.expect("it is answered");
    status.map(|status| status.to_str().unwrap().to_owned())
}
