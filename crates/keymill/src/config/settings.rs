//! Settings as they were typed: in the file, in the environment, as flags.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::Flags;
use crate::space::SpaceSpec;

/// The annotated file of all defaults.
pub const DEFAULT_FILE: &str = include_str!("default.toml");

/// What the file, the environment and the flags say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "default.toml says what each of them is")]
pub struct Settings {
    pub listen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
    pub default_space: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    pub require_existing: bool,
    pub new_store: bool,
    pub allow_unsafe_store: bool,
    pub log: LogSettings,
    pub limits: LimitSettings,
    pub blocklist: BlocklistSettings,
    pub aliases: AliasSettings,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub spaces: BTreeMap<String, SpaceSpec>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    pub level: String,
    pub format: LogFormat,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    pub count_max: u32,
    pub waiting_max: usize,
    pub wait_seconds: f64,
    pub heartbeat_seconds: f64,
    pub connections_max: u32,
    pub header_seconds: f64,
    pub idle_seconds: f64,
    pub drain_seconds: f64,
    pub body_max_bytes: usize,
    pub threads: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BlocklistSettings {
    pub builtin: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AliasSettings {
    pub length_max: usize,
    pub reserved: Vec<String>,
}

impl Settings {
    /// Reads a settings file. A setting that does not exist is named, with the likely meant one.
    pub fn parse(text: &str) -> anyhow::Result<Settings> {
        toml::from_str(text).map_err(|error| {
            let hint = likely_meant(error.message());
            let hint = hint.map_or(String::new(), |name| format!("\ndid you mean `{name}`?"));
            anyhow::anyhow!("{}{hint}", error.to_string().trim_end())
        })
    }

    /// Lays `KEYMILL_*` variables over the file.
    pub fn overlay_environment(
        &mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<()> {
        let mut table = toml::Table::try_from(&*self).context("settings")?;
        for (section, name, kind) in VARIABLES {
            let path =
                if section.is_empty() { (*name).to_owned() } else { format!("{section}_{name}") };
            let variable_name = format!("KEYMILL_{}", path.to_uppercase());
            let Some(text) = variable(&variable_name) else {
                continue;
            };
            let value =
                kind.parse(&text).with_context(|| format!("{variable_name} is `{text}`"))?;
            let table = match *section {
                "" => &mut table,
                section => table[section].as_table_mut().expect("sections are always written"),
            };
            table.insert((*name).to_owned(), value);
        }
        *self = table.try_into().map_err(|error: toml::de::Error| {
            anyhow::anyhow!("in the KEYMILL_* variables: {}", error.message())
        })?;
        Ok(())
    }

    /// Lays flags over the rest.
    pub fn overlay_flags(&mut self, flags: &Flags) {
        if let Some(listen) = &flags.listen {
            self.listen.clone_from(listen);
        }
        self.store = flags.store.clone().or(self.store.take());
        self.data_dir = flags.data_dir.clone().or(self.data_dir.take());
        self.require_existing |= flags.require_existing;
        self.new_store |= flags.new_store;
        self.allow_unsafe_store |= flags.allow_unsafe_store;
    }
}

/// What a variable's text is read as.
enum VariableKind {
    Text,
    Number,
    Switch,
}

use VariableKind::{Number, Switch, Text};

const VARIABLES: &[(&str, &str, VariableKind)] = &[
    ("", "listen", Text),
    ("", "store", Text),
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
    ("limits", "header_seconds", Number),
    ("limits", "idle_seconds", Number),
    ("limits", "drain_seconds", Number),
    ("limits", "body_max_bytes", Number),
    ("limits", "threads", Number),
    ("blocklist", "builtin", Switch),
    ("blocklist", "file", Text),
    ("aliases", "length_max", Number),
];

impl VariableKind {
    fn parse(&self, text: &str) -> anyhow::Result<toml::Value> {
        Ok(match self {
            Text => toml::Value::String(text.to_owned()),
            Number => match text.parse::<i64>() {
                Ok(number) => toml::Value::Integer(number),
                Err(_) => toml::Value::Float(text.parse().context("not a number")?),
            },
            Switch => match text {
                "1" | "true" | "yes" | "on" => toml::Value::Boolean(true),
                "0" | "false" | "no" | "off" => toml::Value::Boolean(false),
                _ => bail!("neither true nor false"),
            },
        })
    }
}

/// The setting that an unknown one was probably meant to be. The parser's message names the
/// unknown field first and then every field it knows, each in backticks.
fn likely_meant(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("unknown field `")?;
    let (unknown, rest) = rest.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2);
    let closeness = |name: &str| strsim::jaro_winkler(unknown, name);
    known.filter(|name| closeness(name) > 0.7).max_by(|a, b| closeness(a).total_cmp(&closeness(b)))
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: "127.0.0.1:8080".to_owned(),
            store: None,
            data_dir: None,
            default_space: "default".to_owned(),
            secret_file: None,
            worker: None,
            require_existing: false,
            new_store: false,
            allow_unsafe_store: false,
            log: LogSettings::default(),
            limits: LimitSettings::default(),
            blocklist: BlocklistSettings::default(),
            aliases: AliasSettings::default(),
            spaces: BTreeMap::new(),
        }
    }
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings { level: "info".to_owned(), format: LogFormat::Text }
    }
}

