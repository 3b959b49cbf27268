//! The JSON of answers.

use jiff::Timestamp;
use keymill_engine::instance::Instance;
use keymill_engine::operations::{
    Explanation, InstanceRecord, LeaseRecord, Purpose, SpaceReport, State,
};
use keymill_engine::space::{Definition, Tuning};
use serde::{Serialize, Serializer};
use utoipa::{PartialSchema, ToSchema};

use super::http::UsedView;
use super::schemas;
use super::space_settings::SpaceSettings;

/// A number that JavaScript reads correctly: above 2^53 it is written as a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SafeNumber(pub u128);

/// Keys that were taken.
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
    /// The fingerprint of the secret that its keys are made with, if they need one.
    fingerprint: Option<String>,
    /// Whether it is sealed; during an import, temporarily.
    sealed: bool,
    #[schema(value_type = String)]
    /// When it was created.
    created_at: Timestamp,
    /// How many keys this keyspace has in total. With kind `snowflake`, this, `leased` and `remaining`
    /// are numbers of ticks of time.
    capacity: SafeNumber,
    /// The lowest ordinal never granted; with kind `snowflake`, the tick until which workers are held.
    next: SafeNumber,
    /// Keys granted to instances, which may have handed them out.
    leased: SafeNumber,
    /// Aliases, keys in use elsewhere and digests on record.
    named: SafeNumber,
    /// Keys not yet granted.
    remaining: SafeNumber,
    /// Keys in the pool, if the keyspace has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<SafeNumber>,
    /// Keys in this instance's memory, ready to be taken.
    at_hand: SafeNumber,
    /// The chance that a guess hits a key that may be in use.
    density: f64,
    /// Keys per second that this instance currently hands out.
    rate: f64,
    /// Keys per second that all instances leased, on average since the keyspace was created, over at
    /// least an hour.
    leased_rate: f64,
    /// When the keyspace will be used up at that rate.
    #[schema(value_type = Option<String>)]
    exhausted_at: Option<Timestamp>,
    /// With kind `snowflake`: when its timestamps end.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_out_at: Option<Timestamp>,
}

/// Fields of a keyspace in answers that cannot be set; only for the description.
#[derive(ToSchema)]
pub struct SpaceHistory {
    /// The lengths of the longer keys that were added, in the order in which they are used: each when
    /// the keys before it are used up.
    #[schema(required = false)]
    pub grown: Vec<u8>,
    /// The store and keyspace that it is being imported from; it is sealed until the import is complete.
    pub importing: Option<String>,
    /// The one store that the keyspace was exported for.
    pub exported_for: Option<String>,
}

/// A page of keyspaces.
#[derive(Serialize, ToSchema)]
pub(super) struct Spaces {
    /// The keyspaces, ordered by name.
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
    /// The number behind the key, before shuffling; counted separately for keys of each length.
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
    /// The first ordinal of the lease that was not used, once the lease is closed.
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
    /// The leases, ordered by keyspace and then by age.
    pub(super) leases: Vec<LeaseView>,
    /// Pass this as `after` to get the next page; absent on the last page.
    pub(super) next: Option<String>,
}

/// A page of instances.
#[derive(Serialize, ToSchema)]
pub(super) struct Instances {
    /// The instances, ordered by age.
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
    /// Where a key of a keyspace came from.
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
