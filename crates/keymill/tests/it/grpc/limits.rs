//! Limits: of messages, of time, and of memory for those who ask for everything and read nothing.

use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use keymill_proto::v1::{self, TakeStreamRequest};
use prost::Message;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::Code;

use super::malformed::{connect, framed, request};
use super::stream::Keys;
use super::{Instance, SOON, client, is_problem, take};

#[tokio::test]
async fn a_token_has_its_limits_over_grpc_as_over_http() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    take(&mut client, "default", 1).await.unwrap();
    let admin = instance.admin().await;
    let some = json!({"name": "some", "allow": ["take:*"], "rate": 50, "quota": 60});
    let some = instance.token_by(&admin, &some).await;
    let ask = |count| {
        let ask = v1::TakeRequest { space: "default".to_owned(), count, ..Default::default() };
        super::bearing(&some, ask)
    };
    let refused = client.take(ask(Some(51))).await;
    is_problem(refused, Code::InvalidArgument, "above_burst", "50");
    assert_eq!(client.take(ask(Some(50))).await.unwrap().into_inner().keys.len(), 50);
    is_problem(client.take(ask(Some(20))).await, Code::ResourceExhausted, "rate_limited", "");
    // HTTP and gRPC spend of the same limits.
    let path = "/v1/spaces/default/keys?count=11";
    assert_eq!(instance.call_as(&some, "POST", path).await.status, 429);
}

#[tokio::test]
async fn a_take_that_gets_fewer_keys_costs_no_more_of_the_quota() {
    let instance = Instance::start().await;
    let digits = json!({
        "kind": "sequential", "alphabet": "decimal", "length": 1, "blocklist": false,
    });
    let mut client = client(&instance).await;
    take(&mut client, "default", 1).await.unwrap();
    for space in ["digits-1", "digits-2"] {
        assert_eq!(instance.put(space, &digits).await.status, 201);
        // Nine are left.
        take(&mut client, space, 1).await.unwrap();
    }
    let admin = instance.admin().await;
    for (space, is_stream) in [("digits-1", false), ("digits-2", true)] {
        let some = json!({"name": space, "allow": ["take:*"], "quota": 19});
        let some = instance.token_by(&admin, &some).await;
        if is_stream {
            let mut keys = Keys::of(&mut client, space, 15, Some(&some)).await;
            assert_eq!(keys.take(9).await.len(), 9);
        } else {
            let ask =
                v1::TakeRequest { space: space.into(), count: Some(15), ..Default::default() };
            let keys = client.take(super::bearing(&some, ask)).await.unwrap().into_inner().keys;
            assert_eq!(keys.len(), 9);
        }
        let path = "/v1/spaces/default/keys?count=10";
        let rest = instance.call_as(&some, "POST", path).await;
        assert_eq!(rest.status, 200, "{}", rest.body);
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_before_it_is_read() {
    let instance = Instance::start().await;
    let mut client = client(&instance).await;
    // The server of these tests takes 4,096 bytes.
    let ask = v1::ExplainRequest { space: "default".to_owned(), key: "x".repeat(5_000) };
    is_problem(client.explain(ask).await, Code::ResourceExhausted, "body_too_large", "4096");
    let sender = connect(instance.address).await;
    let (answer, mut body) = send(sender, "/keymill.v1.Keymill/Explain").await;
    // Only the head of a message of 4 GB.
    body.send_data(Bytes::from_static(b"\0\xff\xff\xff\xff"), false).unwrap();
    let answer = timeout(SOON, answer).await.expect("at once").unwrap();
    assert_eq!(answer.headers()["grpc-status"], "8");
}

#[tokio::test]
async fn more_inputs_than_a_call_may_have_are_refused_before_they_are_decoded() {
    let instance = Instance::start().await;
    instance.http.set_body_max(1 << 20);
    instance.put("urls", &json!({"kind": "digest"})).await;
    let mut client = client(&instance).await;
    let many = vec![String::new(); 300_000];
    let ask = v1::DigestRequest { space: "urls".to_owned(), inputs: many, scope: String::new() };
    is_problem(client.digest(ask.clone()).await, Code::InvalidArgument, "bad_count", "inputs");
    let elsewhere = v1::DigestRequest { space: "nowhere".to_owned(), ..ask };
    is_problem(client.digest(elsewhere).await, Code::InvalidArgument, "bad_count", "inputs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_for_everything_and_reads_nothing_is_given_little() {
    let instance = Instance::start().await;
    let tickets = json!({
        "kind": "sequential", "alphabet": "decimal", "length": 9, "blocklist": false,
        "lease_size_min": 1_000_000, "lease_size_max": 1_000_000, "horizon_seconds": 1,
    });
    assert_eq!(instance.put("tickets", &tickets).await.status, 201);
    let mut client = client(&instance).await;
    assert_eq!(take(&mut client, "tickets", 1).await.unwrap(), ["000000000"]);
    let stream = TcpStream::connect(instance.address).await.unwrap();
    // It allows the server to send gigabytes, and never reads a byte of them.
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(u32::MAX >> 1).initial_connection_window_size(u32::MAX >> 1);
    let (sender, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
    let mut connection = Box::pin(connection);
    let begin = async {
        let (answer, mut body) = send(sender, "/keymill.v1.Keymill/TakeStream").await;
        let first = TakeStreamRequest {
            space: "tickets".to_owned(),
            credit: u32::MAX,
            ..Default::default()
        };
        body.send_data(framed(&first.encode_to_vec()), false).unwrap();
        let mut data = timeout(SOON, answer).await.expect("it begins").unwrap().into_body();
        timeout(SOON, data.data()).await.expect("keys come").unwrap().unwrap();
        (body, data)
    };
    // From the first keys on, the connection is held and not read any more.
    let _held = tokio::select! {
        held = begin => held,
        end = &mut connection => panic!("{end:?}"),
    };
    let space = instance.service.space("tickets").await.unwrap();
    let mut left = space.at_hand();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        if std::mem::replace(&mut left, space.at_hand()) == space.at_hand() {
            break;
        }
    }
    // What the buffers of two sockets hold, and little more; and it stays at that.
    let next: u64 = take(&mut client, "tickets", 1).await.unwrap()[0].parse().unwrap();
    assert!(next < 8 << 20, "{next} keys were made for a client that reads nothing");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after: u64 = take(&mut client, "tickets", 1).await.unwrap()[0].parse().unwrap();
    assert_eq!(after, next + 1, "keys are made although nobody reads");
}

/// Begins a call.
async fn send(sender: SendRequest<Bytes>, path: &str) -> (ResponseFuture, h2::SendStream<Bytes>) {
    let mut sender = sender.ready().await.unwrap();
    sender.send_request(request(path), false).unwrap()
}
