//! One request over HTTP whose answer is read whole: what nearly every call is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use crate::calls::{Attempt, Stop};
use crate::error::Error;
use crate::servers::Server;
use crate::transport::{Address, Body};

/// What need not be encoded in a path or a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(crate) static USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("keymill-client/", env!("CARGO_PKG_VERSION")));
static JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request that is safe to repeat.
#[derive(Debug)]
pub(crate) struct HttpCall {
    method: Method,
    /// Path and query.
    target: String,
    body: Bytes,
    authorization: Option<HeaderValue>,
    doubted: AtomicBool,
}

impl HttpCall {
    pub(crate) fn new(method: Method, target: String) -> HttpCall {
        let (body, doubted) = (Bytes::new(), AtomicBool::new(false));
        HttpCall { method, target, body, authorization: None, doubted }
    }

    /// The same with a JSON body.
    pub(crate) fn json(mut self, body: &impl Serialize) -> HttpCall {
        let body = serde_json::to_vec(body).expect("settings and texts can be written as JSON");
        self.body = body.into();
        self
    }

    pub(crate) fn authorize(mut self, authorization: Option<&HeaderValue>) -> HttpCall {
        self.authorization = authorization.cloned();
        self
    }

    /// Whether an attempt may have had its effect, although there was no answer.
    pub(crate) fn was_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    fn build(&self, address: &Address) -> Request<Body> {
        let mut request = begin(address, &self.method, &self.target, self.authorization.as_ref());
        if !self.body.is_empty() {
            request.headers_mut().insert(header::CONTENT_TYPE, JSON.clone());
        }
        request.map(|()| Body::whole(self.body.clone()))
    }
}

impl Attempt for HttpCall {
    type Answer = (StatusCode, HeaderMap, Bytes);

    async fn attempt(&self, server: &Server, sent: &AtomicBool) -> Result<Self::Answer, Stop> {
        let make = || self.build(&server.line.address);
        let mut answer = server.line.send(make, sent).await.map_err(Stop::Failed)?;
        let body = answer.whole().await.map_err(Stop::Failed)?;
        if answer.status.is_success() {
            return Ok((answer.status, std::mem::take(&mut answer.headers), body));
        }
        let wait = retry_after(&answer.headers);
        Err(Stop::Refused(Error::from_answer(answer.status.as_u16(), wait, &body)))
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }
}

/// A request with the headers that all have. `target` is path and query.
pub(crate) fn begin(
    address: &Address,
    method: &Method,
    target: &str,
    authorization: Option<&HeaderValue>,
) -> Request<()> {
    let target = match address.prefix.as_str() {
        "" => target.parse(),
        prefix => format!("{prefix}{target}").parse(),
    };
    let mut request = Request::new(());
    *request.method_mut() = method.clone();
    *request.uri_mut() = target.expect("paths are encoded, and others were checked");
    let headers = request.headers_mut();
    headers.insert(header::HOST, address.host.clone());
    headers.insert(header::USER_AGENT, USER_AGENT.clone());
    if let Some(authorization) = authorization {
        headers.insert(header::AUTHORIZATION, authorization.clone());
    }
    request
}

/// A name as a part of a path or a query.
pub(crate) fn encoded(name: &str) -> impl std::fmt::Display {
    utf8_percent_encode(name, ENCODED)
}

/// How long a server asks to be left alone.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_built_for_the_server_that_it_goes_to() {
        let token = HeaderValue::from_static("Bearer km_x");
        let call = HttpCall::new(Method::PUT, format!("/v1/spaces/{}", encoded("a/b ü.~")));
        let call = call.json(&serde_json::json!({"length": 8})).authorize(Some(&token));
        let request = call.build(&Address::parse("https://proxy/keymill").unwrap());
        assert_eq!(request.uri(), "/keymill/v1/spaces/a%2Fb%20%C3%BC.~");
        let header = |name: header::HeaderName| request.headers()[name].to_str().unwrap();
        assert_eq!(header(header::HOST), "proxy");
        assert_eq!(header(header::AUTHORIZATION), "Bearer km_x");
        assert_eq!(header(header::CONTENT_TYPE), "application/json");
        let plain = HttpCall::new(Method::POST, "/v1/spaces/links/keys".to_owned());
        let request = plain.build(&Address::parse("http://a:1").unwrap());
        assert_eq!(request.uri(), "/v1/spaces/links/keys");
        assert!(!request.headers().contains_key(header::CONTENT_TYPE));
    }
}
