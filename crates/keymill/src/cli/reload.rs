//! Reloading the settings of a running server, at SIGHUP.
//!
//! Settings that can be reloaded take effect at once; the others are named in the log. Invalid settings
//! change nothing: a reload never ends the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use keymill_engine::operations::{Service, TokenRecord};
use tokio::signal::unix::Signal;

use super::log::Log;
use super::notify::{self, Phase};
use crate::access::Access;
use crate::config::{ADMIN, Config, Flags, Settings};
use crate::front::http::Http;
use crate::server::Tls;

/// The settings that a reload applies; all others need a restart. `spaces` stands for all below it.
const RELOADED: [&str; 15] = [
    "allowed_hosts",
    "allowed_origins",
    "anonymous_allow",
    "limits.anonymous_requests_per_second",
    "tokens",
    "tokens_file",
    "tokens_max_age_seconds",
    "trusted_proxies",
    "log.level",
    "limits.count_max",
    "limits.connections_per_address_max",
    "limits.body_max_bytes",
    "blocklist",
    "aliases",
    "spaces",
];

/// Those of them that say who may do what. They are applied together, or not at all.
const ACCESS: [&str; 5] = [
    "anonymous_allow",
    "limits.anonymous_requests_per_second",
    "tokens",
    "tokens_file",
    "tokens_max_age_seconds",
];

/// What a reload changes.
pub(super) struct Reload {
    /// They name the settings file that was read at the start, so that it is an error if it is gone.
    pub(super) flags: Flags,
    /// The settings at the start.
    pub(super) started: Applied,
    pub(super) log: Log,
    pub(super) http: Http,
    pub(super) service: Service,
    pub(super) access: Arc<Access>,
    /// The certificate; its files are read again, but which files they are does not change.
    pub(super) tls: Option<Arc<Tls>>,
}

impl Reload {
    /// Reloads at every signal, for as long as the process lives.
    pub(super) async fn run(self, mut hangup: Signal) {
        let mut applied = self.started.clone();
        while hangup.recv().await.is_some() {
            notify::tell(Phase::Reloading);
            // Whatever becomes of the settings.
            let is_new_certificate = match &self.tls {
                Some(tls) => tls.reload(&self.http).await,
                None => false,
            };
            match Config::load(&self.flags) {
                Err(error) => {
                    tracing::error!(
                        "the settings were not reloaded; the old ones stay in force: {error:#}"
                    );
                }
                Ok(config) => {
                    let wanted = Applied::of(&config);
                    let is_access_new = self.apply(config).await;
                    let mut changed = applied.changes(&wanted);
                    if !is_access_new {
                        // They count as changed when they are applied.
                        changed.retain(|name| !is_one_of(&ACCESS, name) && !is_token(name));
                    }
                    changed.extend(is_new_certificate.then(|| "TLS certificate".to_owned()));
                    self.report(&changed, &wanted.settings);
                    applied =
                        if is_access_new { wanted } else { applied.without_access_of(wanted) };
                }
            }
            notify::tell(Phase::Ready);
        }
    }

    /// Applies what can be applied; whether that includes who may do what.
    async fn apply(&self, config: Config) -> bool {
        if let Err(error) = self.log.set_level(&config.log_level) {
            tracing::error!("log.level was not reloaded: {error:#}");
        }
        self.http.set_address_rules(config.address_rules);
        self.http.set_body_max(config.body_max);
        self.http.set_browser_rules(config.browser_rules);
        let tokens = &config.access.tokens;
        let twice = tokens.iter().find(|token| self.access.is_on_record(&token.name));
        let is_access_new = twice.is_none();
        match twice {
            None => self.http.set_access(config.access),
            Some(twice) => tracing::error!(
                "the tokens were not reloaded, nor `anonymous_allow` and the limits of callers: the token `{}` is \
                 in the settings and in the store; rename the one in the settings, or revoke the other",
                twice.name
            ),
        }
        self.service.reload(config.blocklist, config.alias_rules, config.limits.count_max);
        for (name, wanted) in &config.spaces {
            if let Err(error) = self.service.ensure_space(name, wanted).await {
                tracing::error!(
                    space = name,
                    "the settings of the keyspace were not reloaded: {error}"
                );
            }
        }
        is_access_new
    }

