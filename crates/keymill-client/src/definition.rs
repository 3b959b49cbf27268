//! The settings of a keyspace.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The settings of a keyspace. One that is `None` has the server's default.
///
/// Later versions may have more: end it with `..Definition::default()`.
///
/// ```
/// use keymill_client::{Definition, Kind};
/// let links = Definition { kind: Some(Kind::Shuffled), length: Some(8), ..Definition::default() };
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Definition {
    /// Where the keys come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// `base62`, `base58`, `base36`, `base32`, `base64url`, `hex`, `decimal`, `safe`, or the characters themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
    /// Length of the key, without prefix and check; 0 writes plain integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u8>,
    /// What every key begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// A hyphen after every so many characters; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Whether a check character ends every key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<bool>,
    /// The distance between two numbers: more than 1 shares one keyspace among stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The first number, below `step`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// With [`Kind::Digest`]: how inputs are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalize: Option<Normalize>,
    /// With [`Kind::Snowflake`]: the bits of time, worker and sequence, such as `41/10/12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// With [`Kind::Snowflake`]: the start of the time count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Timestamp>,
    /// With [`Kind::Uuid`]: 7 or 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid_version: Option<u8>,
    /// The first ordinal to grant; only when the keyspace is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// The fewest keys an instance leases at once; changeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_size_min: Option<u64>,
    /// The most keys an instance leases at once; changeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_size_max: Option<u64>,
    /// Seconds of demand that instances keep leased in memory; changeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon_seconds: Option<u64>,
    /// Whether keys that the blocklist matches are skipped; changeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocklist: Option<bool>,
    /// What is recorded of keys that are handed out; changeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// A pool with fewer keys than this is filled; changeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_water: Option<u64>,
    /// How long a pool's key is valid once it is handed out; 0 means forever; changeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// With audit `key`: how long a pool's keys stay reserved for an instance that does not hand them out; changeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve_seconds: Option<u64>,
    /// With [`Kind::Snowflake`]: how far ahead an instance holds its worker number; changeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u64>,
}

/// Where a keyspace's keys come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// Unguessable keys, with nothing stored per unused key.
    Shuffled,
    /// Keys that count up.
    Sequential,
    /// Keys that are written into a table in advance.
    Pooled,
    /// Keys made from inputs: the same input always gives the same key.
    Digest,
    /// Numbers made of the time, the instance and a sequence.
    Snowflake,
    /// UUIDs, which are not recorded.
    Uuid,
    /// A kind that this version of the client does not know. A server refuses it.
    #[serde(other)]
    Other,
}

/// How inputs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Normalize {
    /// Byte by byte.
    None,
    /// URLs by their normal form (RFC 3986).
    Url,
    /// URLs by their normal form, with everything printable decoded.
    UrlDecoded,
    /// A way that this version of the client does not know. A server refuses it.
    #[serde(other)]
    Other,
}

/// What is recorded of keys that are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Audit {
    /// Only the leases and claims that they come from.
    Batch,
    /// Every key with its time and its caller, before it is handed out.
    Key,
    /// A choice that this version of the client does not know. A server refuses it.
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_not_sent_and_what_is_unknown_is_read() {
        let wanted = Definition {
            kind: Some(Kind::Digest),
            normalize: Some(Normalize::UrlDecoded),
            audit: Some(Audit::Key),
            ..Definition::default()
        };
        let json = serde_json::to_string(&wanted).unwrap();
        assert_eq!(json, r#"{"kind":"digest","normalize":"url-decoded","audit":"key"}"#);
        assert_eq!(serde_json::from_str::<Definition>(&json).unwrap(), wanted);
        let later = r#"{"kind":"quantum","audit":"twice","length":7,"later":{}}"#;
        let later: Definition = serde_json::from_str(later).unwrap();
        assert_eq!(
            (later.kind, later.audit, later.length),
            (Some(Kind::Other), Some(Audit::Other), Some(7))
        );
    }
}
