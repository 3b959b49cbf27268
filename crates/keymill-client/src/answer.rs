//! What servers answer, as types of this crate. Fields that a later server adds are ignored.

use std::fmt;
use std::time::Duration;

use hyper::{HeaderMap, header};
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use crate::definition::Definition;
use crate::key::Key;

/// Clocks that differ by less are the same: what a server says of its own has no fractions, and answers take a moment.
const CLOCKS_DIFFER_FROM: SignedDuration = SignedDuration::from_secs(2);

/// The key of an input, in a keyspace of kind `digest`.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct Digest {
    /// The key: always the same for the same input and scope.
    pub key: Key,
    /// Whether the input is new. After a retry it may be false for an input that is.
    pub made: bool,
}

/// A key of a user's choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Alias {
    /// The keyspace.
    pub space: String,
    /// The alias.
    pub alias: String,
    /// Its owner; empty if none was given.
    pub owner: String,
    /// When it was added.
    pub created_at: Timestamp,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries, in the order of their names.
    pub items: Vec<T>,
    /// Where the next page starts; `None` on the last one.
    pub next: Option<String>,
}

/// Where a key came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The keyspace.
    pub space: String,
    /// The key in its canonical form; if it cannot belong to the keyspace, as it was given.
    pub key: String,
    /// What is known of it.
    pub state: KeyState,
    /// The reason for the state, in a sentence.
    pub reason: String,
    /// It is the n-th key of the keyspace.
    #[serde(default, deserialize_with = "number_or_none")]
    pub ordinal: Option<u128>,
    /// The number behind the key, before shuffling.
    #[serde(default, deserialize_with = "number_or_none")]
    pub number: Option<u128>,
    /// When it was made; known for snowflake IDs and UUIDs of version 7.
    #[serde(default)]
    pub time: Option<Timestamp>,
    /// The worker number that made a snowflake ID.
    #[serde(default)]
    pub worker: Option<u32>,
    /// The sequence number of a snowflake ID within its tick.
    #[serde(default)]
    pub sequence: Option<u32>,
    /// The lease it came from.
    #[serde(default)]
    pub lease: Option<Lease>,
    /// When and to whom it was handed out, if single keys are recorded.
    #[serde(default)]
    pub used: Option<UsedKey>,
}

/// The state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum KeyState {
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
    /// A state that this version of the client does not know.
    #[serde(other)]
    Other,
}

/// A range of ordinals that was granted to an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lease {
    /// The keyspace.
    pub space: String,
    /// Its number within the keyspace.
    #[serde(deserialize_with = "number")]
    pub lease: u128,
    /// The first ordinal.
    #[serde(deserialize_with = "number")]
    pub start: u128,
    /// The ordinal after the last.
    #[serde(deserialize_with = "number")]
    pub end: u128,
    /// What it is for.
    pub purpose: Purpose,
    /// The first ordinal of the lease that was not used, once the lease is closed.
    #[serde(default, deserialize_with = "number_or_none")]
    pub closed_at_ordinal: Option<u128>,
    /// The instance that it was granted to.
    pub holder: Instance,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When it was closed.
    #[serde(default)]
    pub closed_at: Option<Timestamp>,
}

/// Why a range of ordinals is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Purpose {
    /// Granted to an instance, to make keys from.
    Lease,
    /// Skipped by `space advance`.
    Advance,
    /// Written into the pool of a keyspace.
    Fill,
    /// The time during which an instance held a worker number.
    Window,
    /// A purpose that this version of the client does not know.
    #[serde(other)]
    Other,
}

/// A running server process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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
    pub started_at: Timestamp,
}

/// A key that is on record as used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UsedKey {
    /// The key.
    pub key: String,
    /// When it was handed out; with audit `batch`, when it was claimed from the pool.
    pub used_at: Timestamp,
    /// The caller it was handed out to; empty if none was given.
    pub caller: String,
    /// The instance that handed it out.
    pub instance: String,
    /// When it expires.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// When it was retired.
    #[serde(default)]
    pub retired_at: Option<Timestamp>,
}

/// A keyspace: its settings and its usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyspaceInfo {
    /// Its name.
    pub name: String,
    /// Its settings, all of them present that its kind has.
    #[serde(flatten)]
    pub definition: Definition,
    /// The fingerprint of the secret that its keys are made with, if they need one.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// Whether it is sealed.
    pub sealed: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// How many keys it has in total.
    #[serde(deserialize_with = "number")]
    pub capacity: u128,
    /// The lowest ordinal never granted.
    #[serde(deserialize_with = "number")]
    pub next: u128,
    /// Keys granted to instances, which may have handed them out.
    #[serde(deserialize_with = "number")]
    pub leased: u128,
    /// Aliases, keys in use elsewhere and digests on record.
    #[serde(deserialize_with = "number")]
    pub named: u128,
    /// Keys not yet granted.
    #[serde(deserialize_with = "number")]
    pub remaining: u128,
    /// Keys in the pool, if the keyspace has one.
    #[serde(default, deserialize_with = "number_or_none")]
    pub available: Option<u128>,
    /// Keys in the memory of the server that answered, ready to be taken.
    #[serde(deserialize_with = "number")]
    pub at_hand: u128,
    /// The chance that a guess hits a key that may be in use.
    pub density: f64,
    /// Keys per second that the server that answered currently hands out.
    pub rate: f64,
    /// Keys per second that all servers leased, on average.
    pub leased_rate: f64,
    /// When the keyspace will be used up at that rate.
    #[serde(default)]
    pub exhausted_at: Option<Timestamp>,
    /// With kind `snowflake`: when its timestamps end.
    #[serde(default)]
    pub runs_out_at: Option<Timestamp>,
}

