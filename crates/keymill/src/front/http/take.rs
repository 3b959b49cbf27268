//! `POST /v1/spaces/{space}/keys` and `GET /get-key`: the hot path.

use bytes::{BufMut, BytesMut};
use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response, header};
use percent_encoding::percent_decode_str;

use super::{Body, Problem, State, check_encoding, full};
use crate::service::{Space, check_caller};

/// Takes keys.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/keys", tag = "keys",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("count" = Option<u32>, Query, description = "How many keys: 1 (the default) to 100,000"),
        ("caller" = Option<String>, Query, description = "For whom, in a keyspace with audit `key`"),
        ("numbers" = Option<bool>, Query, description = "`true`: JSON numbers instead of strings, in a keyspace of snowflake IDs of at most 53 bits"),
    ),
    responses(
        (status = 200, description = "The keys; fewer than asked for only when the keyspace ends there. With `Accept: text/plain`, one key per line.",
            body = super::wire::Keys),
        (status = 400, description = "`bad_count`, `unknown_parameter`, `repeated_parameter`, `unexpected_body`, `bad_encoding`, `unsafe_numbers`", body = Problem),
        (status = 404, description = "`unknown_space`", body = Problem),
        (status = 409, description = "`exhausted`, `sealed`", body = Problem),
        (status = 503, description = "`dry`, `no_worker`, `store_went_back`, `store_unavailable`; try again after `Retry-After` seconds", body = Problem),
    )
)]
pub(super) async fn post(
    state: &State,
    encoded_name: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    check_encoding(request.uri())?;
    let [count, caller, numbers] = query(request.uri().query(), &["count", "caller", "numbers"])?;
    let numbers = as_switch(numbers)?;
    let caller = percent_decode_str(caller.unwrap_or_default()).decode_utf8_lossy().into_owned();
    check_caller(&caller)?;
    let count = match count {
        None => 1,
        Some(text) => text.parse().map_err(|_| Problem::bad_count(state.service.limits()))?,
    };
    state.service.check_count(count)?;
    let plain = wants_plain(&request);
    if !request.body().is_end_stream() && !state.read_body(request.into_body()).await?.is_empty() {
        let detail = "a take has no body; say how many with ?count=N".to_owned();
        return Err(Problem::bad_request("unexpected_body", detail));
    }
    let name = percent_decode_str(encoded_name).decode_utf8_lossy();
    let space = state.service.space(&name).await?;
    if numbers {
        check_numbers(&space)?;
    }
    let quote: &[u8] = if numbers { b"" } else { b"\"" };
    let key_len = space.codec().text_len_max();
    if plain {
        let mut body = BytesMut::with_capacity((key_len + 1) * count as usize);
        state
            .service
            .take(&space, count, &caller, |key| {
                body.put_slice(key);
                body.put_u8(b'\n');
            })
            .await?;
        return Ok(full("text/plain; charset=utf-8", body.freeze()));
    }
    let mut body = BytesMut::with_capacity((key_len + 3) * count as usize + name.len() + 32);
    // Names and keys are made of characters that JSON need not escape.
    body.put_slice(b"{\"space\":\"");
    body.put_slice(space.name.as_bytes());
    body.put_slice(b"\",\"keys\":[");
    state
        .service
        .take(&space, count, &caller, |key| {
            body.put_slice(quote);
            body.put_slice(key);
            body.put_slice(quote);
            body.put_u8(b',');
        })
        .await?;
    body.truncate(body.len() - 1);
    body.put_slice(b"]}\n");
    Ok(full("application/json", body.freeze()))
}

/// Takes one key from the default keyspace, as plain text.
#[utoipa::path(
    get, path = "/get-key", tag = "keys",
    params(("space" = Option<String>, Query, description = "Another keyspace than the default one")),
    responses(
        (status = 200, description = "One key", body = String, content_type = "text/plain"),
        (status = 400, description = "`unknown_parameter`, `repeated_parameter`, `bad_encoding`", body = Problem),
        (status = 404, description = "`unknown_space`", body = Problem),
        (status = 409, description = "`exhausted`, `sealed`", body = Problem),
        (status = 503, description = "`dry`, `store_went_back`, `store_unavailable`", body = Problem),
    )
)]
pub(super) async fn get_key(
    state: &State,
    request: &Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let named = match request.uri().query() {
        None => None,
        some => {
            check_encoding(request.uri())?;
            query(some, &["space"])?[0].map(|name| percent_decode_str(name).decode_utf8_lossy())
        }
    };
    let name = named.as_deref().unwrap_or(&state.default_space);
    if let Some(key) = state.service.take_now(name) {
        return Ok(full("text/plain; charset=utf-8", bytes::Bytes::copy_from_slice(&key)));
    }
    let space = state.service.space(name).await?;
    let mut body = BytesMut::with_capacity(space.codec().text_len_max());
    state.service.take(&space, 1, "", |key| body.put_slice(key)).await?;
    Ok(full("text/plain; charset=utf-8", body.freeze()))
}

/// Whether keys are to be JSON numbers.
fn as_switch(numbers: Option<&str>) -> Result<bool, Problem> {
    match numbers {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => {
            Err(Problem::bad_request("bad_parameter", "numbers must be true or false".to_owned()))
        }
    }
}

/// Refuses numbers that programs would not read as they are written.
fn check_numbers(space: &Space) -> Result<(), Problem> {
    if space.record().definition.is_safe_as_numbers() {
        return Ok(());
    }
    let detail = "only snowflake IDs of at most 53 bits, written as plain decimals, are safe as JSON \
                  numbers; take them as strings";
    Err(Problem::bad_request("unsafe_numbers", detail.to_owned()))
}

/// The values of the parameters named, in their order. Others are refused: a misspelt `count`
/// would silently give one key.
fn query<'a, const N: usize>(
    query: Option<&'a str>,
    names: &[&'static str; N],
) -> Result<[Option<&'a str>; N], Problem> {
    let mut values = [None; N];
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match names.iter().position(|known| *known == name) {
            Some(at) if values[at].is_none() => values[at] = Some(value),
            Some(_) => return Err(Problem::repeated_parameter(name)),
            None => return Err(Problem::unknown_parameter(name, names)),
        }
    }
    Ok(values)
}

/// Whether the caller would rather have plain text than JSON.
fn wants_plain(request: &Request<Incoming>) -> bool {
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(prefers_plain)
}

fn prefers_plain(accept: &str) -> bool {
    let quality = |wanted: [&str; 2]| {
        let of = |range: &str| {
            let mut parts = range.split(';').map(str::trim);
            if !wanted.contains(&parts.next().unwrap_or_default()) {
                return None;
            }
            Some(parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0))
        };
        accept.split(',').filter_map(of).fold(0.0, f32::max)
    };
    quality(["text/plain", "text/*"]) > quality(["application/json", "application/*"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_given_to_those_who_prefer_it() {
        for accept in
            ["text/plain", "text/*", "application/json;q=0.1, text/plain", "text/plain, */*"]
        {
            assert!(prefers_plain(accept), "{accept}");
        }
        for accept in
            ["", "*/*", "application/json", "text/plain;q=0.1, application/json", "image/png"]
        {
            assert!(!prefers_plain(accept), "{accept}");
        }
    }
}
