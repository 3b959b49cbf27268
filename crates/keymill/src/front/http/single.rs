//! A take of one key that is answered at once: nearly all of the traffic.
//!
//! `server` offers every request to [`Http::answer_now`] before it makes a future of it. What is
//! unusual about a request, or has to wait, is left to [`Http::answer`], which gives the same answers.
//!
//! # Invariants
//!
//! - A request that is not answered here is unchanged but for [`Paid`], and no key was made for it that
//!   could have been handed out. An ordinal whose key is blocked is spent, as it is everywhere.
//! - Nothing here waits, asks the store, or writes to the log.

use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use keymill_engine::operations::{Service, Space, TakenNow};

use super::origin::REQUEST_ID;
use super::take::{JSON, PLAIN, wants_plain};
use super::{Body, Http, admission, checks, label, protocol_of};
use crate::front::span;
use crate::metrics::Route;

/// The content types, made once.
static AS_PLAIN: HeaderValue = HeaderValue::from_static(PLAIN);
static AS_JSON: HeaderValue = HeaderValue::from_static(JSON);

/// The largest header map of a request that becomes that of its answer. It stays with the connection, which
/// would otherwise keep, while it is idle, what one request with a hundred headers needed.
const HEADERS_KEPT_MAX: usize = 24;

/// On a request whose key was counted against the limits of its token, and could not be made here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paid;

/// The keyspace that `/get-key` takes from.
#[derive(Debug)]
pub(super) struct DefaultSpace {
    pub(super) name: Box<str>,
    /// Set once it is open. Open keyspaces stay open, so it need not be looked up again.
    opened: OnceLock<Arc<Space>>,
}

impl DefaultSpace {
    pub(super) fn new(name: &str) -> DefaultSpace {
        DefaultSpace { name: name.into(), opened: OnceLock::new() }
    }

    /// Takes a key of a keyspace, most likely this one, without waiting.
    fn take_now(&self, service: &Service, name: &str, began: Instant) -> Option<TakenNow> {
        if *name != *self.name {
            return service.take_noted(name, began);
        }
        if let Some(space) = self.opened.get() {
            return space.take_noted(began);
        }
        let space = service.known_space(name)?;
        self.opened.get_or_init(|| space).take_noted(began)
    }
}

impl Http {
    /// Answers a take of one key, if its keyspace has one in memory and the request asks for nothing else.
    /// Otherwise returns `None` and leaves the request unchanged.
    ///
    /// An answer takes over the header map of its request, because making and dropping another one would cost
    /// more than making the key.
    pub(crate) fn answer_now(&self, request: &mut Request<Incoming>) -> Option<Response<Body>> {
        let (uri, default) = (request.uri(), &self.state.default_space);
        if uri.query().is_some() || !request.body().is_end_stream() || checks::logs_requests() {
            return None;
        }
        let (route, name) = match *request.method() {
            Method::GET if uri.path() == "/get-key" => (Route::GetKey, &*default.name),
            // No keyspace has a name that needs encoding.
            Method::POST => {
                let rest = uri.path().strip_prefix("/v1/spaces/")?;
                (Route::Take, rest.strip_suffix("/keys")?)
            }
            _ => return None,
        };
        let (began, protocol) = (Instant::now(), protocol_of(request));
        checks::check(&self.origin, request).ok()?;
        let headers = request.headers();
        // Pages of other origins, whoever may have brought the first token, and takes that are part of a trace.
        let is_first = || headers.contains_key(header::AUTHORIZATION) && !self.state.access.is_on();
        if headers.contains_key(header::ORIGIN) || is_first() || span::is_wanted(headers) {
            return None;
        }
        let caller = admission::admit(&self.state, &self.origin, request, false).ok()?;
        caller.spend(1).ok()?;
        let Some(taken) = default.take_now(&self.state.service, name, began) else {
            // It is counted, and must not be counted again.
            request.extensions_mut().insert(Paid);
            return None;
        };
        let TakenNow { key, took } = taken;
        let (content_type, body) = match route {
            Route::Take if !wants_plain(request) => (&AS_JSON, json(name, &key)),
            Route::Take => (&AS_PLAIN, [&*key, b"\n"].concat().into()),
            _ => (&AS_PLAIN, Bytes::copy_from_slice(&key)),
        };
        let id = self.origin.request_id(request.headers());
        let mut headers = mem::take(request.headers_mut());
        if headers.capacity() <= HEADERS_KEPT_MAX {
            headers.clear();
        } else {
            headers = HeaderMap::new();
        }
        label(&mut headers, content_type.clone());
        headers.insert(&REQUEST_ID, id);
        let mut answer = Response::new(Either::Left(Full::new(body)));
        *answer.headers_mut() = headers;
        // What is left to do takes less time than to look at the clock again.
        self.state.metrics.count((protocol, route), StatusCode::OK, took);
        Some(answer)
    }
}

/// One key in the form in which several are given. Names and keys need no escapes.
fn json(space: &str, key: &[u8]) -> Bytes {
    [b"{\"space\":\"", space.as_bytes(), b"\",\"keys\":[\"", key, b"\"]}\n"].concat().into()
}
