//! A space as somebody typed it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::digest::Normalize;
use super::{Audit, Definition, Kind, Tuning};

/// The settings of a keyspace, as given in a file, a request or on the command line. A setting that
/// is left out has its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpaceSpec {
    /// Where the keys come from [default: shuffled]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
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
    pub normalize: Option<Normalize>,
    /// With kind snowflake: the bits of time, worker and sequence, such as 41/10/12 or
    /// 39/s8/w16@10ms, or twitter, sonyflake, instagram, javascript [default: 41/10/12]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// With kind snowflake: where time begins [default: 2025-01-01T00:00:00Z]
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
    pub audit: Option<Audit>,
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

impl SpaceSpec {
    /// The permanent part.
    #[doc(hidden)]
    pub fn definition(&self) -> Definition {
        let default = Definition::of_kind(self.kind.unwrap_or_default());
        let layout = self.layout.clone().or(default.layout);
        let plain_integers = default.kind == Kind::Sequential && self.length == Some(0);
        let usual = if plain_integers { "decimal".to_owned() } else { default.alphabet };
        let alphabet = self.alphabet.clone().unwrap_or(usual);
        let length = match (default.kind, &layout) {
            (Kind::Snowflake, Some(layout)) => super::timeline::length_for(layout, &alphabet),
            _ => default.length,
        };
        Definition {
            kind: default.kind,
            alphabet,
            length: self.length.unwrap_or(length),
            prefix: self.prefix.clone().unwrap_or(default.prefix),
            group: self.group.unwrap_or(default.group),
            check: self.check.unwrap_or(default.check),
            step: self.step.unwrap_or(default.step),
            offset: self.offset.unwrap_or(default.offset),
            normalize: self.normalize.unwrap_or(default.normalize),
            layout: layout.map(|text| super::timeline::canonical(&text)),
            epoch: self.epoch.or(default.epoch),
            uuid_version: self.uuid_version.or(default.uuid_version),
            grown: default.grown,
        }
    }

    /// The permanent part, to be compared with one on record. Plain integers were written in base62 by
    /// default in the past: where no alphabet is asked for, either is meant.
    #[doc(hidden)]
    pub fn definition_like(&self, stored: &Definition) -> Definition {
        let asked = self.definition();
        let plain_integers = asked.kind == Kind::Sequential && asked.length == 0;
        if plain_integers && self.alphabet.is_none() && stored.alphabet == "base62" {
            return Definition { alphabet: stored.alphabet.clone(), ..asked };
        }
        asked
    }

    /// The changeable part: what was given, over what was there.
    #[doc(hidden)]
    pub fn tuning_over(&self, before: &Tuning) -> Tuning {
        Tuning {
            lease_size_min: self.lease_size_min.unwrap_or(before.lease_size_min),
            lease_size_max: self.lease_size_max.unwrap_or(before.lease_size_max),
            horizon_seconds: self.horizon_seconds.unwrap_or(before.horizon_seconds),
            blocklist: self.blocklist.unwrap_or(before.blocklist),
            audit: self.audit.unwrap_or(before.audit),
            low_water: self.low_water.unwrap_or(before.low_water),
            ttl_seconds: self.ttl_seconds.unwrap_or(before.ttl_seconds),
            reserve_seconds: self.reserve_seconds.unwrap_or(before.reserve_seconds),
            window_seconds: self.window_seconds.unwrap_or(before.window_seconds),
            importing: before.importing.clone(),
            exported_for: before.exported_for.clone(),
        }
    }
}
