//! The parameters of a take: in the query, or in a JSON body.
//!
//! `take` reads its requests here. Without a body and with plain parameters nothing is allocated.

use std::borrow::Cow;

use axum::http::request::Parts;
use hyper::body::{Body as _, Incoming};
use keymill_engine::operations::check_caller;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::params::{query, switch, whole_number};
use super::{Problem, State, body, check_encoding};

/// The parameters of a take.
#[derive(Debug)]
pub(super) struct TakeAsk<'a> {
    pub(super) count: u32,
    /// Who the keys are for; empty if not given.
    pub(super) caller: Cow<'a, str>,
    /// Whether keys are to be JSON numbers.
    pub(super) numbers: bool,
}

/// The body of a take. Each field does the same as the parameter of that name, and may be given in
/// only one of the two places.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TakeBody {
    /// How many keys; 1 if left out.
    #[schema(value_type = Option<u32>)]
    count: Option<Value>,
    /// Who the keys are for, in a keyspace with audit `key`.
    caller: Option<String>,
    /// `true` for JSON numbers instead of strings.
    numbers: Option<bool>,
}

impl<'a> TakeAsk<'a> {
    /// Reads the query and, where there is one, the body.
    pub(super) async fn read(
        state: &State,
        parts: &'a Parts,
        body: Incoming,
    ) -> Result<TakeAsk<'a>, Problem> {
        check_encoding(&parts.uri)?;
        let [count, caller, numbers] = query(&parts.uri, &["count", "caller", "numbers"])?;
        let numbers = switch("numbers", numbers.as_deref())?;
        let bad_count = || Problem::bad_count(state.service.limits());
        let as_count = |text: &str| whole_number(text, 1..=u32::MAX).ok_or_else(bad_count);
        let count = count.as_deref().map(as_count).transpose()?;
        let said = if body.is_end_stream() {
            TakeBody::default()
        } else {
            read_body(parts, &state.read_body(body).await?.bytes)?
        };
        let as_count = |value: Value| {
            let number = body::whole(&value).and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(bad_count)
        };
        let count = either("count", count, said.count.map(as_count).transpose()?)?;
        let caller = either("caller", caller, said.caller.map(Cow::Owned))?;
        let numbers = either("numbers", numbers, said.numbers)?;
        let ask = TakeAsk {
            count: count.unwrap_or(1),
            caller: caller.unwrap_or_default(),
            numbers: numbers.unwrap_or_default(),
        };
        check_caller(&ask.caller)?;
        state.service.check_count(ask.count)?;
        Ok(ask)
    }
}

/// Reads a body that may turn out to be empty.
fn read_body(parts: &Parts, bytes: &[u8]) -> Result<TakeBody, Problem> {
    if !bytes.is_empty() {
        body::check_label(&parts.headers)?;
    }
    body::object(bytes)
}

/// A value from one of two places. Both are refused, because it is unclear which one counts.
fn either<T>(name: &str, query: Option<T>, body: Option<T>) -> Result<Option<T>, Problem> {
    match (query, body) {
        (Some(_), Some(_)) => Err(Problem::repeated_parameter(name)),
        (query, body) => Ok(query.or(body)),
    }
}
