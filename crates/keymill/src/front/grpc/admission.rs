//! Admission over gRPC: whether a call may go on, and who makes it.
//!
//! `answer` asks before a message is read: for a valid token, where the server has tokens, and for a caller that is no
//! web page, where it has none. Which keyspace a call is about stands in its message, so the right for it is looked at
//! when the message is decoded. A stream asks again before every batch, and without a token it is counted again, too.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Buf;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Request, StatusCode};
use keymill_proto::v1;
use prost::Message;

use super::checks;
use super::messages::Received;
use super::methods::{Method, Need};
use crate::access::limits::Exceeded;
use crate::access::secret_text::{self, TokenHash};
use crate::access::{Caller, Denied};
use crate::front;
use crate::front::addresses::counted_as;
use crate::front::admission::Refused;
use crate::front::http::admission::{bearer, check_browser};
use crate::front::http::{Http, Listener, Problem};

/// A caller that may make a call, as far as that is known before its message is read.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) method: Method,
    pub(super) caller: Caller,
}

/// A message that asks for something.
pub(super) trait Ask: Message + Default {
    /// The keyspace that it is about; `None` where it is about all of them.
    fn space(&self) -> Option<&str>;
}

/// Who makes a call, if it may go on.
pub(super) async fn admit(
    http: &Http,
    method: Option<Method>,
    request: &Request<Incoming>,
) -> Result<Admitted, Problem> {
    let (state, path) = (&http.state, request.uri().path());
    checks::check(&http.origin, request)?;
    let is_elsewhere = state.has_admin_listener && http.origin.listener == Listener::Public;
    if is_elsewhere && method.is_some_and(Method::is_admin_only) {
        return Err(not_here(format!("{path} is not answered on this address")));
    }
    let need = method.map_or(Need::Token, Method::need);
    let caller = if need == Need::Nothing {
        Caller::nobody(state.access.is_on())
    } else {
        let has_token = request.headers().contains_key(header::AUTHORIZATION);
        let ask = |_| ask(http, need, request);
        front::admission::admit(&state.access, &state.service, has_token, ask).await?
    };
    let Some(method) = method else {
        return Err(not_here(format!(
            "no such method: {}. See docs/grpc.md",
            path.escape_default()
        )));
    };
    Ok(Admitted { method, caller })
}

fn ask(http: &Http, need: Need, request: &Request<Incoming>) -> Result<Caller, Refused> {
    let (state, headers) = (&http.state, request.headers());
    let is_on = state.access.is_on();
    let bearer = match bearer(headers) {
        Err(problem) if is_on && need != Need::Page => return Err(Refused::Problem(problem)),
        sent => sent.unwrap_or_default(),
    };
    if bearer.is_none() || !is_on {
        check_browser(&state.browser_rules.load(), request)?;
    }
    if need == Need::Page {
        return Ok(Caller::nobody(is_on));
    }
    let certificate = http.origin.certificate_names();
    let admitted = state.access.admit(bearer, certificate, None, || address(http, headers));
    admitted.map_err(|denied| Refused::new(denied, None))
}

/// Whom a caller without a token is counted as.
fn address(http: &Http, headers: &HeaderMap) -> Option<IpAddr> {
    let client = http.origin.client(headers, &http.state.address_rules.load())?;
    Some(counted_as(client.0))
}

fn not_here(detail: String) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

impl Admitted {
    /// Decodes a message, if its caller may do in its keyspace what the method does.
    pub(super) fn message<A: Ask>(&self, http: &Http, message: impl Buf) -> Result<A, Problem> {
        let ask: A = decoded(message)?;
        allow(http, self.method, &self.caller, ask.space())?;
        Ok(ask)
    }

    /// The same of the one message of a call, whose bytes are not needed any more.
    pub(super) fn only<A: Ask>(&self, http: &Http, message: Received) -> Result<A, Problem> {
        self.message(http, message.bytes)
    }
}

/// Decodes a message.
pub(super) fn decoded<A: Message + Default>(message: impl Buf) -> Result<A, Problem> {
    let bad = |error| Problem::bad_body(format!("the message is not valid: {error}"));
    A::decode(message).map_err(bad)
}

/// Refuses what a caller may not do. The call was counted before.
fn allow(http: &Http, method: Method, caller: &Caller, space: Option<&str>) -> Result<(), Problem> {
    let Need::Right(right) = method.need() else { return Ok(()) };
    let wanted = Some((right, space));
    let allowed = http.state.access.allow(caller, wanted, || None);
    Ok(allowed.map_err(|denied| Refused::new(denied, wanted))?)
}

/// What a stream is asked for again: who it was admitted as.
#[derive(Debug)]
pub(super) struct Standing {
    method: Method,
    token: Option<TokenHash>,
    /// Whom a caller without a token is counted as.
    address: Option<IpAddr>,
}

impl Standing {
    /// That of an admitted call.
    pub(super) fn new(http: &Http, admitted: &Admitted, headers: &HeaderMap) -> Standing {
        let token = bearer(headers).ok().flatten().and_then(secret_text::hash);
        Standing { method: admitted.method, token, address: address(http, headers) }
    }

    /// The caller, if it may still do in a keyspace what the method does.
    pub(super) fn check(&self, http: &Http, space: &str) -> Result<Caller, Problem> {
        let certificate = http.origin.certificate_names();
        let found = http.state.access.recognize(self.token.as_ref(), certificate);
        let caller = found.map_err(|denied| Refused::new(denied, None))?;
        allow(http, self.method, &caller, Some(space))?;
        Ok(caller)
    }

    /// Counts one request more of a caller without a token, or says how long it has to wait for that.
    pub(super) fn count(
        &self,
        http: &Http,
        caller: &Caller,
    ) -> Result<Result<(), Duration>, Problem> {
        match http.state.access.allow(caller, None, || self.address) {
            Ok(()) => Ok(Ok(())),
            Err(Denied::Exceeded(Exceeded::Rate { wait, .. })) => Ok(Err(wait)),
            Err(denied) => Err(Refused::new(denied, None).into()),
        }
    }
}

macro_rules! in_a_space {
    ($($ask:ident)*) => {$(
        impl Ask for v1::$ask {
            fn space(&self) -> Option<&str> {
                Some(&self.space)
            }
        }
    )*};
}

in_a_space! {
    TakeRequest TakeStreamRequest DigestRequest AddAliasRequest RemoveAliasRequest GetAliasRequest
    ListAliasesRequest ExplainRequest RetireRequest EnsureSpaceRequest GetSpaceRequest
}

impl Ask for v1::ListSpacesRequest {
    fn space(&self) -> Option<&str> {
        None
    }
}
