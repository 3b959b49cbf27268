//! `keymill space set`: the settings of a keyspace that may change at any time.

use anyhow::bail;
use clap::Args;
use keymill_engine::operations::{Service, ServiceError};
use keymill_engine::space::{DefinitionError, Kind, SpaceSpec, Tuning};
use serde::Serialize;
use serde_json::Value;

use super::show;
use crate::cli::usage;
use crate::front::space_settings::{self, AuditName};

pub(in crate::cli) const SET_EXAMPLES: &str = "\
Only the settings that are given change; `keymill space show` prints all of them. Running instances
follow with their next heartbeat. A setting that the settings file has for this keyspace, under
[spaces.NAME], is set again when an instance starts.

The key format (kind, alphabet, length, prefix and so on) cannot change. For longer keys, see
`keymill space grow`.

Examples:
  keymill space set links --audit key
  keymill space set links --lease-size-max 100000 --horizon-seconds 3600
  keymill space set coupons --low-water 10000 --ttl-seconds 86400
  keymill space set links --blocklist false";

#[derive(Debug, Serialize, Args)]
#[group(required = true, multiple = true)]
pub(in crate::cli) struct SetArgs {
    /// Record leases only (batch), or every key with its time and caller before it is handed out (key)
    #[arg(long)]
    audit: Option<AuditName>,
    /// Whether keys that the blocklist matches are skipped
    #[arg(long)]
    blocklist: Option<bool>,
    /// Seconds of demand to keep leased in memory, in case the store is unreachable
    #[arg(long, value_name = "SECONDS")]
    horizon_seconds: Option<u64>,
    /// The fewest keys an instance leases at once
    #[arg(long, value_name = "KEYS")]
    lease_size_min: Option<u64>,
    /// The most keys an instance leases at once
    #[arg(long, value_name = "KEYS")]
    lease_size_max: Option<u64>,
    /// With kind pooled: fill the pool when it has fewer keys than this; 0 never fills it
    #[arg(long, value_name = "KEYS")]
    low_water: Option<u64>,
    /// With kind pooled: how long a key is valid once it is handed out; 0 means forever
    #[arg(long, value_name = "SECONDS")]
    ttl_seconds: Option<u64>,
    /// With kind pooled and audit key: how long keys stay reserved for an instance that does not hand
    /// them out
    #[arg(long, value_name = "SECONDS")]
    reserve_seconds: Option<u64>,
    /// With kind snowflake: how far ahead an instance holds its worker number: how long it can continue
    /// without the store, and how long the number stays unused after a crash
    #[arg(long, value_name = "SECONDS")]
    window_seconds: Option<u64>,
}

pub(super) async fn run(
    service: &Service,
    name: &str,
    settings: &SetArgs,
    json: bool,
) -> anyhow::Result<()> {
    let wanted = space_settings::spec(settings);
    usage(check(&wanted))?;
    let kind = service.report(name).await?.record.definition.kind;
    if let Some(setting) = given(&wanted).iter().find(|(setting, _)| !applies(setting, kind)) {
        bail!(
            "`{name}` is of kind {kind}, which has no setting `{}`; `keymill space show {name}` prints the \
             settings that it has",
            setting.0
        );
    }
    let tuned = service.tune(name, &wanted).await?.tuned;
    told(service, name, tuned, &format!("nothing to change: `{name}` already has these settings"));
    show::run(service, name, json).await
}

/// Prints that settings have changed, or else the text `unchanged`.
pub(super) fn told(service: &Service, name: &str, tuned: bool, unchanged: &str) {
    if tuned {
        let seconds = service.limits().heartbeat_every.as_secs_f64();
        note!(
            "keymill: changed the settings of `{name}`; running instances follow within {seconds} s"
        );
    } else {
        note!("keymill: {unchanged}");
    }
}

/// Refuses values that no keyspace could have.
pub(super) fn check(wanted: &SpaceSpec) -> Result<(), DefinitionError> {
    // With the widest lease sizes; whether they fit the recorded ones is checked later.
    let lease_size_max = Tuning::LEASE_SIZE_MAX;
    let widest = Tuning { lease_size_min: 1, lease_size_max, ..Tuning::default() };
    wanted.tuning_over(&widest).check()
}

/// The refusal to create a keyspace that exists with another definition, with the command that changes
/// what may change.
pub(super) fn different(name: &str, wanted: &SpaceSpec, error: &ServiceError) -> anyhow::Error {
    match flags(wanted) {
        flags if flags.is_empty() => {
            anyhow::anyhow!(
                "{error}. `keymill space set --help` lists the settings that can change"
            )
        }
        flags => anyhow::anyhow!(
            "{error}. To change the existing keyspace, run `keymill space set {name}{flags}`"
        ),
    }
}

/// The changeable settings among those given, as they are typed.
fn flags(wanted: &SpaceSpec) -> String {
    let typed = |(name, value): (String, String)| format!(" --{} {value}", name.replace('_', "-"));
    given(wanted).into_iter().map(typed).collect()
}

/// The changeable settings among those given, with their values, in the order in which the help lists them.
fn given(wanted: &SpaceSpec) -> Vec<(String, String)> {
    let Ok(Value::Object(given)) = serde_json::to_value(wanted) else { return Vec::new() };
    let valued = |changeable: &clap::Arg| {
        let name = changeable.get_id().as_str();
        let value = given.get(name)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((name.to_owned(), text))
    };
    SetArgs::augment_args(clap::Command::new("set")).get_arguments().filter_map(valued).collect()
}

/// Whether a changeable setting applies to a kind. Whether `audit` does is left to the service, because it depends on
/// the store as well.
pub(super) fn applies(setting: &str, kind: Kind) -> bool {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use keymill_engine::space::Audit;

    use super::*;

    #[test]
    fn the_changeable_settings_among_those_given_are_told_as_they_are_typed() {
        let wanted = SpaceSpec {
            length: Some(9),
            audit: Some(Audit::Key),
            low_water: Some(5),
            ..SpaceSpec::default()
        };
        assert_eq!(flags(&wanted), " --audit key --low-water 5");
        assert_eq!(flags(&SpaceSpec::default()), "");
    }

    /// A setting without a flag could be set in a file or a request, but not with `space set`.
    #[test]
    fn every_setting_that_the_engine_can_change_has_a_flag() {
        let Ok(Value::Object(tuning)) = serde_json::to_value(Tuning::default()) else { panic!() };
        let command = SetArgs::augment_args(clap::Command::new("set"));
        let flags: BTreeSet<&str> =
            command.get_arguments().map(|it| it.get_id().as_str()).collect();
        assert_eq!(flags, tuning.keys().map(String::as_str).collect());
    }
}
