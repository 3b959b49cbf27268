//! `KEYMILL_*` variables: which there are, how their values are parsed, and errors for those that are unknown or not
//! UTF-8, which would otherwise be ignored silently.
//!
//! `Config::load` checks them before it uses the environment; `settings` applies them.

use std::ffi::OsString;

use anyhow::bail;

use super::mistakes::closest;

use VariableKind::{List, Number, Switch, Text};

/// The type of a variable's value.
pub(super) enum VariableKind {
    Text,
    /// Whole, unless the setting has a fraction.
    Number,
    Switch,
    /// Separated by commas.
    List,
}

/// The settings that have a variable: section, name and kind, in the order of the annotated file.
pub(super) const VARIABLES: &[(&str, &str, VariableKind)] = &[
    ("", "listen", List),
    ("", "admin_listen", Text),
    ("", "redis_listen", List),
    ("", "tls_certificate", Text),
    ("", "tls_key", Text),
    ("", "tls_client_ca", Text),
    ("", "trusted_proxies", List),
    ("", "allowed_hosts", List),
    ("", "allowed_origins", List),
    ("", "anonymous_allow", List),
    ("", "insecure_no_auth", Switch),
    ("", "tokens_file", Text),
    ("", "tokens_max_age_seconds", Number),
    ("", "store", Text),
    ("", "store_file", Text),
    ("", "data_dir", Text),
    ("", "default_space", Text),
    ("", "secret_file", Text),
    ("", "worker", Number),
    ("", "require_existing", Switch),
    ("", "new_store", Switch),
    ("", "allow_unsafe_store", Switch),
    ("log", "level", Text),
    ("log", "format", Text),
    ("limits", "count_max", Number),
    ("limits", "waiting_max", Number),
    ("limits", "wait_seconds", Number),
    ("limits", "heartbeat_seconds", Number),
    ("limits", "connections_max", Number),
    ("limits", "connections_per_address_max", Number),
    ("limits", "anonymous_requests_per_second", Number),
    ("limits", "first_byte_seconds", Number),
    ("limits", "header_seconds", Number),
    ("limits", "idle_seconds", Number),
    ("limits", "redis_idle_seconds", Number),
    ("limits", "drain_delay_seconds", Number),
    ("limits", "drain_seconds", Number),
    ("limits", "body_max_bytes", Number),
    ("limits", "unsent_max_bytes", Number),
    ("limits", "metrics_spaces_max", Number),
    ("limits", "threads", Number),
    ("blocklist", "builtin", Switch),
    ("blocklist", "file", Text),
    ("aliases", "length_max", Number),
    ("aliases", "reserved", List),
];

impl VariableKind {
    /// Parses a value, or returns what it must be. `present` is the setting's current value.
    pub(super) fn parse(
        &self,
        text: &str,
        present: Option<&toml::Value>,
    ) -> Result<toml::Value, &'static str> {
        match self {
            Text => Ok(toml::Value::String(text.to_owned())),
            Number if matches!(present, Some(toml::Value::Float(_))) => {
                text.parse::<f64>().map(toml::Value::Float).map_err(|_| "a number")
            }
            Number => match text.parse::<i64>() {
                Ok(number) if number >= 0 => Ok(toml::Value::Integer(number)),
                _ => Err("a whole number"),
            },
            Switch => match text {
                "1" | "true" | "yes" | "on" => Ok(toml::Value::Boolean(true)),
                "0" | "false" | "no" | "off" => Ok(toml::Value::Boolean(false)),
                _ => Err("true or false"),
            },
            List => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                let parts = parts.map(|part| toml::Value::String(part.to_owned()));
                Ok(toml::Value::Array(parts.collect()))
            }
        }
    }
}

/// A setting with its section, as messages name it: `limits.count_max`.
pub(super) fn path(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// The variable of a setting: `KEYMILL_LIMITS_COUNT_MAX`.
pub(super) fn variable_name(section: &str, name: &str) -> String {
    format!("KEYMILL_{}", path(section, name).replace('.', "_").to_uppercase())
}

const PREFIX: &str = "KEYMILL_";

/// Variables that are read although they are not settings.
const OTHERS: &[&str] = &[
    "KEYMILL_ADMIN_TOKEN",
    "KEYMILL_ADMIN_TOKEN_FILE",
    "KEYMILL_CONFIG",
    "KEYMILL_SECRET",
    "KEYMILL_SERVER",
    "KEYMILL_SERVER_CA",
    "KEYMILL_TOKEN",
    "KEYMILL_TOKEN_FILE",
];

/// Prefixes of variables that belong to keymill's tests, proofs and benchmarks.
const FOREIGN: &[&str] = &["KEYMILL_BENCH_", "KEYMILL_SNOWFLAKE_", "KEYMILL_TEST_"];

/// Refuses settings that are not text. The path in KEYMILL_CONFIG may be any bytes.
pub(super) fn refuse_unreadable(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> anyhow::Result<()> {
    let is_read = |name: &str| {
        let is_other = OTHERS.contains(&name) && name != "KEYMILL_CONFIG";
        is_other || VARIABLES.iter().any(|(section, own, _)| variable_name(section, own) == name)
    };
    let mut wrong: Vec<String> = variables
        .filter(|(_, value)| value.to_str().is_none())
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with(PREFIX) && is_read(name))
        .map(|name| format!("{name} is not UTF-8 text"))
        .collect();
    wrong.sort_unstable();
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

/// Refuses variables that look like settings but are not.
pub(super) fn refuse_unknown(
    variables: impl Iterator<Item = (String, String)>,
) -> anyhow::Result<()> {
    let settings: Vec<String> =
        VARIABLES.iter().map(|(section, name, _)| variable_name(section, name)).collect();
    let is_known = |name: &str| {
        settings.iter().any(|setting| setting == name)
            || OTHERS.contains(&name)
            || FOREIGN.iter().any(|prefix| name.starts_with(prefix))
    };
    let mut unknown: Vec<String> = variables
        .filter(|(name, value)| {
            name.starts_with(PREFIX) && !is_known(name) && !is_service_link(name, value)
        })
        .map(|(name, _)| format!("unknown variable {name}{}", hint(&name, &settings)))
        .collect();
    unknown.sort_unstable();
    if !unknown.is_empty() {
        bail!("{}", unknown.join("\n"));
    }
    Ok(())
}

/// Whether Kubernetes has set a variable for a service that is called `keymill` or `keymill-…`. It
/// does so in every pod of the namespace, to say where the service listens.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_of_port = || {
        let behind = name.split_once("_PORT_").map(|(_, behind)| behind);
        behind.is_some_and(|behind| behind.starts_with(|first: char| first.is_ascii_digit()))
    };
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT") && value.contains("://")
        || is_of_port()
}

