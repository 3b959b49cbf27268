//! Server reflection: the contract, for tools such as grpcurl. Version 1, and the version before it, which many still use.

use std::pin::Pin;
use std::sync::LazyLock;

use axum::body::Body as AxumBody;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tonic_reflection::server::Builder;
use tower::ServiceExt;

use super::methods::Method;
use crate::front::http::Body;

/// The longest message of a client: a name.
const REQUEST_LEN_MAX: usize = 4 << 10;

type Answering = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;
type Reflect = Box<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;

static V1: LazyLock<Reflect> = LazyLock::new(|| {
    let server = contracts().build_v1().expect("the descriptors were made by the build");
    let server = server.max_decoding_message_size(REQUEST_LEN_MAX);
    Box::new(move |request| {
        let answering = server.clone().oneshot(request);
        Box::pin(async move { answering.await.unwrap_or_else(|never| match never {}) })
    })
});

static V1_ALPHA: LazyLock<Reflect> = LazyLock::new(|| {
    let server = contracts().build_v1alpha().expect("the descriptors were made by the build");
    let server = server.max_decoding_message_size(REQUEST_LEN_MAX);
    Box::new(move |request| {
        let answering = server.clone().oneshot(request);
        Box::pin(async move { answering.await.unwrap_or_else(|never| match never {}) })
    })
});

/// Answers a call of reflection.
pub(super) async fn answer(method: Method, request: Request<Incoming>) -> Response<Body> {
    let reflect = if method == Method::ReflectionAlpha { &V1_ALPHA } else { &V1 };
    reflect(request).await.map(|body| Either::Right(AxumBody::new(body)))
}

fn contracts() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(keymill_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
