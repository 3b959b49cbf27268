//! `keymill space set`: the settings of a keyspace that may change at any time.

use clap::Args;
use keymill_engine::space::{DefinitionError, SpaceSpec, Tuning};
use serde_json::Value;

use super::show;
use crate::cli::site::Site;
use crate::cli::usage;
use crate::front::space_settings::{self, SpaceChange};

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

pub(super) async fn run(
    site: &Site,
    name: &str,
    settings: &SpaceChange,
    json: bool,
) -> anyhow::Result<()> {
    let wanted = space_settings::spec(settings);
    usage(check(&wanted))?;
    let changed = site.change_space(name, &wanted).await?;
    told(name, changed.tuned, &format!("nothing to change: `{name}` already has these settings"));
    show::show(&changed.space, json)
}

/// Prints that settings have changed, or else the text `unchanged`.
pub(super) fn told(name: &str, tuned: bool, unchanged: &str) {
    if tuned {
        note!(
            "keymill: changed the settings of `{name}`; running instances follow with their next heartbeat"
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
pub(super) fn different(name: &str, wanted: &SpaceSpec, error: &anyhow::Error) -> anyhow::Error {
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
    SpaceChange::augment_args(clap::Command::new("set"))
        .get_arguments()
        .filter_map(valued)
        .collect()
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
        let command = SpaceChange::augment_args(clap::Command::new("set"));
        let flags: BTreeSet<&str> =
            command.get_arguments().map(|it| it.get_id().as_str()).collect();
        assert_eq!(flags, tuning.keys().map(String::as_str).collect());
    }
}
