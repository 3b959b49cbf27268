//! The shapes of JSON answers and questions.

use jiff::Timestamp;
use keymill_engine::instance::Instance;
use keymill_engine::operations::{Explanation, SpaceReport, State};
use keymill_engine::space::{Definition, Tuning};
use keymill_engine::store::{InstanceRecord, LeaseRecord, Purpose};
use serde::{Serialize, Serializer};
use utoipa::{PartialSchema, ToSchema};

use super::http::UsedView;
use super::schemas;
use super::space_settings::SpaceSettings;

/// A number that JavaScript reads right: beyond 2^53 it is written as a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SafeNumber(pub u128);

/// Keys taken.
#[derive(Serialize, ToSchema)]
pub(super) struct Keys {
    /// The keyspace they belong to.
    space: String,
    /// The keys.
    keys: Vec<String>,
}

/// A keyspace.
#[derive(Debug, Serialize, ToSchema)]
pub struct SpaceView {
    /// Its name.
    name: String,
    #[serde(flatten)]
    #[schema(value_type = SpaceSettings)]
    definition: Definition,
    #[serde(flatten)]
    #[schema(value_type = SpaceHistory)]
    tuning: Tuning,
    /// The fingerprint of the secret that the keys are made with, if there is one.
    fingerprint: Option<String>,
    /// Whether it hands out no more keys, for good or until its import is complete.
    sealed: bool,
    #[schema(value_type = String)]
    /// When it was created.
    created_at: Timestamp,
    /// How many keys this keyspace has in all; with kind `snowflake`, how many ticks of time, here
    /// and in `leased` and `remaining`.
    capacity: SafeNumber,
    /// The lowest ordinal never granted; with kind `snowflake`, the tick that workers are held to.
    next: SafeNumber,
    /// Granted to instances, and perhaps handed out.
    leased: SafeNumber,
    /// Aliases, keys in use elsewhere and digests on record.
    named: SafeNumber,
    /// Not yet granted.
    remaining: SafeNumber,
    /// Keys in the pool, if the keyspace has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<SafeNumber>,
    /// In this instance's memory, ready to be taken.
    at_hand: SafeNumber,
    /// The chance that a guess hits a key that may be in use.
    density: f64,
    /// Keys a second that this instance hands out at present.
    rate: f64,
    /// Keys a second that all instances leased, on average since the keyspace was made, over an
    /// hour at least.
    leased_rate: f64,
    /// When the keyspace will be used up at that rate.
    #[schema(value_type = Option<String>)]
    exhausted_at: Option<Timestamp>,
    /// With kind `snowflake`: when its timestamps end.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_out_at: Option<Timestamp>,
}

/// What answers say of a keyspace among its settings, and nobody sets: only for the description.
#[derive(ToSchema)]
pub struct SpaceHistory {
    /// The lengths of later generations, each longer than the one before: takes move on to it
    /// when that one ends.
    #[schema(required = false)]
    pub grown: Vec<u8>,
    /// Where the keyspace comes from, while it is being imported: until then it is sealed.
    pub importing: Option<String>,
    /// The one store that the keyspace was exported for.
    pub exported_for: Option<String>,
}

/// A page of keyspaces.
#[derive(Serialize, ToSchema)]
pub(super) struct Spaces {
    /// In the order of their names.
    pub(super) spaces: Vec<SpaceView>,
    /// Pass this as `after` to get the next page; absent on the last page.
    pub(super) next: Option<String>,
}

/// Where a key came from.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExplanationView {
    /// The keyspace.
    space: String,
    /// The key in its canonical form; if it cannot belong to the keyspace, as it was given.
    key: String,
    #[schema(value_type = schemas::State)]
    state: State,
    /// The reason for the state, in a sentence.
    reason: String,
    /// Its ordinal: it is the n-th key of the keyspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    ordinal: Option<SafeNumber>,
    /// What the shape writes, before it is shuffled; counted anew for keys of each length.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<SafeNumber>,
    /// When it was made; known for snowflake IDs and UUIDs of version 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    time: Option<Timestamp>,
    /// The worker number that made a snowflake ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<u32>,
    /// The sequence number of a snowflake ID within its tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u32>,
    /// The lease it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseView>,
    /// When and to whom it was handed out, if single keys are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<UsedView>,
}

