//! `POST /v1/spaces/{space}/keys` and `GET /get-key`: the hot path.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use hyper::body::Incoming;
use hyper::http::Extensions;
use hyper::{Request, Response, Uri, header};
use keymill_engine::operations::Space;
use keymill_engine::operations::turn::turn;
use percent_encoding::percent_decode_str;

use super::ask::{TakeAsk, TakeBody};
use super::params::query;
use super::pieces::{self, Form, SMALL_MAX};
use super::single::Paid;
use super::{Body, Problem, State, accept, check_encoding, full};
use crate::access::{Caller, Counted};
use crate::front::admission::exceeded;
use crate::front::view::Keys;

/// The content type of keys in lines, and of a single one.
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";
/// That of keys in an object.
pub(super) const JSON: &str = "application/json";

/// A take of this many keys waits for a turn of its own: it takes some hundredths of a millisecond.
const COUNT_OF_A_TURN: u32 = 256;

/// Takes keys: each is handed out once, and never again to anyone.
///
/// A take that fails has taken nothing and can be repeated. If an answer is lost on its way, its keys stay
/// unused; take new ones.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/keys", tag = "keys", operation_id = "take_keys",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("count" = Option<u32>, Query, description = "How many keys; 1 if left out"),
        ("caller" = Option<String>, Query, description = "Who the keys are for, in a keyspace with audit `key`"),
        ("numbers" = Option<bool>, Query, description = "`true` for JSON numbers instead of strings, in a keyspace of snowflake IDs of at most 53 bits"),
    ),
    request_body(content = TakeBody, description = "The parameters in a JSON body; each may be given in only one of the two places"),
    responses(
        (status = 200, description = "The keys; fewer than requested only if the keyspace has no more. With `Accept: text/plain`, one key per line.",
            content((Keys = "application/json"), (String = "text/plain"))),
        (status = 400, description = "`bad_count`, `bad_parameter`, `bad_caller`, `repeated_parameter`, `unsafe_numbers`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`exhausted`, `sealed`, `wrong_kind`, `wrong_secret`"),
        (status = 415, description = "`unsupported_media_type`"),
        (status = 503, description = "`no_keys_ready`, `no_worker`, `pool_filling`, `store_rolled_back`, `too_many_large_answers`"),
    )
)]
pub(super) async fn post(
    state: &State,
    encoded_name: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let plain = wants_plain(&request);
    let (parts, body) = request.into_parts();
    let TakeAsk { count, caller, numbers } = TakeAsk::read(state, &parts, body).await?;
    let name = percent_decode_str(encoded_name).decode_utf8_lossy();
    let (caller, counted) = spend(&parts.extensions, count, &caller, &name)?;
    let space = state.service.space(&name).await?;
    if numbers {
        check_numbers(&space)?;
    }
    let form = match (plain, numbers) {
        (true, _) => Form::Lines,
        (false, false) => Form::Strings,
        (false, true) => Form::Numbers,
    };
    let key_len = space.key_len_max();
    if form.len_max(key_len, count) > SMALL_MAX {
        // On the heap, so that a small take, which is what nearly all are, stays small.
        return Box::pin(pieces::take(state, &space, count, &caller, form, counted)).await;
    }
    if count >= COUNT_OF_A_TURN {
        // Pipelined, many of these would be made in a row, and hold up everybody else on this thread.
        turn().await;
    }
    let quote: &[u8] = if numbers { b"" } else { b"\"" };
    if plain {
        let mut body = BytesMut::with_capacity((key_len + 1) * count as usize);
        let taken = state
            .service
            .take(&space, count, &caller, |key| {
                body.put_slice(key);
                body.put_u8(b'\n');
            })
            .await?;
        counted.keep(taken.count);
        return Ok(full(PLAIN, body.freeze()));
    }
    let mut body = BytesMut::with_capacity((key_len + 3) * count as usize + name.len() + 32);
    // Names and keys are made of characters that JSON need not escape.
    body.put_slice(b"{\"space\":\"");
    body.put_slice(space.name.as_bytes());
    body.put_slice(b"\",\"keys\":[");
    let taken = state
        .service
        .take(&space, count, &caller, |key| {
            body.put_slice(quote);
            body.put_slice(key);
            body.put_slice(quote);
            body.put_u8(b',');
        })
        .await?;
    counted.keep(taken.count);
    body.truncate(body.len() - 1);
    match taken.expires_at {
        None => body.put_slice(b"]}\n"),
        Some(at) => body.put_slice(pieces::tail(at).as_bytes()),
    }
    Ok(full(JSON, body.freeze()))
}

