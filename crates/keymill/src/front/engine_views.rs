//! What the engine's types look like in JSON, and in the description of the API.
//!
//! The engine knows no API: these have the same fields, and `From` makes them. `view.rs` builds answers of them.
//! Nothing here decides anything.

use jiff::Timestamp;
use keymill_engine::instance::Instance;
use keymill_engine::operations::{Health, Problem, State};
use keymill_engine::space::digest::Normalize;
use keymill_engine::space::{Audit, Definition, Difference, Kind, Tuning};
use keymill_engine::store::{InstanceRecord, Purpose};
use serde::Serialize;
use utoipa::ToSchema;

/// Who holds a lease.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Instance)]
pub struct InstanceView {
    /// A random ID: a process that is restarted is another instance.
    pub id: String,
    /// The machine it runs on.
    pub host: String,
    /// Its process ID there.
    pub pid: u32,
    /// The version of keymill.
    pub version: String,
    /// When it started.
    #[schema(value_type = String)]
    pub started_at: Timestamp,
}

impl From<Instance> for InstanceView {
    fn from(it: Instance) -> InstanceView {
        let Instance { id, host, pid, version, started_at } = it;
        InstanceView { id, host, pid, version, started_at }
    }
}

/// What a key is to its space.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = State)]
#[serde(rename_all = "lowercase")]
pub enum StateView {
    /// It cannot be a key of this space.
    Invalid,
    /// It can be, and was not handed out.
    Unissued,
    /// It was granted to an instance, which may have handed it out.
    Leased,
    /// It was handed out.
    Issued,
    /// It is never issued: the blocklist matches it, or it was an alias.
    Skipped,
    /// It is an alias.
    Alias,
    /// It was in use before this space was.
    Imported,
    /// It is available in the pool.
    Available,
    /// It is in the pool, reserved for an instance that may hand it out.
    Reserved,
    /// It has expired or was retired, and is never handed out again.
    Retired,
    /// It can be a key of this keyspace, but nothing is recorded about it.
    Unknown,
}

impl From<State> for StateView {
    fn from(it: State) -> StateView {
        match it {
            State::Invalid => StateView::Invalid,
            State::Unissued => StateView::Unissued,
            State::Leased => StateView::Leased,
            State::Issued => StateView::Issued,
            State::Skipped => StateView::Skipped,
            State::Alias => StateView::Alias,
            State::Imported => StateView::Imported,
            State::Available => StateView::Available,
            State::Reserved => StateView::Reserved,
            State::Retired => StateView::Retired,
            State::Unknown => StateView::Unknown,
        }
    }
}

/// How this instance is.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Health)]
pub struct HealthView {
    /// Whether every keyspace that was asked for can be served right now.
    pub ready: bool,
    /// Current problems, including those that do not prevent the instance from serving.
    pub problems: Vec<HealthProblem>,
}

impl From<Health> for HealthView {
    fn from(it: Health) -> HealthView {
        let Health { ready, problems } = it;
        HealthView { ready, problems: problems.into_iter().map(Into::into).collect() }
    }
}

/// A problem of an instance.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = HealthProblem)]
pub struct HealthProblem {
    /// Stable, for programs: `store_unavailable`, `store_rolled_back`, `exhausted`, …
    pub code: &'static str,
    /// The keyspace concerned, if it is a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// A description for people.
    pub detail: String,
}

impl From<Problem> for HealthProblem {
    fn from(it: Problem) -> HealthProblem {
        let Problem { code, space, detail } = it;
        HealthProblem { code, space, detail }
    }
}

/// Where a space's keys come from.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Kind)]
#[serde(rename_all = "lowercase")]
pub enum KindView {
    /// Leased ordinals through FF1: unguessable, nothing stored per unused key.
    Shuffled,
    /// Leased ordinals written as they are.
    Sequential,
    /// Shuffled keys that are written out in advance, and keys that the user imports: rows that
    /// move from one table to another.
    Pooled,
    /// Keys made from inputs: the same input always gives the same key.
    Digest,
    /// Numbers made of the time, the instance and a sequence, ordered by time.
    Snowflake,
    /// UUIDs, which are not recorded.
    Uuid,
}

impl From<Kind> for KindView {
    fn from(it: Kind) -> KindView {
        match it {
            Kind::Shuffled => KindView::Shuffled,
            Kind::Sequential => KindView::Sequential,
            Kind::Pooled => KindView::Pooled,
            Kind::Digest => KindView::Digest,
            Kind::Snowflake => KindView::Snowflake,
            Kind::Uuid => KindView::Uuid,
        }
    }
}