impl Default for LimitSettings {
    fn default() -> LimitSettings {
        LimitSettings {
            count_max: 100_000,
            waiting_max: 1_024,
            wait_seconds: 2.0,
            heartbeat_seconds: 5.0,
            connections_max: 10_000,
            header_seconds: 30.0,
            idle_seconds: 75.0,
            drain_seconds: 10.0,
            body_max_bytes: 65_536,
            threads: 0,
        }
    }
}

impl Default for BlocklistSettings {
    fn default() -> BlocklistSettings {
        BlocklistSettings { builtin: true, file: None }
    }
}

impl Default for AliasSettings {
    fn default() -> AliasSettings {
        AliasSettings { length_max: 16, reserved: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotated_file_says_what_the_defaults_are() {
        assert_eq!(Settings::parse(DEFAULT_FILE).unwrap(), Settings::default());
        let uncommented: String = DEFAULT_FILE
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let all = Settings::parse(&uncommented).unwrap();
        let links = &all.spaces["links"];
        assert_eq!(links.definition(), crate::space::Definition::default());
        let nothing = crate::space::Tuning {
            lease_size_min: 0,
            lease_size_max: 0,
            horizon_seconds: 0,
            blocklist: false,
            audit: crate::space::Audit::Key,
            low_water: 9,
            ttl_seconds: 9,
            reserve_seconds: 9,
            window_seconds: 9,
            importing: None,
            exported_for: None,
        };
        assert_eq!(links.tuning_over(&nothing), crate::space::Tuning::default());
    }

    #[test]
    fn an_unknown_setting_is_named_with_the_likely_meant_one() {
        let error = Settings::parse("lisen = \"x\"").unwrap_err().to_string();
        assert!(error.contains("`lisen`") && error.contains("did you mean `listen`?"), "{error}");
        let error = Settings::parse("[spaces.a]\nlenght = 7").unwrap_err().to_string();
        assert!(error.contains("did you mean `length`?"), "{error}");
    }

    #[test]
    fn flags_win_over_variables_and_variables_over_the_file() {
        let mut settings = Settings::parse("listen = \"a:1\"\nstore = \"sqlite:file\"").unwrap();
        let variables = |name: &str| match name {
            "KEYMILL_STORE" => Some("sqlite:env".to_owned()),
            "KEYMILL_LIMITS_COUNT_MAX" => Some("7".to_owned()),
            "KEYMILL_LIMITS_WAIT_SECONDS" => Some("3".to_owned()),
            "KEYMILL_REQUIRE_EXISTING" => Some("true".to_owned()),
            _ => None,
        };
        settings.overlay_environment(variables).unwrap();
        settings.overlay_flags(&Flags { listen: Some("b:2".to_owned()), ..Flags::default() });
        assert_eq!(settings.listen, "b:2");
        assert_eq!(settings.store.as_deref(), Some("sqlite:env"));
        assert_eq!((settings.limits.count_max, settings.limits.wait_seconds), (7, 3.0));
        assert!(settings.require_existing);
    }

    #[test]
    fn a_variable_that_is_no_number_is_named() {
        let variables = |name: &str| (name == "KEYMILL_LIMITS_THREADS").then(|| "many".to_owned());
        let error = Settings::default().overlay_environment(variables).unwrap_err();
        assert!(format!("{error:#}").contains("KEYMILL_LIMITS_THREADS is `many`"), "{error:#}");
    }
}
