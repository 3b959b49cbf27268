//! `POST /v1/spaces/{space}/advance`: a keyspace whose store was rolled back continues beyond every key that may be
//! in use.
//!
//! Without `confirm` nothing is changed, and the answer is what an advance would do. How far it has to go is decided by
//! the service.

use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};
use jiff::Timestamp;
use keymill_engine::operations::{AdvanceAsk, AdvancePlan, HighestKeys};
use keymill_engine::space::DefinitionError;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::{confirmed, ordinal, query, switch};
use super::streamed_body::StreamedBody;
use super::tokens::Unchanged;
use super::{Body, Problem, State, body, check_encoding, full};
use crate::front::view::SafeNumber;

/// How many of the highest keys are remembered: at most twice 8 bytes for each.
const KEPT_MAX: usize = 1_000_000;

/// What an advance has done, or would do.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct AdvanceView {
    /// The keyspace.
    pub(crate) space: String,
    /// Whether it was advanced. If not, this is what an advance would do.
    pub(crate) done: bool,
    /// The lowest ordinal that was never granted, according to the store.
    pub(crate) from: SafeNumber,
    /// The ordinal at which the keyspace continues. What lies between is never handed out.
    pub(crate) next: SafeNumber,
    /// With kind `snowflake`: when the keyspace has IDs again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) resumes_at: Option<Timestamp>,
    /// With keys in the body: how many of them are keys of this keyspace.
    pub(crate) keys_read: u64,
    /// How many belong to another region (another `offset`).
    pub(crate) keys_elsewhere: u64,
    /// How many lines cannot be keys of this keyspace.
    pub(crate) lines_ignored: u64,
    /// The highest of the keys in the body, without aliases and imported keys; the highest first.
    pub(crate) highest: Vec<HighestKey>,
    /// With keys in the body: how many ordinals beyond them are skipped, for keys that were handed out but not yet
    /// saved.
    pub(crate) in_flight: SafeNumber,
    /// How many keys in the pool are discarded, because some of them may be in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pooled: Option<SafeNumber>,
}

/// A key in use.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct HighestKey {
    /// The key.
    pub(crate) key: String,
    /// Its ordinal.
    pub(crate) ordinal: SafeNumber,
}

impl AdvanceView {
    /// What an advance would do.
    pub(crate) fn planned(
        plan: &AdvancePlan,
        keys: Option<KeysRead>,
    ) -> Result<AdvanceView, DefinitionError> {
        let KeysRead { counted, elsewhere, other } = keys.unwrap_or_default();
        let shown = |(ordinal, key): &(u64, String)| {
            let (key, ordinal) = (key.clone(), SafeNumber::from(*ordinal));
            HighestKey { key, ordinal }
        };
        let timeline = plan.before.definition.timeline()?;
        Ok(AdvanceView {
            space: plan.before.name.clone(),
            done: false,
            from: plan.before.mark.next.into(),
            next: plan.next.into(),
            resumes_at: timeline.map(|timeline| timeline.time_of(plan.next)),
            keys_read: counted,
            keys_elsewhere: elsewhere,
            lines_ignored: other,
            highest: plan.highest.iter().map(shown).collect(),
            in_flight: plan.in_flight.into(),
            pooled: plan.pooled.map(SafeNumber::from),
        })
    }

    /// The same once it is done, and continues at this ordinal.
    pub(crate) fn done(mut self, next: u64, resumes_at: Option<Timestamp>) -> AdvanceView {
        self.done = true;
        self.next = next.into();
        self.resumes_at = resumes_at;
        self
    }
}

/// How many keys were read, and how many lines that are none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeysRead {
    counted: u64,
    elsewhere: u64,
    other: u64,
}

impl From<&HighestKeys> for KeysRead {
    fn from(keys: &HighestKeys) -> KeysRead {
        KeysRead { counted: keys.counted, elsewhere: keys.elsewhere, other: keys.other }
    }
}