/// The permanent part of a space: two spaces with one definition make the same keys.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Definition)]
#[serde(default, deny_unknown_fields)]
pub struct DefinitionView {
    /// Where the keys come from.
    pub kind: KindView,
    /// A named alphabet, or its characters.
    pub alphabet: String,
    /// How many characters the number takes; 0 writes plain integers.
    pub length: u8,
    /// What every key begins with.
    pub prefix: String,
    /// A hyphen after every so many characters; 0 for none.
    pub group: u8,
    /// Whether a check character ends every key.
    pub check: bool,
    /// The distance between two numbers: more than 1 shares one keyspace among stores.
    pub step: u64,
    /// The first number; below `step`.
    pub offset: u64,
    /// With kind `digest`: which inputs count as one.
    #[serde(skip_serializing_if = "NormalizeView::is_none")]
    pub normalize: NormalizeView,
    /// With kind `snowflake`: the bits of time, worker and sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// With kind `snowflake`: where time begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub epoch: Option<Timestamp>,
    /// With kind `uuid`: 4 or 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid_version: Option<u8>,
    /// The lengths of later generations, each longer than the one before: takes move on to it
    /// when that one ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grown: Vec<u8>,
}

/// What the description gives as defaults.
impl Default for DefinitionView {
    fn default() -> DefinitionView {
        Definition::default().into()
    }
}

impl From<Definition> for DefinitionView {
    fn from(it: Definition) -> DefinitionView {
        let Definition {
            kind,
            alphabet,
            length,
            prefix,
            group,
            check,
            step,
            offset,
            normalize,
            layout,
            epoch,
            uuid_version,
            grown,
        } = it;
        DefinitionView {
            kind: kind.into(),
            alphabet,
            length,
            prefix,
            group,
            check,
            step,
            offset,
            normalize: normalize.into(),
            layout,
            epoch,
            uuid_version,
            grown,
        }
    }
}

/// One permanent setting in which two definitions differ.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Difference)]
pub struct DifferenceView {
    /// The setting.
    pub setting: &'static str,
    /// What the store has.
    pub stored: String,
    /// What was asked for.
    pub asked: String,
}

impl From<Difference> for DifferenceView {
    fn from(it: Difference) -> DifferenceView {
        let Difference { setting, stored, asked } = it;
        DifferenceView { setting, stored, asked }
    }
}

/// Which inputs count as the same one.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Normalize)]
#[serde(rename_all = "kebab-case")]
pub enum NormalizeView {
    /// Those that are equal byte by byte.
    None,
    /// URLs with one normal form by RFC 3986.
    Url,
    /// URLs with one normal form once everything printable in them is decoded.
    UrlDecoded,
}

impl From<Normalize> for NormalizeView {
    fn from(it: Normalize) -> NormalizeView {
        match it {
            Normalize::None => NormalizeView::None,
            Normalize::Url => NormalizeView::Url,
            Normalize::UrlDecoded => NormalizeView::UrlDecoded,
        }
    }
}

/// The settings of a keyspace, as given in a file, a request or on the command line. A setting that
/// is left out has its default.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = SpaceSpec)]
#[serde(default, deny_unknown_fields)]
pub struct SpaceSpecView {
    /// Where the keys come from [default: shuffled]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindView>,
    /// base62, base58, base36, base32, base64url, hex, decimal, safe, or the characters
    /// themselves [default: base62; decimal for plain integers, length 0]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
    /// How many characters the number takes; 0 writes plain integers [default: 7]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u8>,
    /// What every key begins with
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// A hyphen after every so many characters; 0 for none [default: 0]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Whether a check character ends every key [default: false]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<bool>,
    /// The distance between two numbers: more than 1 shares one keyspace among stores
    /// [default: 1]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The first number, below `step` [default: 0]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// With kind digest: which inputs count as one [default: none]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalize: Option<NormalizeView>,
    /// With kind snowflake: the bits of time, worker and sequence, such as 41/10/12 or
    /// 39/s8/w16@10ms, or twitter, sonyflake, instagram, javascript [default: 41/10/12]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// With kind snowflake: where time begins [default: 2025-01-01T00:00:00Z]
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Timestamp>,
    /// With kind uuid: 7, in the order of time, or 4, random [default: 7]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid_version: Option<u8>,
    /// The first ordinal to grant, for a keyspace that moves here from another store; only when it
    /// is created [default: 0]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// The fewest keys an instance leases at once; changeable [default: 1000]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_size_min: Option<u64>,
    /// The most keys an instance leases at once; changeable [default: 100000000]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_size_max: Option<u64>,
    /// For how many seconds of demand an instance holds keys; changeable [default: 900]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon_seconds: Option<u64>,
    /// Whether keys that the blocklist matches are skipped; changeable [default: true]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocklist: Option<bool>,
    /// Record leases and claims (batch), or every key before it is handed out (key); changeable
    /// [default: batch]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditView>,
    /// Fill a pool that has fewer keys than this, once an instance has taken from it; with 0 only
    /// `pool fill` does; changeable [default: 0]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_water: Option<u64>,
    /// How long a pool's key is valid once it is handed out; 0 for ever; changeable [default: 0]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// With audit key, when a pool's keys that were reserved and not handed out are free again;
    /// changeable [default: 300]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve_seconds: Option<u64>,
    /// With kind snowflake, how far ahead an instance holds its worker: how long it can continue
    /// without the store, and how long the worker stays unused after a crash; changeable [default: 60]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u64>,
}

