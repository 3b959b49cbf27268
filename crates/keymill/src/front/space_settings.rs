//! The settings of a keyspace in requests: for the command line, and for the description of the API.
//!
//! Each is described here once for both. The engine has them as `SpaceSpec`, which knows neither clap nor utoipa. The
//! body of a request that creates a keyspace is read as that; what is typed, and what changes a keyspace, is converted
//! with [`spec`]. The settings in answers have the same descriptions (`http/openapi/parts.rs`). The engine checks the
//! values.

use jiff::Timestamp;
use keymill_engine::operations::{Ensured, Service, ServiceError};
use keymill_engine::space::{Kind, SpaceSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The settings of a keyspace, as given in a file, a request or on the command line. A setting that
/// is left out has its default.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[schema(as = SpaceSpec)]
#[serde(deny_unknown_fields)]
pub struct SpaceSettings {
    /// Where the keys come from [default: shuffled]
    #[cfg_attr(feature = "cli", arg(long))]
    pub kind: Option<KindName>,
    /// base62, base58, base36, base32, base64url, hex, decimal, safe, or the characters
    /// themselves [default: base62; decimal for plain integers, length 0]
    #[cfg_attr(feature = "cli", arg(long))]
    pub alphabet: Option<String>,
    /// Length of the key, without prefix and check; 0 writes plain integers [default: 7]
    #[cfg_attr(feature = "cli", arg(long))]
    pub length: Option<u8>,
    /// What every key begins with
    #[cfg_attr(feature = "cli", arg(long))]
    pub prefix: Option<String>,
    /// Insert a hyphen after every N characters; 0 for none [default: 0]
    #[cfg_attr(feature = "cli", arg(long))]
    pub group: Option<u8>,
    /// Whether a check character ends every key [default: false]
    #[cfg_attr(feature = "cli", arg(long, num_args = 0..=1, default_missing_value = "true"))]
    pub check: Option<bool>,
    /// The distance between two numbers: more than 1 shares one keyspace among stores
    /// [default: 1]
    #[cfg_attr(feature = "cli", arg(long))]
    pub step: Option<u64>,
    /// The first number, below `step` [default: 0]
    #[cfg_attr(feature = "cli", arg(long))]
    pub offset: Option<u64>,
    /// With kind digest: how inputs are compared [default: none]
    #[cfg_attr(feature = "cli", arg(long))]
    pub normalize: Option<NormalizeName>,
    /// With kind snowflake: the bits of time, worker and sequence, such as 41/10/12 or
    /// 39/s8/w16@10ms, or twitter, sonyflake, instagram, javascript [default: 41/10/12]
    #[cfg_attr(feature = "cli", arg(long))]
    pub layout: Option<String>,
    /// With kind snowflake: start of the time count (epoch) [default: 2025-01-01T00:00:00Z]
    #[cfg_attr(feature = "cli", arg(long, value_name = "TIME", value_parser = parse_epoch))]
    #[schema(value_type = Option<String>)]
    pub epoch: Option<Timestamp>,
    /// With kind uuid: 7 (time-ordered) or 4 (random) [default: 7]
    #[cfg_attr(feature = "cli", arg(long, value_name = "VERSION"))]
    pub uuid_version: Option<u8>,
    /// The first ordinal to grant, for a keyspace that moves here from another store; only when it
    /// is created [default: 0]
    #[cfg_attr(feature = "cli", arg(long, value_name = "ORDINAL"))]
    pub start: Option<u64>,
    /// The fewest keys an instance leases at once; changeable [default: 1000]
    #[cfg_attr(feature = "cli", arg(long))]
    pub lease_size_min: Option<u64>,
    /// The most keys an instance leases at once; changeable [default: 100000000]
    #[cfg_attr(feature = "cli", arg(long))]
    pub lease_size_max: Option<u64>,
    /// Seconds of demand to keep leased in memory; changeable [default: 900]
    #[cfg_attr(feature = "cli", arg(long))]
    pub horizon_seconds: Option<u64>,
    /// Whether keys that the blocklist matches are skipped; changeable [default: true]
    #[cfg_attr(feature = "cli", arg(long))]
    pub blocklist: Option<bool>,
    /// Record leases and claims (batch), or every key before it is handed out (key); changeable
    /// [default: batch]
    #[cfg_attr(feature = "cli", arg(long))]
    pub audit: Option<AuditName>,
    /// Fill a pool that has fewer keys than this, once an instance has taken from it; 0 means never;
    /// changeable [default: 0]
    #[cfg_attr(feature = "cli", arg(long, value_name = "KEYS"))]
    pub low_water: Option<u64>,
    /// How long a pool's key is valid once it is handed out; 0 means forever; changeable [default: 0]
    #[cfg_attr(feature = "cli", arg(long, value_name = "SECONDS"))]
    pub ttl_seconds: Option<u64>,
    /// With audit key: how long a pool's keys stay reserved for an instance that does not hand them
    /// out; changeable [default: 300]
    #[cfg_attr(feature = "cli", arg(long, value_name = "SECONDS"))]
    pub reserve_seconds: Option<u64>,
    /// With kind snowflake: how far ahead an instance holds its worker number, which is how long it can
    /// continue without the store, and how long the number stays unused after a crash; changeable
    /// [default: 60]
    #[cfg_attr(feature = "cli", arg(long, value_name = "SECONDS"))]
    pub window_seconds: Option<u64>,
}

/// The settings of a keyspace that may change at any time. A setting that is left out stays as it is.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "cli", derive(clap::Args), group(required = true, multiple = true))]
#[serde(deny_unknown_fields)]
pub struct SpaceChange {
    /// Record leases only (batch), or every key with its time and caller before it is handed out (key)
    #[cfg_attr(feature = "cli", arg(long))]
    pub audit: Option<AuditName>,
    /// Whether keys that the blocklist matches are skipped
    #[cfg_attr(feature = "cli", arg(long))]
    pub blocklist: Option<bool>,
    /// Seconds of demand to keep leased in memory, in case the store is unreachable
    #[cfg_attr(feature = "cli", arg(long, value_name = "SECONDS"))]
    pub horizon_seconds: Option<u64>,
    /// The fewest keys an instance leases at once
    #[cfg_attr(feature = "cli", arg(long, value_name = "KEYS"))]
    pub lease_size_min: Option<u64>,
    /// The most keys an instance leases at once
    #[cfg_attr(feature = "cli", arg(long, value_name = "KEYS"))]
    pub lease_size_max: Option<u64>,
    /// With kind pooled: fill the pool when it has fewer keys than this; 0 never fills it
    #[cfg_attr(feature = "cli", arg(long, value_name = "KEYS"))]
    pub low_water: Option<u64>,
    /// With kind pooled: how long a key is valid once it is handed out; 0 means forever
    #[cfg_attr(feature = "cli", arg(long, value_name = "SECONDS"))]
    pub ttl_seconds: Option<u64>,
    /// With kind pooled and audit key: how long keys stay reserved for an instance that does not hand
    /// them out
    #[cfg_attr(feature = "cli", arg(long, value_name = "SECONDS"))]
    pub reserve_seconds: Option<u64>,
    /// With kind snowflake: how far ahead an instance holds its worker number: how long it can continue
    /// without the store, and how long the number stays unused after a crash
    #[cfg_attr(feature = "cli", arg(long, value_name = "SECONDS"))]
    pub window_seconds: Option<u64>,
}

/// Where a keyspace's keys come from.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[schema(as = Kind)]
#[serde(rename_all = "lowercase")]
pub enum KindName {
    /// Leased ordinals through FF1: unguessable, nothing stored per unused key.
    Shuffled,
    /// Leased ordinals written as they are.
    Sequential,
    /// Keys that are written into a table in advance: shuffled keys, and keys that the user imports.
    Pooled,
    /// Keys made from inputs: the same input always gives the same key.
    Digest,
    /// Numbers made of the time, the instance and a sequence, ordered by time.
    Snowflake,
    /// UUIDs, which are not recorded.
    Uuid,
}

/// How inputs are compared.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[schema(as = Normalize)]
#[serde(rename_all = "kebab-case")]
pub enum NormalizeName {
    /// Inputs are compared byte by byte.
    None,
    /// URLs are compared by their normal form (RFC 3986).
    Url,
    /// URLs are compared by their normal form, with everything printable decoded.
    UrlDecoded,
}

/// What is recorded of keys that are handed out.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[schema(as = Audit)]
#[serde(rename_all = "lowercase")]
pub enum AuditName {
    /// Only the leases and claims that they come from.
    Batch,
    /// Every key with its time and its caller, before it is handed out.
    Key,
}

/// Converts settings into the engine's type, which has the same names.
///
/// It goes through JSON, so that no list of settings is repeated here; a test sets every one of them.
pub(crate) fn spec(settings: &impl Serialize) -> SpaceSpec {
    let json = serde_json::to_value(settings).expect("settings can be written as JSON");
    serde_json::from_value(json).expect("the engine has settings of these names and types")
}

/// Changes how a keyspace is served. A setting that its kind does not have is refused.
pub(crate) async fn change(
    service: &Service,
    name: &str,
    wanted: &SpaceSpec,
) -> Result<Ensured, ServiceError> {
    let kind = service.report(name).await?.record.definition.kind;
    let given = serde_json::to_value(wanted).expect("settings can be written as JSON");
    let given = given.as_object().into_iter().flatten().filter(|(_, value)| **value != Value::Null);
    if let Some((setting, _)) = given.into_iter().find(|(setting, _)| !applies(setting, kind)) {
        return Err(ServiceError::WrongKind(format!(
            "`{name}` is of kind {kind}, which has no setting `{setting}`; `keymill space show {name}` prints \
             the settings that it has"
        )));
    }
    service.tune(name, wanted).await
}

/// Whether a changeable setting applies to a kind. Whether `audit` does is left to the service, because it depends on
/// the store as well.
pub(crate) fn applies(setting: &str, kind: Kind) -> bool {
    match setting {
        "blocklist" => kind != Kind::Uuid,
        "horizon_seconds" | "lease_size_min" | "lease_size_max" => {
            matches!(kind, Kind::Shuffled | Kind::Sequential | Kind::Pooled)
        }
        "low_water" | "ttl_seconds" | "reserve_seconds" => kind == Kind::Pooled,
        "window_seconds" => kind == Kind::Snowflake,
        _ => true,
    }
}

/// Reads an epoch. It is permanent, so a text that is not exactly a time is refused.
#[cfg(feature = "cli")]
fn parse_epoch(text: &str) -> Result<Timestamp, String> {
    super::time::read(text).ok_or_else(|| format!("must be {}", super::time::TIME))
}

#[cfg(feature = "cli")]
#[cfg(test)]
mod tests {
    use clap::{FromArgMatches, ValueEnum};
    use serde_json::{Value, json};

    use super::*;

    /// What the engine makes of arguments.
    fn typed(args: impl IntoIterator<Item = String>) -> Value {
        let command = <SpaceSettings as clap::Args>::augment_args(clap::Command::new("create"));
        let matches = command.no_binary_name(true).get_matches_from(args);
        let settings = SpaceSettings::from_arg_matches(&matches).unwrap();
        serde_json::to_value(spec(&settings)).unwrap()
    }

    #[test]
    fn the_engine_is_told_every_setting_that_is_typed() {
        let given = json!({
            "kind": "snowflake", "alphabet": "base58", "length": 9, "prefix": "a_", "group": 4,
            "check": true, "step": 2, "offset": 1, "normalize": "url-decoded", "layout": "41/10/12",
            "epoch": "2024-01-01T00:00:00Z", "uuid_version": 4, "start": 7, "lease_size_min": 10,
            "lease_size_max": 20, "horizon_seconds": 30, "blocklist": false, "audit": "key",
            "low_water": 40, "ttl_seconds": 50, "reserve_seconds": 60, "window_seconds": 70,
        });
        let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
        let given = given.as_object().unwrap();
        let args = given
            .iter()
            .map(|(name, value)| format!("--{}={}", name.replace('_', "-"), text(value)));
        assert_eq!(typed(args), Value::Object(given.clone()));
        assert_eq!(typed(None), json!({}));
        let command = <SpaceSettings as clap::Args>::augment_args(clap::Command::new("create"));
        assert_eq!(command.get_arguments().count(), given.len());
    }

    #[test]
    fn the_engine_has_every_value_that_can_be_typed() {
        fn check<T: ValueEnum>(setting: &str) {
            for value in T::value_variants() {
                let name = value.to_possible_value().unwrap().get_name().to_owned();
                assert_eq!(typed([format!("--{setting}={name}")]), json!({ setting: name }));
            }
        }
        check::<KindName>("kind");
        check::<NormalizeName>("normalize");
        check::<AuditName>("audit");
    }
}
