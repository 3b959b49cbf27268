//! gRPC on a true server, in this process, asked by tonic's client and by one that sends what it likes.

mod aliases;
mod calls;
mod health;
mod limits;
mod malformed;
mod rights;
mod spaces;
mod stream;
mod stream_ends;

use std::net::SocketAddr;
use std::time::Duration;

use keymill_proto::v1;
use keymill_proto::v1::keymill_client::KeymillClient;
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::http::Instance;

type Client = KeymillClient<Channel>;

/// How long something may take that is not slow.
const SOON: Duration = Duration::from_secs(20);

/// A client of an instance.
async fn client(instance: &Instance) -> Client {
    client_at(instance.address).await
}

async fn client_at(address: SocketAddr) -> Client {
    KeymillClient::new(channel(address).await).max_decoding_message_size(64 << 20)
}

async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// A message with a token.
fn bearing<T>(token: &str, message: T) -> Request<T> {
    with_header(&format!("Bearer {token}"), message)
}

/// The same with anything in the header.
fn with_header<T>(value: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value = MetadataValue::try_from(value).unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

/// A take, repeated while the first keys are on their way.
async fn take(client: &mut Client, space: &str, count: u32) -> Result<Vec<String>, Status> {
    loop {
        let ask =
            v1::TakeRequest { space: space.to_owned(), count: Some(count), ..Default::default() };
        match client.take(ask).await {
            Err(status) if reason(&status) == "no_keys_ready" => {}
            answer => {
                let answer = answer?.into_inner();
                assert_eq!(answer.space, space);
                return Ok(answer.keys);
            }
        }
    }
}

/// Creates a keyspace.
async fn ensure(client: &mut Client, space: &str, settings: v1::SpaceSettings) -> v1::Space {
    let ask = v1::EnsureSpaceRequest { space: space.to_owned(), settings: Some(settings) };
    let answer = client.ensure_space(ask).await.unwrap().into_inner();
    assert!(answer.made, "{space}");
    answer.space.unwrap()
}

/// The settings of a kind.
fn of_kind(kind: v1::Kind) -> v1::SpaceSettings {
    v1::SpaceSettings { kind: Some(kind.into()), ..Default::default() }
}

/// The contract, as the server describes it.
fn contract() -> prost_types::FileDescriptorProto {
    let all = prost_types::FileDescriptorSet::decode(keymill_proto::FILE_DESCRIPTOR_SET).unwrap();
    let is_it = |file: &prost_types::FileDescriptorProto| file.package() == "keymill.v1";
    all.file.into_iter().find(is_it).unwrap()
}

/// The reason in the details of an error: the same code as over HTTP.
fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no reason: {status:?}"));
    assert_eq!(info.domain, "keymill");
    info.reason.clone()
}

/// Asserts that this is an error, with its code, reason and a part of what it says.
#[track_caller]
fn is_problem<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, why: &str, says: &str) {
    let status = answer.expect_err("it is refused");
    assert_eq!((status.code(), reason(&status).as_str()), (code, why), "{status:?}");
    assert!(status.message().contains(says), "`{}` does not say `{says}`", status.message());
    let id = status.metadata().get("x-request-id").map(|id| id.to_str().unwrap().to_owned());
    let told = status.get_error_details().request_info().unwrap().request_id.clone();
    // The trailers of a stream have no ID of their own.
    assert!(id.is_none_or(|id| id == told) && !told.is_empty());
    let retries = status.get_error_details().retry_info().is_some();
    assert!(!retries || matches!(code, Code::Unavailable | Code::ResourceExhausted), "{why}");
}