    /// Logs what was changed, and what needs a restart. Values are not named: some are secret.
    fn report(&self, changed: &[String], wanted: &Settings) {
        if changed.is_empty() {
            tracing::info!("the settings were reloaded; nothing has changed");
        } else {
            tracing::info!(changed = changed.join(", "), "the settings were reloaded");
        }
        for name in changes(&self.started.settings, wanted).iter().filter(|name| !is_reloaded(name))
        {
            tracing::warn!("needs a restart: {name}");
        }
    }
}

/// What the log calls the token that a variable, a file or a credential holds, and any other.
const ADMIN_TOKEN: &str = "admin token";
const TOKEN: &str = "token ";

/// Whether the change of a name is that of a token.
fn is_token(name: &str) -> bool {
    name.starts_with(ADMIN_TOKEN) || name.starts_with(TOKEN)
}

/// The settings in force.
#[derive(Debug, Clone)]
pub(super) struct Applied {
    settings: Settings,
    /// The tokens among them: also those in files and variables, which the settings only name.
    tokens: Vec<TokenRecord>,
    has_admin_token: bool,
}

impl Applied {
    pub(super) fn of(config: &Config) -> Applied {
        Applied {
            settings: config.shown.clone(),
            tokens: config.access.tokens.clone(),
            has_admin_token: config.has_admin_token(),
        }
    }

    /// What a reload changes, by name.
    fn changes(&self, wanted: &Applied) -> Vec<String> {
        let mut names = changes(&self.settings, &wanted.settings);
        // Tokens are told as a whole, wherever they are.
        names.retain(|name| is_reloaded(name) && !name.starts_with("tokens."));
        let find = |tokens: &[TokenRecord], name: &str| {
            tokens.iter().find(|token| token.name == name).cloned()
        };
        let mut tokens: Vec<&str> =
            self.tokens.iter().chain(&wanted.tokens).map(|token| token.name.as_str()).collect();
        tokens.sort_unstable();
        tokens.dedup();
        for token in tokens {
            let what = match (find(&self.tokens, token), find(&wanted.tokens, token)) {
                (before, after) if before == after => continue,
                (None, _) => "added",
                (_, None) => "removed",
                _ => "changed",
            };
            let is_admin = self.has_admin_token || wanted.has_admin_token;
            names.push(match is_admin && token == ADMIN {
                true => format!("{ADMIN_TOKEN} {what}"),
                false => format!("{TOKEN}{token} {what}"),
            });
        }
        names
    }

    /// All that is wanted, but for who may do what.
    fn without_access_of(self, wanted: Applied) -> Applied {
        let mut settings = wanted.settings;
        settings.anonymous_allow = self.settings.anonymous_allow;
        settings.limits.anonymous_requests_per_second =
            self.settings.limits.anonymous_requests_per_second;
        settings.tokens = self.settings.tokens;
        settings.tokens_file = self.settings.tokens_file;
        settings.tokens_max_age_seconds = self.settings.tokens_max_age_seconds;
        Applied { settings, ..self }
    }
}

fn is_reloaded(setting: &str) -> bool {
    is_one_of(&RELOADED, setting)
}

/// Whether a setting is one of these, or below one of them.
fn is_one_of(parts: &[&str], setting: &str) -> bool {
    let is_below = |part: &str| setting.strip_prefix(part).is_some_and(|it| it.starts_with('.'));
    parts.iter().any(|part| setting == *part || is_below(part))
}

/// The settings that differ, by their full names.
fn changes(old: &Settings, new: &Settings) -> Vec<String> {
    let (old, new) = (flat(old), flat(new));
    let mut names: Vec<String> =
        old.iter().filter(|(name, value)| new.get(*name) != Some(*value)).map(name_of).collect();
    names.extend(new.iter().filter(|(name, _)| !old.contains_key(*name)).map(name_of));
    names.sort_unstable();
    names
}

fn name_of((name, _): (&String, &toml::Value)) -> String {
    name.clone()
}