/// Skips past every key that may be in use, after the store was rolled back to an earlier state. Without `confirm`,
/// the answer is what it would do.
///
/// It continues beyond the highest ordinal that this instance's data directory or a running instance has seen. If
/// neither has seen anything, pass `to`, or the keys in use in the body, one per line. Keys that were returned unused
/// are discarded, and so are the keys of a pool.
#[utoipa::path(post, path = "/v1/spaces/{space}/advance", tag = "keyspaces", operation_id = "advance_space",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("to" = Option<u64>, Query, description = "Skip at least to this ordinal; with kind `snowflake`, to this tick"),
        ("ignore_longer" = Option<bool>, Query, description = "`true` to ignore keys in the body that are longer than any key of the keyspace"),
        ("inputs_again" = Option<bool>, Query, description = "With kind `digest`: `true` confirms that all inputs since the backup will be digested again first"),
        ("confirm" = Option<String>, Query, description = "The name of the keyspace once more, to advance it; this cannot be undone"),
    ),
    request_body(content = String, content_type = "text/plain"),
    responses(
        (status = 200, description = "What was done; without `confirm`, what would be done", body = AdvanceView),
        (status = 400, description = "`bad_definition`: `to` or the keys do not fit the keyspace; `bad_parameter`, `repeated_parameter`, `unconfirmed`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`wrong_kind`: it is unknown how far to go, or the kind needs something else, which `detail` says; `sealed`, `wrong_secret`"),
        (status = 503, description = "`too_many_imports`, `store_rolled_back`"),
    ))]
pub(super) async fn post(
    state: &State,
    encoded_name: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    check_encoding(request.uri())?;
    let space = percent_decode_str(encoded_name).decode_utf8_lossy().into_owned();
    let [to, ignore_longer, inputs_again, confirm] =
        query(request.uri(), &["to", "ignore_longer", "inputs_again", "confirm"])?;
    let mut ask = AdvanceAsk {
        to: ordinal("to", to.as_deref())?,
        ignore_longer: switch("ignore_longer", ignore_longer.as_deref())?.unwrap_or_default(),
        inputs_again: switch("inputs_again", inputs_again.as_deref())?.unwrap_or_default(),
        beyond: None,
    };
    let is_confirmed = confirmed(confirm.as_deref(), &space)?;
    if !request.body().is_end_stream() {
        body::check_label_is("text/plain", request.headers())?;
        ask.beyond = read(state, &space, request.into_body()).await?;
    }
    let keys = ask.beyond.as_ref().map(KeysRead::from);
    let service = &state.service;
    let plan = service.plan_advance(&space, ask).await?;
    let mut view = AdvanceView::planned(&plan, keys).map_err(keymill_engine::ServiceError::from)?;
    if is_confirmed {
        let record = service.advance(&plan).await?;
        let timeline = record.definition.timeline().map_err(keymill_engine::ServiceError::from)?;
        let next = record.mark.next;
        view = view.done(next, timeline.map(|timeline| timeline.time_of(next)));
    }
    let text = serde_json::to_vec(&view).expect("a plain struct can be written as JSON");
    let mut answer = full("application/json", text);
    if !view.done {
        answer.extensions_mut().insert(Unchanged);
    }
    Ok(answer)
}

/// Reads keys in use. A body that turns out to be empty has none.
async fn read(state: &State, space: &str, body: Incoming) -> Result<Option<HighestKeys>, Problem> {
    let mut body = StreamedBody::new(state, body)?;
    let mut keys = match state.service.highest_keys(space).await {
        Ok(keys) => keys.keeping(KEPT_MAX),
        Err(error) => {
            body.discard().await;
            return Err(error.into());
        }
    };
    let mut is_empty = true;
    while let Some(data) = body.next().await? {
        is_empty &= data.is_empty();
        keys.push(&data);
    }
    keys.finish();
    Ok((!is_empty).then_some(keys))
}