/// Takes one key from the default keyspace, as plain text.
#[utoipa::path(
    get, path = "/get-key", tag = "keys", operation_id = "get_key",
    params(("space" = Option<String>, Query, description = "The keyspace; the default one if left out")),
    responses(
        (status = 200, description = "One key", body = String, content_type = "text/plain"),
        (status = 400, description = "`repeated_parameter`"),
        (status = 403, description = "`prefetch`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`exhausted`, `sealed`, `wrong_kind`, `wrong_secret`"),
        (status = 503, description = "`no_keys_ready`, `no_worker`, `pool_filling`, `store_rolled_back`"),
    )
)]
pub(super) async fn get_key(
    state: &State,
    request: &Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let named = named(request.uri())?;
    let name = named.as_deref().unwrap_or(&state.default_space.name);
    let (caller, counted) = spend(request.extensions(), 1, "", name)?;
    if let Some(taken) = state.service.take_noted(name, Instant::now()) {
        counted.keep(1);
        return Ok(full(PLAIN, bytes::Bytes::copy_from_slice(&taken.key)));
    }
    let space = state.service.space(name).await?;
    let mut body = BytesMut::with_capacity(space.generations().text_len_max());
    state.service.take(&space, 1, &caller, |key| body.put_slice(key)).await?;
    counted.keep(1);
    Ok(full(PLAIN, body.freeze()))
}

/// Answers `HEAD /get-key` like a `GET`, as far as that is possible without taking a key.
pub(super) async fn head(state: &State, uri: &Uri) -> Result<Response<Body>, Problem> {
    let named = named(uri)?;
    let space = state.service.space(named.as_deref().unwrap_or(&state.default_space.name)).await?;
    space.check_take()?;
    Ok(full(PLAIN, bytes::Bytes::new()))
}

/// Counts keys against the limits of the caller's token, which gets them back unless they are kept. Returns the
/// name that they are recorded for, too.
fn spend<'a>(
    extensions: &Extensions,
    count: u32,
    said: &'a str,
    space: &str,
) -> Result<(Cow<'a, str>, Counted), Problem> {
    let Some(caller) = extensions.get::<Arc<Caller>>() else {
        return Ok((said.into(), Counted::nothing()));
    };
    let is_spent = extensions.get::<Paid>().is_some();
    let counted = caller.count(count, is_spent).map_err(exceeded)?;
    Ok((caller.name(said, space), counted))
}

/// The keyspace that a query names.
fn named(uri: &Uri) -> Result<Option<Cow<'_, str>>, Problem> {
    if uri.query().is_none() {
        return Ok(None);
    }
    check_encoding(uri)?;
    let [space] = query(uri, &["space"])?;
    Ok(space)
}

/// Refuses JSON numbers that programs would round.
fn check_numbers(space: &Space) -> Result<(), Problem> {
    if space.record().definition.is_safe_as_numbers() {
        return Ok(());
    }
    let detail = "only snowflake IDs of at most 53 bits, written as plain decimals, are safe as JSON \
                  numbers; take them as strings";
    Err(Problem::bad_request("unsafe_numbers", detail.to_owned()))
}

/// Whether the caller would rather have plain text than JSON.
pub(super) fn wants_plain(request: &Request<Incoming>) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(accept::prefers_plain)
}
