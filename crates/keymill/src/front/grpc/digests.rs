//! `Digest`: the keys of inputs.

use bytes::{Buf, Bytes};
use hyper::Response;
use keymill_engine::operations::DigestAnswer;
use keymill_proto::v1::{DigestKey, DigestRequest, DigestResponse, GetSpaceRequest};
use prost::encoding::{DecodeContext, decode_key, skip_field};

use super::admission::Admitted;
use super::answers::{answer_in, answer_with, framed};
use super::messages::Received;
use crate::front::admission::exceeded;
use crate::front::http::pieces::room_for;
use crate::front::http::{Body, Http, Problem};

/// The field of a `DigestRequest` that has the inputs.
const INPUTS: u32 = 2;

/// Returns the keys of inputs, in their order.
pub(super) async fn digest(
    http: &Http,
    admitted: &Admitted,
    message: Received,
) -> Result<Response<Body>, Problem> {
    let state = &http.state;
    // Who may not ask at all is told that first: every message names its keyspace in the same field.
    admitted.message::<GetSpaceRequest>(http, message.bytes.clone())?;
    // Before it is decoded: an empty input has two bytes in a message, and many more in memory.
    let (count, max) = (inputs_in(message.bytes.clone()), state.service.limits().count_max);
    let Some(count) = u32::try_from(count).ok().filter(|count| (1..=max).contains(count)) else {
        let detail = format!("`inputs` must have 1 to {max} entries");
        return Err(Problem::bad_request("bad_count", detail));
    };
    let room = room_for(state, count as usize).await?;
    let DigestRequest { space, inputs, scope } = admitted.only(http, message)?;
    let counted = admitted.caller.count(count, false).map_err(exceeded)?;
    let answers = state.service.digest_all(&space, &scope, &inputs).await?;
    counted.keep(count);
    let key = |answer: DigestAnswer| DigestKey {
        key: answer.key,
        made: answer.made,
        tries: answer.made.then_some(answer.tries.into()),
    };
    let answer = DigestResponse { space, keys: answers.into_iter().map(key).collect() };
    match room {
        Some(room) => Ok(answer_in(state, framed(&answer), Some(room))),
        None => answer_with(state, &answer),
    }
}

/// How many inputs a message has; what cannot be read is left to the decoder to complain about.
fn inputs_in(mut message: Bytes) -> usize {
    let mut count = 0;
    while message.has_remaining() {
        let Ok((field, wire_type)) = decode_key(&mut message) else { break };
        if skip_field(wire_type, field, &mut message, DecodeContext::default()).is_err() {
            break;
        }
        count += usize::from(field == INPUTS);
    }
    count
}
