//! How a space is served: what may change at any time.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::DefinitionError;

/// The most keys that a pool keeps by itself.
const LOW_WATER_MAX: u64 = 100_000_000;
/// The longest life of a key: a thousand years.
const TTL_SECONDS_MAX: u64 = 31_556_952_000;

/// What is recorded of keys that are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Audit {
    /// The leases and claims that they come from.
    #[default]
    Batch,
    /// Every key with its time and its caller, before it is handed out.
    Key,
}

/// The part of a space that may change at any time. A store may have settings of a later version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// The fewest ordinals a lease asks for.
    pub lease_size_min: u64,
    /// The most ordinals a lease asks for.
    pub lease_size_max: u64,
    /// For how many seconds of demand an instance holds keys, so that it can serve without the store.
    pub horizon_seconds: u64,
    /// Whether keys that the blocklist matches are skipped.
    pub blocklist: bool,
    /// What is recorded of keys that are handed out.
    pub audit: Audit,
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

impl Tuning {
    /// The longest lease that a source can count.
    pub const LEASE_SIZE_MAX: u64 = (1 << 40) - 1;

    /// The furthest ahead that a worker may be held.
    pub const WINDOW_MAX: Duration = Duration::from_secs(3_600);

    /// How long an instance can serve without the store.
    pub fn horizon(&self) -> Duration {
        Duration::from_secs(self.horizon_seconds)
    }

    /// How long a key of a pool lives.
    pub fn ttl(&self) -> Option<Duration> {
        (self.ttl_seconds > 0).then(|| Duration::from_secs(self.ttl_seconds))
    }

    /// When a key expires that is used now, where keys do.
    pub fn expiry(&self, now_ms: i64) -> Option<Timestamp> {
        let ttl = i64::try_from(self.ttl()?.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(now_ms.saturating_add(ttl)).ok()
    }

    /// How long a reservation holds.
    pub fn reserve_max(&self) -> Duration {
        Duration::from_secs(self.reserve_seconds)
    }

    /// How far ahead a worker is held.
    pub fn window(&self) -> Duration {
        Duration::from_secs(self.window_seconds)
    }

    /// Refuses sizes that could never be asked for.
    pub fn check(&self) -> Result<(), DefinitionError> {
        let refuse = |setting, problem| Err(DefinitionError::Setting { setting, problem });
        let ceiling = Self::LEASE_SIZE_MAX;
        if !(1..=ceiling).contains(&self.lease_size_min) {
            return refuse("lease_size_min", format!("must be from 1 to {ceiling}"));
        }
        if !(self.lease_size_min..=ceiling).contains(&self.lease_size_max) {
            let min = self.lease_size_min;
            return refuse(
                "lease_size_max",
                format!("must be from lease_size_min ({min}) to {ceiling}"),
            );
        }
        if !(1..=604_800).contains(&self.horizon_seconds) {
            return refuse("horizon_seconds", "must be from 1 to 604800 (a week)".to_owned());
        }
        if self.low_water > LOW_WATER_MAX {
            return refuse("low_water", format!("must be at most {LOW_WATER_MAX}"));
        }
        if self.ttl_seconds > TTL_SECONDS_MAX {
            return refuse("ttl_seconds", format!("must be at most {TTL_SECONDS_MAX}"));
        }
        if !(5..=604_800).contains(&self.reserve_seconds) {
            return refuse("reserve_seconds", "must be from 5 to 604800 (a week)".to_owned());
        }
        if !(1..=Self::WINDOW_MAX.as_secs()).contains(&self.window_seconds) {
            return refuse("window_seconds", "must be from 1 to 3600 (an hour)".to_owned());
        }
        Ok(())
    }
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            lease_size_min: 1_000,
            lease_size_max: 100_000_000,
            horizon_seconds: 15 * 60,
            blocklist: true,
            audit: Audit::Batch,
            low_water: 0,
            ttl_seconds: 0,
            reserve_seconds: 5 * 60,
            window_seconds: 60,
            importing: None,
            exported_for: None,
        }
    }
}