/// The variable that was probably meant.
fn hint(unknown: &str, settings: &[String]) -> String {
    let own = unknown.strip_prefix(PREFIX).unwrap_or(unknown);
    if own.starts_with("SPACES_") {
        return "; keyspaces are set in the settings file, or with `keymill space create`"
            .to_owned();
    }
    // Its section may have been left out.
    let of_a_section = VARIABLES
        .iter()
        .find(|(_, name, _)| name.to_uppercase() == own)
        .map(|(section, name, _)| variable_name(section, name));
    // Without the prefix, which they all share and which would make any two of them similar.
    let known = settings.iter().map(String::as_str).chain(OTHERS.iter().copied());
    let close = closest(own, known.filter_map(|known| known.strip_prefix(PREFIX)));
    let meant = match own {
        "PORT" | "HOST" | "ADDRESS" => Some("KEYMILL_LISTEN".to_owned()),
        _ => of_a_section.or_else(|| close.map(|known| format!("{PREFIX}{known}"))),
    };
    match meant {
        Some(meant) => format!("; did you mean {meant}?"),
        None => "; `keymill config show --default` prints all settings".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DEFAULT_FILE;

    #[test]
    fn a_variable_that_is_no_setting_is_refused_with_the_likely_meant_one() {
        check("KEYMILL_LISEN", "x", Some("did you mean KEYMILL_LISTEN?"));
        check("KEYMILL_COUNT_MAX", "7", Some("did you mean KEYMILL_LIMITS_COUNT_MAX?"));
        check("KEYMILL_LIMIT_THREADS", "7", Some("did you mean KEYMILL_LIMITS_THREADS?"));
        check("KEYMILL_SECRT", "x", Some("did you mean KEYMILL_SECRET?"));
        check("KEYMILL_PORT", "8081", Some("did you mean KEYMILL_LISTEN?"));
        check("KEYMILL_SPACES_LINKS_LENGTH", "7", Some("`keymill space create`"));
        check("KEYMILL_QQQ", "x", Some("config show --default"));
        check("KEYMILL_ADMIN_TOKEN", "x", None);
    }

    #[test]
    fn what_belongs_to_others_is_left_alone() {
        check("KEYMILL_LIMITS_COUNT_MAX", "x", None);
        check("KEYMILL_SECRET", "x", None);
        check("KEYMILL_CONFIG", "x", None);
        check("KEYMILL_TEST_POSTGRES", "x", None);
        check("KEYMILLS_LISEN", "x", None);
        check("PATH", "x", None);
    }

    /// Otherwise no pod would start beside a service of that name.
    #[test]
    fn what_kubernetes_says_of_a_service_is_left_alone() {
        check("KEYMILL_SERVICE_HOST", "10.0.0.1", None);
        check("KEYMILL_SERVICE_PORT_HTTP", "8080", None);
        check("KEYMILL_PORT", "tcp://10.0.0.1:8080", None);
        check("KEYMILL_PORT_8080_TCP_ADDR", "10.0.0.1", None);
        check("KEYMILL_ADMIN_PORT_9090_TCP", "tcp://10.0.0.1:9090", None);
    }

    #[track_caller]
    fn check(name: &str, value: &str, says: Option<&str>) {
        let refused = refuse_unknown([(name.to_owned(), value.to_owned())].into_iter());
        match (refused, says) {
            (Ok(()), None) => {}
            (Err(error), Some(says)) => {
                let error = error.to_string();
                assert!(error.contains(name) && error.contains(says), "{error}");
            }
            (refused, _) => panic!("{name}: {refused:?}"),
        }
    }

    /// A setting without a variable would be refused as an unknown variable, although the annotated
    /// file says that every setting has one.
    #[test]
    fn every_setting_has_a_variable() {
        let mut section = "";
        for line in DEFAULT_FILE.lines() {
            if line.starts_with("#[spaces") {
                break;
            }
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']');
            }
            let setting = line.strip_prefix('#').filter(|it| !it.starts_with(' ')).unwrap_or(line);
            let Some((name, _)) = setting.split_once(" = ").filter(|_| !line.starts_with("# "))
            else {
                continue;
            };
            let known = VARIABLES.iter().any(|it| (it.0, it.1) == (section, name));
            assert!(known, "{} has no variable", path(section, name));
        }
    }
}