/// A lease.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeaseView {
    /// The keyspace.
    space: String,
    /// Its number within the keyspace.
    lease: SafeNumber,
    /// The first ordinal. With purpose `window` ordinals are ticks of time, with the worker number
    /// above them.
    start: SafeNumber,
    /// The ordinal after the last.
    end: SafeNumber,
    #[schema(value_type = schemas::Purpose)]
    purpose: Purpose,
    /// Where drawing ended, once the lease is closed.
    closed_at_ordinal: Option<SafeNumber>,
    /// The instance that it was granted to.
    #[schema(value_type = schemas::Instance)]
    holder: Instance,
    #[schema(value_type = String)]
    /// When it was granted.
    granted_at: Timestamp,
    #[schema(value_type = Option<String>)]
    /// When it was closed.
    closed_at: Option<Timestamp>,
}

/// A page of leases.
#[derive(Serialize, ToSchema)]
pub(super) struct Leases {
    /// By keyspace and then by age.
    pub(super) leases: Vec<LeaseView>,
    /// Pass this as `after` to get the next page; absent on the last page.
    pub(super) next: Option<String>,
}

/// A page of instances.
#[derive(Serialize, ToSchema)]
pub(super) struct Instances {
    /// By age.
    #[schema(value_type = Vec<schemas::InstanceRecord>)]
    pub(super) instances: Vec<InstanceRecord>,
    /// Pass this as `after` to get the next page; absent on the last page.
    pub(super) next: Option<String>,
}

impl From<SpaceReport> for SpaceView {
    fn from(report: SpaceReport) -> SpaceView {
        let SpaceReport { record, .. } = report;
        SpaceView {
            name: record.name,
            definition: record.definition,
            tuning: record.tuning,
            fingerprint: record.fingerprint,
            sealed: record.sealed,
            created_at: record.created_at,
            capacity: record.capacity.into(),
            next: record.mark.next.into(),
            leased: report.leased.into(),
            named: report.named.into(),
            remaining: report.remaining.into(),
            available: report.available.map(SafeNumber::from),
            at_hand: report.at_hand.into(),
            density: report.density,
            rate: report.rate,
            leased_rate: report.leased_rate,
            exhausted_at: report.exhausted_at,
            runs_out_at: report.runs_out_at,
        }
    }
}

impl ExplanationView {
    /// What is known of a key of a space.
    pub fn new(space: &str, asked: &str, explanation: Explanation) -> ExplanationView {
        ExplanationView {
            space: space.to_owned(),
            key: explanation.key.unwrap_or_else(|| asked.to_owned()),
            state: explanation.state,
            reason: explanation.reason,
            ordinal: explanation.ordinal.map(SafeNumber::from),
            number: explanation.number.map(SafeNumber),
            time: explanation.time,
            worker: explanation.id.map(|id| id.worker),
            sequence: explanation.id.map(|id| id.sequence),
            lease: explanation.lease.map(LeaseView::from),
            used: explanation.used.map(UsedView::from),
        }
    }
}

impl From<LeaseRecord> for LeaseView {
    fn from(record: LeaseRecord) -> LeaseView {
        LeaseView {
            space: record.space,
            lease: record.lease.into(),
            start: record.ordinals.start.into(),
            end: record.ordinals.end.into(),
            purpose: record.purpose,
            closed_at_ordinal: record.closed_at_ordinal.map(SafeNumber::from),
            holder: record.holder,
            granted_at: record.granted_at,
            closed_at: record.closed_at,
        }
    }
}

impl From<u64> for SafeNumber {
    fn from(number: u64) -> SafeNumber {
        SafeNumber(number.into())
    }
}

impl Serialize for SafeNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.0) {
            Ok(number) if number <= 1 << 53 => serializer.serialize_u64(number),
            _ => serializer.collect_str(&self.0),
        }
    }
}

impl PartialSchema for SafeNumber {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]+$"));
        OneOfBuilder::new()
            .item(number.minimum(Some(0)).maximum(Some(1_u64 << 53)))
            .item(text)
            .description(Some(
                "A whole number; a string above 2^53, where JavaScript would round it",
            ))
            .into()
    }
}

impl ToSchema for SafeNumber {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_javascript_would_round_are_strings() {
        let json = |number| serde_json::to_string(&SafeNumber(number)).unwrap();
        assert_eq!(json(1 << 53), "9007199254740992");
        assert_eq!(json((1 << 53) + 1), "\"9007199254740993\"");
        assert_eq!(json(1 << 100), "\"1267650600228229401496703205376\"");
    }
}
