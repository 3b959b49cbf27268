//! Settings as they were typed: in the file, in the environment, as flags.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use keymill_engine::space::SpaceSpec;
use serde::{Deserialize, Serialize};

use super::variables::{VARIABLES, path, variable_name};
use super::{Flags, listen, mistakes};
use crate::front::http::UNSENT_MAX;
use crate::metrics::SPACES_MAX;

/// The annotated file of all defaults.
pub const DEFAULT_FILE: &str = include_str!("default.toml");

/// What the file, the environment and the flags say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "default.toml says what each of them is")]
pub struct Settings {
    #[serde(with = "listen")]
    pub listen: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_listen: Option<String>,
    #[serde(with = "listen", skip_serializing_if = "Vec::is_empty")]
    pub redis_listen: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_certificate: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_client_ca: Option<PathBuf>,
    pub trusted_proxies: Vec<String>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub anonymous_allow: Vec<String>,
    pub insecure_no_auth: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_file: Option<PathBuf>,
    pub tokens_max_age_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_file: Option<PathBuf>,
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
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<String, TokenSettings>,
}

/// A token of the settings: its hash, and what it may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "default.toml says what each of them is")]
pub struct TokenSettings {
    pub sha256: String,
    pub allow: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<jiff::Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
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
    pub connections_per_address_max: u32,
    pub anonymous_requests_per_second: u32,
    pub first_byte_seconds: f64,
    pub header_seconds: f64,
    pub idle_seconds: f64,
    pub redis_idle_seconds: f64,
    pub drain_delay_seconds: f64,
    pub drain_seconds: f64,
    pub body_max_bytes: usize,
    pub unsent_max_bytes: usize,
    pub metrics_spaces_max: usize,
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
    /// Reads a settings file. An error names the line, and for an unknown setting the one that was probably
    /// meant.
    pub fn parse(text: &str) -> anyhow::Result<Settings> {
        toml::from_str(text).map_err(|error| anyhow!(mistakes::in_file(text, &error)))
    }