/// Keys that were taken, in a form of the caller's choice.
#[derive(Debug, Deserialize)]
pub(crate) struct Taken<K> {
    pub(crate) keys: K,
    #[serde(default = "Option::default")]
    pub(crate) expires_at: Option<Timestamp>,
    /// When the server answered, by its own clock and in whole seconds.
    #[serde(skip)]
    pub(crate) answered_at: Option<Timestamp>,
}

impl<K> Taken<K> {
    /// How long its keys are valid, at least; `None` if they do not expire.
    ///
    /// Keys expire by the clock of the server. Where that of this machine differs from it, the time of the answer counts.
    pub(crate) fn lifetime(&self, now: Timestamp) -> Option<Duration> {
        let expires_at = self.expires_at?;
        let by_own_clock = expires_at.duration_since(now);
        let by_server = self.answered_at.map(|answered_at| {
            // The fraction of a second that it leaves out.
            expires_at.duration_since(answered_at) - SignedDuration::from_secs(1)
        });
        let lifetime = by_server
            .filter(|by_server| (by_own_clock - *by_server).abs() >= CLOCKS_DIFFER_FROM)
            .unwrap_or(by_own_clock);
        Some(Duration::try_from(lifetime).unwrap_or_default())
    }
}

/// The time of an answer, by the `Date` that servers send.
pub(crate) fn answered_at(headers: &HeaderMap) -> Option<Timestamp> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(date).ok()
}

#[derive(Debug, Deserialize)]
pub(crate) struct Digests {
    pub(crate) keys: Vec<Key>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Aliases {
    aliases: Vec<Alias>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Keyspaces {
    spaces: Vec<KeyspaceInfo>,
    next: Option<String>,
}

impl From<Aliases> for Page<Alias> {
    fn from(Aliases { aliases, next }: Aliases) -> Page<Alias> {
        Page { items: aliases, next }
    }
}

impl From<Keyspaces> for Page<KeyspaceInfo> {
    fn from(Keyspaces { spaces, next }: Keyspaces) -> Page<KeyspaceInfo> {
        Page { items: spaces, next }
    }
}

/// Reads a whole number, which servers write as a string where a JSON number would be rounded.
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
    struct Number;

    impl Visitor<'_> for Number {
        type Value = u128;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number, or one in a string")
        }

        fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u128, E> {
            Ok(number.into())
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u128, E> {
            text.parse().map_err(E::custom)
        }
    }

    from.deserialize_any(Number)
}

/// The same where there may be none.
pub(crate) fn number_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u128>, D::Error> {
    #[derive(Deserialize)]
    struct Number(#[serde(deserialize_with = "number")] u128);

    Ok(Option::<Number>::deserialize(from)?.map(|number| number.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Kind;

    #[test]
    fn the_lifetime_of_keys_is_reckoned_by_the_clock_of_the_server() {
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).unwrap();
        let headers = [(header::DATE, "Mon, 12 Jan 1970 13:46:40 GMT".parse().unwrap())];
        assert_eq!(answered_at(&headers.into_iter().collect()), Some(at(0)));
        for (now, expires_at, answered_at, expected) in [
            (0, None, Some(at(0)), None),
            (0, Some(at(60)), None, Some(60)),
            (1, Some(at(60)), Some(at(0)), Some(59)),
            (3_600, Some(at(60)), Some(at(0)), Some(59)),
            (-3_600, Some(at(60)), Some(at(0)), Some(59)),
            (0, Some(at(0)), Some(at(0)), Some(0)),
        ] {
            let taken = Taken { keys: (), expires_at, answered_at };
            assert_eq!(taken.lifetime(at(now)), expected.map(Duration::from_secs), "{taken:?}");
        }
    }

    #[test]
    fn a_keyspace_is_read_with_its_settings_and_whatever_a_later_server_adds() {
        let json = r#"{"name":"links","kind":"shuffled","alphabet":"base62","length":7,"audit":"batch","later":{"a":[1]},
            "fingerprint":null,"sealed":false,"created_at":"2026-11-17T23:04:59.74Z","capacity":3521614606208,"next":0,
            "leased":0,"named":0,"remaining":"9223372036854775808","at_hand":12,"density":0.0,"rate":0.5,
            "leased_rate":0.0,"exhausted_at":null}"#;
        let info: KeyspaceInfo = serde_json::from_str(json).unwrap();
        assert_eq!((info.definition.kind, info.definition.length), (Some(Kind::Shuffled), Some(7)));
        assert_eq!((info.remaining, info.at_hand, info.available), (1 << 63, 12, None));
    }

    #[test]
    fn an_explanation_needs_only_what_is_always_there() {
        let json = r#"{"space":"links","key":"x","state":"surprising","reason":"so",
            "number":"1267650600228229401496703205376"}"#;
        let explanation: Explanation = serde_json::from_str(json).unwrap();
        assert_eq!((explanation.state, explanation.number), (KeyState::Other, Some(1 << 100)));
        assert_eq!((explanation.ordinal, explanation.lease), (None, None));
        for wrong in ["-1", "1.5", "\"\"", "\"x\"", "[]"] {
            let json = json.replace("\"1267650600228229401496703205376\"", wrong);
            assert!(serde_json::from_str::<Explanation>(&json).is_err(), "{wrong}");
        }
    }
}
