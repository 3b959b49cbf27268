//! The JSON of answers.

use jiff::Timestamp;
use keymill_engine::instance::Instance;
use keymill_engine::operations::{
    Explanation, InstanceRecord, LeaseRecord, Purpose, SpaceReport, State,
};
use keymill_engine::space::{Definition, Tuning};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
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
    /// When the first of them expires; absent where keys do not expire (`ttl_seconds`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
}

/// A keyspace.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct SpaceView {
    /// Its name.
    pub(crate) name: String,
    #[serde(flatten)]
    #[schema(value_type = SpaceSettings)]
    pub(crate) definition: Definition,
    #[serde(flatten)]
    #[schema(value_type = SpaceHistory)]
    pub(crate) tuning: Tuning,
    /// The fingerprint of the secret that its keys are made with, if they need one.
    pub(crate) fingerprint: Option<String>,
    /// Whether it is sealed; during an import, temporarily.
    pub(crate) sealed: bool,
    #[schema(value_type = String)]
    /// When it was created.
    pub(crate) created_at: Timestamp,
    /// How many keys this keyspace has in total. With kind `snowflake`, this, `leased` and `remaining`
    /// are numbers of ticks of time.
    pub(crate) capacity: SafeNumber,
    /// The lowest ordinal never granted; with kind `snowflake`, the tick until which workers are held.
    pub(crate) next: SafeNumber,
    /// Keys granted to instances, which may have handed them out.
    pub(crate) leased: SafeNumber,
    /// Aliases, keys in use elsewhere and digests on record.
    pub(crate) named: SafeNumber,
    /// Keys not yet granted.
    pub(crate) remaining: SafeNumber,
    /// Keys in the pool, if the keyspace has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) available: Option<SafeNumber>,
    /// Keys in this instance's memory, ready to be taken.
    pub(crate) at_hand: SafeNumber,
    /// The chance that a guess hits a key that may be in use.
    pub(crate) density: f64,
    /// Keys per second that this instance currently hands out.
    pub(crate) rate: f64,
    /// Keys per second that all instances leased, on average since the keyspace was created, over at
    /// least an hour.
    pub(crate) leased_rate: f64,
    /// When the keyspace will be used up at that rate.
    #[schema(value_type = Option<String>)]
    pub(crate) exhausted_at: Option<Timestamp>,
    /// With kind `snowflake`: when its timestamps end.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runs_out_at: Option<Timestamp>,
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
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct Spaces {
    /// The keyspaces, ordered by name.
    pub(crate) spaces: Vec<SpaceView>,
    /// Pass this as `after` to get the next page; absent on the last page.
    pub(crate) next: Option<String>,
}

/// Where a key came from.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ExplanationView {
    /// The keyspace.
    pub(crate) space: String,
    /// The key in its canonical form; if it cannot belong to the keyspace, as it was given.
    pub(crate) key: String,
    #[schema(value_type = schemas::State)]
    pub(crate) state: State,
    /// The reason for the state, in a sentence.
    pub(crate) reason: String,
    /// Its ordinal: it is the n-th key of the keyspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ordinal: Option<SafeNumber>,
    /// The number behind the key, before shuffling; counted separately for keys of each length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<SafeNumber>,
    /// When it was made; known for snowflake IDs and UUIDs of version 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) time: Option<Timestamp>,
    /// The worker number that made a snowflake ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<u32>,
    /// The sequence number of a snowflake ID within its tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sequence: Option<u32>,
    /// The lease it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<LeaseView>,
    /// When and to whom it was handed out, if single keys are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) used: Option<UsedView>,
}

/// A lease.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LeaseView {
    /// The keyspace.
    pub(crate) space: String,
    /// Its number within the keyspace.
    pub(crate) lease: SafeNumber,
    /// The first ordinal. With purpose `window` ordinals are ticks of time, with the worker number
    /// above them.
    pub(crate) start: SafeNumber,
    /// The ordinal after the last.
    pub(crate) end: SafeNumber,
    #[schema(value_type = schemas::Purpose)]
    pub(crate) purpose: Purpose,
    /// The first ordinal of the lease that was not used, once the lease is closed.
    pub(crate) closed_at_ordinal: Option<SafeNumber>,
    /// The instance that it was granted to.
    #[schema(value_type = schemas::Instance)]
    pub(crate) holder: Instance,
    #[schema(value_type = String)]
    /// When it was granted.
    pub(crate) granted_at: Timestamp,
    #[schema(value_type = Option<String>)]
    /// When it was closed.
    pub(crate) closed_at: Option<Timestamp>,
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

impl SafeNumber {
    /// As a number of 64 bits; the largest of them for a larger one.
    pub fn get(self) -> u64 {
        u64::try_from(self.0).unwrap_or(u64::MAX)
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

impl<'de> Deserialize<'de> for SafeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SafeNumber, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(number.into()),
            Written::Text(text) => text.parse().map(SafeNumber).map_err(D::Error::custom),
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
        for number in [0, 1 << 53, (1 << 53) + 1, 1 << 100] {
            assert_eq!(serde_json::from_str::<SafeNumber>(&json(number)).unwrap().0, number);
        }
    }
}