    /// Applies `KEYMILL_*` variables over the file. Returns the settings that they set, each with its variable.
    pub fn overlay_environment(
        &mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Vec<(String, String)>> {
        let mut overlaid = Vec::new();
        for (section, name, kind) in VARIABLES {
            let variable_name = variable_name(section, name);
            let Some(text) = variable(&variable_name) else {
                continue;
            };
            let mut table = toml::Table::try_from(&*self).context("settings")?;
            let place = match *section {
                "" => &mut table,
                section => table[section].as_table_mut().expect("sections are always written"),
            };
            let value = kind
                .parse(&text, place.get(*name))
                .map_err(|wanted| anyhow!("{variable_name} must be {wanted}, not `{text}`"))?;
            place.insert((*name).to_owned(), value);
            // One at a time, so that an error can name the variable.
            *self = table.try_into().map_err(|error: toml::de::Error| {
                anyhow!(mistakes::in_variable(&variable_name, &text, error.message()))
            })?;
            overlaid.push((path(section, name), variable_name));
        }
        Ok(overlaid)
    }

    /// Applies flags over everything else.
    pub fn overlay_flags(&mut self, flags: &Flags) {
        if !flags.listen.is_empty() {
            self.listen.clone_from(&flags.listen);
        }
        if let Some(port) = flags.port {
            self.set_port(port);
        }
        self.admin_listen = flags.admin_listen.clone().or(self.admin_listen.take());
        if !flags.redis_listen.is_empty() {
            self.redis_listen.clone_from(&flags.redis_listen);
        }
        self.tls_certificate = flags.tls_certificate.clone().or(self.tls_certificate.take());
        self.tls_key = flags.tls_key.clone().or(self.tls_key.take());
        self.tls_client_ca = flags.tls_client_ca.clone().or(self.tls_client_ca.take());
        self.store = flags.store.clone().or(self.store.take());
        self.data_dir = flags.data_dir.clone().or(self.data_dir.take());
        self.require_existing |= flags.require_existing;
        self.new_store |= flags.new_store;
        self.allow_unsafe_store |= flags.allow_unsafe_store;
        self.insecure_no_auth |= flags.insecure_no_auth;
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: vec!["127.0.0.1:8080".to_owned()],
            admin_listen: None,
            redis_listen: Vec::new(),
            tls_certificate: None,
            tls_key: None,
            tls_client_ca: None,
            trusted_proxies: Vec::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            anonymous_allow: Vec::new(),
            insecure_no_auth: false,
            tokens_file: None,
            tokens_max_age_seconds: 3_600.0,
            store: None,
            store_file: None,
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
            tokens: BTreeMap::new(),
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
            connections_per_address_max: 1_024,
            anonymous_requests_per_second: 0,
            first_byte_seconds: 10.0,
            header_seconds: 30.0,
            idle_seconds: 75.0,
            redis_idle_seconds: 0.0,
            drain_delay_seconds: 0.0,
            drain_seconds: 10.0,
            body_max_bytes: 65_536,
            unsent_max_bytes: UNSENT_MAX,
            metrics_spaces_max: SPACES_MAX,
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
        assert_eq!(links.definition(), keymill_engine::space::Definition::default());
        let nothing = keymill_engine::space::Tuning {
            lease_size_min: 0,
            lease_size_max: 0,
            horizon_seconds: 0,
            blocklist: false,
            audit: keymill_engine::space::Audit::Key,
            low_water: 9,
            ttl_seconds: 9,
            reserve_seconds: 9,
            window_seconds: 9,
            importing: None,
            exported_for: None,
        };
        assert_eq!(links.tuning_over(&nothing), keymill_engine::space::Tuning::default());
    }

    #[test]
    fn flags_win_over_variables_and_variables_over_the_file() {
        let mut settings = Settings::parse("listen = \"a:1\"\nstore = \"sqlite:file\"").unwrap();
        let variables = |name: &str| match name {
            "KEYMILL_STORE" => Some("sqlite:env".to_owned()),
            "KEYMILL_LIMITS_COUNT_MAX" => Some("7".to_owned()),
            "KEYMILL_LIMITS_WAIT_SECONDS" => Some("3".to_owned()),
            "KEYMILL_REQUIRE_EXISTING" => Some("true".to_owned()),
            "KEYMILL_TRUSTED_PROXIES" => Some("10.0.0.0/8, ::1".to_owned()),
            _ => None,
        };
        settings.overlay_environment(variables).unwrap();
        settings.overlay_flags(&Flags { listen: vec!["b:2".to_owned()], ..Flags::default() });
        assert_eq!(settings.listen, ["b:2"]);
        assert_eq!(settings.store.as_deref(), Some("sqlite:env"));
        assert_eq!((settings.limits.count_max, settings.limits.wait_seconds), (7, 3.0));
        assert!(settings.require_existing);
        assert_eq!(settings.trusted_proxies, ["10.0.0.0/8", "::1"]);
    }

    #[test]
    fn a_variable_with_a_wrong_value_is_named_in_plain_words() {
        for (name, value, says) in [
            ("LIMITS_COUNT_MAX", "abc", "must be a whole number, not `abc`"),
            ("LIMITS_COUNT_MAX", "-3", "must be a whole number, not `-3`"),
            ("LIMITS_THREADS", "1.5", "must be a whole number, not `1.5`"),
            ("WORKER", "x", "must be a whole number, not `x`"),
            ("LIMITS_COUNT_MAX", "5000000000", "is too large: `5000000000`"),
            ("LIMITS_WAIT_SECONDS", "soon", "must be a number, not `soon`"),
            ("NEW_STORE", "maybe", "must be true or false, not `maybe`"),
            ("LOG_FORMAT", "loud", "must be `text` or `json`, not `loud`"),
        ] {
            let name = format!("KEYMILL_{name}");
            let variables = |asked: &str| (asked == name).then(|| value.to_owned());
            let error = Settings::default().overlay_environment(variables).unwrap_err();
            assert_eq!(format!("{error:#}"), format!("{name} {says}"));
        }
    }

    #[test]
    fn a_list_is_separated_by_commas() {
        let mut settings = Settings::default();
        let variables = |name: &str| {
            ["KEYMILL_ALIASES_RESERVED", "KEYMILL_LISTEN"]
                .contains(&name)
                .then(|| "sale, shop,".to_owned())
        };
        settings.overlay_environment(variables).unwrap();
        assert_eq!(settings.aliases.reserved, ["sale", "shop"]);
        assert_eq!(settings.listen, ["sale", "shop"]);
    }
}
