//! The engine's types, as the OpenAPI description shows them.
//!
//! The engine knows nothing about the API: answers contain its own types, which it writes as JSON. These have the
//! same names and fields; only `utoipa` reads them, and no value of them is ever made. A test of `http/openapi` compares
//! them with what the engine writes.

use utoipa::ToSchema;

/// A running process, which holds leases.
#[derive(ToSchema)]
pub struct Instance {
    /// A random ID: a process that is restarted is another instance.
    pub id: String,
    /// The machine it runs on.
    pub host: String,
    /// Its process ID there.
    pub pid: u32,
    /// The version of keymill.
    pub version: String,
    /// When it started.
    pub started_at: String,
}

/// Where a keyspace's keys come from.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Leased ordinals through FF1.
    Shuffled,
    /// Leased ordinals as they are.
    Sequential,
    /// Keys that were written out in advance.
    Pooled,
    /// Computed from an input.
    Digest,
    /// Time, worker and sequence.
    Snowflake,
    /// Random, or time and random bits.
    Uuid,
}

/// The state of a key.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It cannot be a key of this keyspace.
    Invalid,
    /// It can be a key of this keyspace, and was not handed out.
    Unissued,
    /// It was granted to an instance, which may have handed it out.
    Leased,
    /// It was handed out.
    Issued,
    /// It is never issued: the blocklist matches it, or it was an alias.
    Skipped,
    /// It is an alias.
    Alias,
    /// It was already in use before the keyspace was created.
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

/// Health of this instance.
#[derive(ToSchema)]
pub struct Health {
    /// Whether every keyspace that was requested can be served right now.
    pub ready: bool,
    /// Current problems, including those that do not prevent the instance from serving.
    pub problems: Vec<HealthProblem>,
}

/// A problem of an instance.
#[derive(ToSchema)]
pub struct HealthProblem {
    /// Stable, for programs: `store_unavailable`, `store_rolled_back`, `exhausted`, …
    pub code: String,
    /// The keyspace concerned, if it is a single one.
    pub space: Option<String>,
    /// A description for people.
    pub detail: String,
}

/// One permanent setting in which two definitions differ.
#[derive(ToSchema)]
pub struct Difference {
    /// The setting.
    pub setting: String,
    /// The value in the store.
    pub stored: String,
    /// The value that was requested.
    pub asked: String,
}

/// Why a range of ordinals is on record.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Granted to an instance, to make keys from.
    Lease,
    /// Skipped by `space advance`; which of its keys were handed out is not recorded.
    Advance,
    /// Written into the pool of a keyspace.
    Fill,
    /// The time during which an instance held a worker number of a snowflake keyspace.
    Window,
}

/// An instance as the store knows it.
#[derive(ToSchema)]
pub struct InstanceRecord {
    /// The instance.
    #[serde(flatten)]
    pub instance: Instance,
    /// Where it can be reached.
    pub address: Option<String>,
    /// When it last reported to the store.
    pub seen_at: String,
    /// When it stopped, if it reported that.
    pub stopped_at: Option<String>,
}

/// A setting of the store that was checked.
#[derive(ToSchema)]
pub struct Finding {
    /// What was checked.
    pub setting: String,
    /// What it is.
    pub found: String,
    /// What it should be.
    pub wanted: String,
    /// Whether that is safe.
    pub verdict: Verdict,
}

/// Whether a setting of the store is safe.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Safe,
    /// Works, but a failure may cost more than it should.
    Warning,
    /// A failure may cost a repeated key.
    Unsafe,
}