/// What is recorded of keys that are handed out.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Audit)]
#[serde(rename_all = "lowercase")]
pub enum AuditView {
    /// The leases and claims that they come from.
    Batch,
    /// Every key with its time and its caller, before it is handed out.
    Key,
}

impl From<Audit> for AuditView {
    fn from(it: Audit) -> AuditView {
        match it {
            Audit::Batch => AuditView::Batch,
            Audit::Key => AuditView::Key,
        }
    }
}

/// The part of a space that may change at any time. A store may have settings of a later version.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Tuning)]
#[serde(default)]
pub struct TuningView {
    /// The fewest ordinals a lease asks for.
    pub lease_size_min: u64,
    /// The most ordinals a lease asks for.
    pub lease_size_max: u64,
    /// For how many seconds of demand an instance holds keys, so that it can serve without the store.
    pub horizon_seconds: u64,
    /// Whether keys that the blocklist matches are skipped.
    pub blocklist: bool,
    /// What is recorded of keys that are handed out.
    pub audit: AuditView,
    /// A pool with fewer keys than this is filled up; 0 leaves that to `pool fill`.
    pub low_water: u64,
    /// How many seconds a key of a pool is valid once it is handed out; 0 for ever.
    pub ttl_seconds: u64,
    /// With audit `key`, after how many seconds others may have a pool's keys that an instance
    /// reserved and did not hand out.
    pub reserve_seconds: u64,
    /// With kind `snowflake`, how many seconds ahead an instance may hold a worker: how long it can
    /// continue without the store, and how long the worker stays unused after a crash.
    pub window_seconds: u64,
    /// Where the keyspace comes from, while it is being imported: until then it is sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importing: Option<String>,
    /// The one store that the keyspace was exported for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exported_for: Option<String>,
}

/// What the description gives as defaults.
impl Default for TuningView {
    fn default() -> TuningView {
        Tuning::default().into()
    }
}

impl From<Tuning> for TuningView {
    fn from(it: Tuning) -> TuningView {
        let Tuning {
            lease_size_min,
            lease_size_max,
            horizon_seconds,
            blocklist,
            audit,
            low_water,
            ttl_seconds,
            reserve_seconds,
            window_seconds,
            importing,
            exported_for,
        } = it;
        TuningView {
            lease_size_min,
            lease_size_max,
            horizon_seconds,
            blocklist,
            audit: audit.into(),
            low_water,
            ttl_seconds,
            reserve_seconds,
            window_seconds,
            importing,
            exported_for,
        }
    }
}

/// Why a range of ordinals is on record.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Purpose)]
#[serde(rename_all = "lowercase")]
pub enum PurposeView {
    /// Granted to an instance, to make keys of.
    Lease,
    /// Skipped by `space advance`: which keys of it were handed out is not recorded.
    Advance,
    /// Written into the pool of a keyspace.
    Fill,
    /// The time in which an instance held a worker of a snowflake keyspace.
    Window,
}

impl From<Purpose> for PurposeView {
    fn from(it: Purpose) -> PurposeView {
        match it {
            Purpose::Lease => PurposeView::Lease,
            Purpose::Advance => PurposeView::Advance,
            Purpose::Fill => PurposeView::Fill,
            Purpose::Window => PurposeView::Window,
        }
    }
}

/// An instance as the store knows it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = InstanceRecord)]
pub struct InstanceRecordView {
    /// The instance.
    #[serde(flatten)]
    pub instance: InstanceView,
    /// Where it can be reached.
    pub address: Option<String>,
    /// When it last reported to the store.
    #[schema(value_type = String)]
    pub seen_at: Timestamp,
    /// When it stopped, if it reported that.
    #[schema(value_type = Option<String>)]
    pub stopped_at: Option<Timestamp>,
}

impl From<InstanceRecord> for InstanceRecordView {
    fn from(it: InstanceRecord) -> InstanceRecordView {
        let InstanceRecord { instance, address, seen_at, stopped_at } = it;
        InstanceRecordView { instance: instance.into(), address, seen_at, stopped_at }
    }
}

impl NormalizeView {
    fn is_none(&self) -> bool {
        matches!(self, NormalizeView::None)
    }
}
