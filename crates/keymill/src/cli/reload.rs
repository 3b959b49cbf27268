//! Reloading the settings of a running server, at SIGHUP.
//!
//! Settings that can be reloaded take effect at once; the others are named in the log. Invalid settings
//! change nothing: a reload never ends the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use keymill_engine::operations::Service;
use tokio::signal::unix::Signal;

use super::log::Log;
use crate::access::Access;
use crate::config::{Config, Flags, Settings};
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

/// What a reload changes.
pub(super) struct Reload {
    /// They name the settings file that was read at the start, so that it is an error if it is gone.
    pub(super) flags: Flags,
    /// The settings at the start.
    pub(super) started: Settings,
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
            // Whatever becomes of the settings.
            if let Some(tls) = &self.tls {
                tls.reload(&self.http).await;
            }
            match Config::load(&self.flags) {
                Err(error) => {
                    tracing::error!(
                        "the settings were not reloaded; the old ones stay in force: {error:#}"
                    );
                }
                Ok(config) => {
                    let wanted = config.shown.clone();
                    self.apply(config).await;
                    self.report(&applied, &wanted);
                    applied = wanted;
                }
            }
        }
    }

    async fn apply(&self, config: Config) {
        if let Err(error) = self.log.set_level(&config.log_level) {
            tracing::error!("log.level was not reloaded: {error:#}");
        }
        self.http.set_address_rules(config.address_rules);
        self.http.set_body_max(config.body_max);
        self.http.set_browser_rules(config.browser_rules);
        match config.access.tokens.iter().find(|token| self.access.is_on_record(&token.name)) {
            None => self.http.set_access(config.access),
            Some(twice) => tracing::error!(
                "the tokens were not reloaded: `{}` is in the settings and in the store",
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
    }

    /// Logs what was changed, and what needs a restart.
    fn report(&self, applied: &Settings, wanted: &Settings) {
        let changed = changes(applied, wanted).into_iter().filter(|name| is_reloaded(name));
        let changed = changed.collect::<Vec<_>>().join(", ");
        tracing::info!(changed, "the settings were reloaded");
        for name in changes(&self.started, wanted).iter().filter(|name| !is_reloaded(name)) {
            tracing::warn!("needs a restart: {name}");
        }
    }
}

fn is_reloaded(setting: &str) -> bool {
    let is_below = |part: &str| setting.strip_prefix(part).is_some_and(|it| it.starts_with('.'));
    RELOADED.iter().any(|part| setting == *part || is_below(part))
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
}