fn flat(settings: &Settings) -> BTreeMap<String, toml::Value> {
    fn add(name: &str, value: toml::Value, all: &mut BTreeMap<String, toml::Value>) {
        match value {
            toml::Value::Table(table) => {
                for (part, value) in table {
                    let name = if name.is_empty() { part } else { format!("{name}.{part}") };
                    add(&name, value, all);
                }
            }
            value => {
                all.insert(name.to_owned(), value);
            }
        }
    }
    let mut all = BTreeMap::new();
    let table = toml::Value::try_from(settings).expect("settings are a table");
    add("", table, &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_that_a_reload_applies_exists() {
        let mut settings = Settings::default();
        settings.spaces.insert(
            "links".to_owned(),
            keymill_engine::space::SpaceSpec { length: Some(7), ..Default::default() },
        );
        settings.tokens_file = Some("tokens.toml".into());
        let token = crate::config::TokenSettings {
            sha256: String::new(),
            allow: Vec::new(),
            expires_at: None,
            rate: None,
            quota: None,
            certificate: None,
        };
        settings.tokens.insert("shop".to_owned(), token);
        let all = flat(&settings);
        for part in RELOADED {
            let is_it = |name: &&String| *name == part || name.starts_with(&format!("{part}."));
            assert!(all.keys().any(|name| is_it(&name)), "{part} is not in {all:?}");
        }
    }

    #[test]
    fn changes_are_told_by_name_and_told_apart() {
        let old = Settings::default();
        let text = "listen = \"a:1\"\ntrusted_proxies = [\"::1\"]\n[limits]\nthreads = 7\ncount_max = 1\n\
            [spaces.links]\nlength = 8\n[blocklist]\nfile = \"x\"";
        let names = changes(&old, &Settings::parse(text).unwrap());
        let expected = [
            "blocklist.file",
            "limits.count_max",
            "limits.threads",
            "listen",
            "spaces.links.length",
            "trusted_proxies",
        ];
        assert_eq!(names, expected);
        let restart: Vec<&String> = names.iter().filter(|name| !is_reloaded(name)).collect();
        assert_eq!(restart, ["limits.threads", "listen"]);
        assert!(changes(&old, &old).is_empty());
    }

    #[test]
    fn tokens_that_the_settings_only_name_are_told_too() {
        let applied = |text: &str, tokens: &[(&str, u32)], has_admin_token| Applied {
            settings: Settings::parse(text).unwrap(),
            tokens: tokens.iter().map(|(name, rate)| record(name, *rate)).collect(),
            has_admin_token,
        };
        let none = applied("", &[], false);
        let all = applied("tokens_file = \"x\"", &[("admin", 1), ("mall", 1)], true);
        assert_eq!(none.changes(&all), ["tokens_file", "admin token added", "token mall added"]);
        assert_eq!(
            all.changes(&none),
            ["tokens_file", "admin token removed", "token mall removed"]
        );
        let other = applied("tokens_file = \"x\"", &[("admin", 2), ("mall", 1)], true);
        assert_eq!(all.changes(&other), ["admin token changed"]);
        // One of the settings file is told once.
        let section = "[tokens.shop]\nsha256 = \"x\"\nallow = []";
        let names = none.changes(&applied(section, &[("shop", 1)], false));
        assert_eq!(names, ["token shop added"]);
        assert!(all.changes(&all).is_empty());
    }

    #[test]
    fn what_was_not_applied_counts_as_changed_the_next_time() {
        let applied = |text: &str| Applied {
            settings: Settings::parse(text).unwrap(),
            tokens: Vec::new(),
            has_admin_token: false,
        };
        let wanted = "anonymous_allow = [\"take:a\"]\ntokens_file = \"x\"\ntokens_max_age_seconds = 9.0\n\
            [limits]\nanonymous_requests_per_second = 9\ncount_max = 9";
        let (before, wanted) = (applied(""), applied(wanted));
        let kept = before.clone().without_access_of(wanted.clone());
        assert_eq!(before.changes(&kept), ["limits.count_max"]);
        let rest = kept.changes(&wanted);
        assert_eq!(rest.len(), 4, "{rest:?}");
        assert!(rest.iter().all(|name| is_one_of(&ACCESS, name)), "{rest:?}");
    }

    fn record(name: &str, rate: u32) -> TokenRecord {
        TokenRecord {
            name: name.to_owned(),
            secrets: Vec::new(),
            allow: Vec::new(),
            expires_at: None,
            rate: Some(rate),
            quota: None,
            certificate: None,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            created_by: "settings".to_owned(),
        }
    }
}
