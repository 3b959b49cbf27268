//! `Take`: the hot path of gRPC.

use std::borrow::Cow;
use std::time::Instant;

use bytes::BufMut;
use hyper::Response;
use hyper::header::HeaderMap;
use jiff::Timestamp;
use keymill_engine::operations::check_caller;
use keymill_engine::operations::turn::turn;
use keymill_proto::v1::TakeRequest;
use prost::Message;
use prost::encoding::encode_varint;

use super::Asked;
use super::admission::Admitted;
use super::answers::{answer_in, begin_frame, end_frame, small};
use super::convert;
use super::messages::{HEAD, Received};
use crate::access::Counted;
use crate::front::admission::exceeded;
use crate::front::http::pieces::{ROW_BYTES, ROWS_WAIT_MAX, SMALL_MAX};
use crate::front::http::{Body, Http, Problem};

/// The fields of a `TakeResponse`, each followed by the length of its text.
const SPACE: u8 = 1 << 3 | 2;
const KEY: u8 = 2 << 3 | 2;
const EXPIRES_AT: u8 = 3 << 3 | 2;
/// What a field has besides its text, at most, where the text is no longer than 16 KB.
const AROUND: usize = 3;
/// What a time takes, with its field.
const TIME_LEN_MAX: usize = 24;

/// A take of this many keys waits for a turn of its own: it takes some hundredths of a millisecond.
const COUNT_OF_A_TURN: u32 = 256;
/// The largest header map of a request that becomes that of its answer, which the connection then keeps.
const HEADERS_KEPT_MAX: usize = 24;

/// Takes keys.
pub(super) async fn take(
    http: &Http,
    asked: &Asked,
    admitted: &Admitted,
    message: Received,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let service = &http.state.service;
    let TakeRequest { space, count, caller } = admitted.only(http, message)?;
    named(&space)?;
    let count = count.unwrap_or(1);
    check_caller(&caller)?;
    service.check_count(count)?;
    let counted = admitted.caller.count(count, false).map_err(exceeded)?;
    if count == 1
        && let Some(taken) = service.take_noted(&space, Instant::now())
    {
        let mut bytes = Vec::with_capacity(HEAD + space.len() + taken.key.len() + 2 * AROUND);
        let start = begin_frame(&mut bytes);
        put_text(&mut bytes, SPACE, space.as_bytes());
        put_text(&mut bytes, KEY, &taken.key);
        end_frame(&mut bytes, start);
        counted.keep(1);
        return Ok(small(bytes.into(), emptied(headers)));
    }
    let name = admitted.caller.name(&caller, &space);
    // On the heap, so that a take of one key, which is what nearly all are, stays small.
    asked.in_time(Box::pin(take_some(http, &space, count, name, counted))).await
}

/// Refuses a take that names no keyspace.
pub(super) fn named(space: &str) -> Result<(), Problem> {
    match space {
        "" => Err(Problem::bad_body("`space` is missing: it names the keyspace".to_owned())),
        _ => Ok(()),
    }
}

/// Takes keys that have to be waited for, or that are many.
async fn take_some(
    http: &Http,
    space: &str,
    count: u32,
    caller: Cow<'_, str>,
    counted: Counted,
) -> Result<Response<Body>, Problem> {
    let state = &http.state;
    let space = state.service.space(space).await?;
    let per_key = space.key_len_max() + AROUND;
    let len_max = HEAD + space.name.len() + AROUND + TIME_LEN_MAX + per_key * count as usize;
    let room = if len_max > SMALL_MAX {
        let rows = if space.takes_rows() { ROW_BYTES * count as usize } else { 0 };
        let room = state.budget.reserve_whole(len_max + rows, ROWS_WAIT_MAX).await;
        Some(room.ok_or_else(Problem::too_many_large_answers)?)
    } else {
        None
    };
    if count >= COUNT_OF_A_TURN {
        turn().await;
    }
    let mut bytes = Vec::with_capacity(len_max);
    let start = begin_frame(&mut bytes);
    put_text(&mut bytes, SPACE, space.name.as_bytes());
    let each = |key: &[u8]| put_text(&mut bytes, KEY, key);
    let taken = state.service.take(&space, count, &caller, each).await?;
    counted.keep(taken.count);
    if let Some(at) = taken.expires_at {
        put_time(&mut bytes, EXPIRES_AT, at);
    }
    end_frame(&mut bytes, start);
    Ok(answer_in(state, bytes, room))
}

fn put_text(bytes: &mut Vec<u8>, field: u8, text: &[u8]) {
    bytes.put_u8(field);
    encode_varint(text.len() as u64, bytes);
    bytes.put_slice(text);
}

fn put_time(bytes: &mut Vec<u8>, field: u8, at: Timestamp) {
    put_text(bytes, field, &convert::time(at).encode_to_vec());
}

/// A header map without its headers: making and dropping another one would cost more than making the key.
fn emptied(mut headers: HeaderMap) -> HeaderMap {
    if headers.capacity() > HEADERS_KEPT_MAX {
        return HeaderMap::new();
    }
    headers.clear();
    headers
}

#[cfg(test)]
mod tests {
    use keymill_proto::v1::TakeResponse;

    use super::*;

    #[test]
    fn what_is_written_by_hand_is_the_message_of_the_contract() {
        let mut bytes = Vec::new();
        let start = begin_frame(&mut bytes);
        let keys = ["a".to_owned(), "x".repeat(300)];
        put_text(&mut bytes, SPACE, b"links");
        for key in &keys {
            put_text(&mut bytes, KEY, key.as_bytes());
        }
        let at = "2026-11-16T00:00:00.25Z".parse().unwrap();
        let keys_end = bytes.len();
        put_time(&mut bytes, EXPIRES_AT, at);
        assert!(bytes.len() - keys_end <= TIME_LEN_MAX);
        end_frame(&mut bytes, start);
        let expires_at = Some(convert::time(at));
        let expected = TakeResponse { space: "links".to_owned(), keys: keys.to_vec(), expires_at };
        assert_eq!(bytes[..HEAD], [0, 0, 0, 1, u8::try_from(bytes.len() - HEAD - 256).unwrap()]);
        assert_eq!(TakeResponse::decode(&bytes[HEAD..]).unwrap(), expected);
        assert_eq!(bytes[HEAD..], expected.encode_to_vec());
    }
}
