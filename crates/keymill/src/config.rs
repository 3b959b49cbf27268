//! The configuration: from what was typed to what cannot be invalid.
//!
//! `settings` holds what the file, the environment and the flags say, every part optional.
//! [`Config`] is the result, checked once; nothing after it has to ask again.

mod settings;

use std::collections::BTreeMap;
use std::env::VarError;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use keymill_core::Blocklist;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

pub use settings::{DEFAULT_FILE, LogFormat, Settings};

use crate::clock::Clock;
use crate::secret::Master;
use crate::server::ServerLimits;
use crate::service::{AliasRules, Limits, Setup};
use crate::space::{SpaceSpec, Tuning, check_name};
use crate::store::Store;

/// One answer is made in memory before it is sent.
/// The longest that an alias may be set to: keys of 255 bytes fit every store.
const ALIAS_LENGTH_MAX: usize = 200;
const COUNT_MAX: u32 = 10_000_000;
const CONNECTIONS_MAX: u32 = 1_000_000;

/// Everything a command needs to know, checked.
#[derive(Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The store's URL.
    pub store: String,
    /// The folder for the default database and for the floors.
    pub data_dir: PathBuf,
    /// The space that is used when none is named.
    pub default_space: String,
    /// The secret that the user set.
    pub secret: Option<Master>,
    /// The worker number of this instance.
    pub worker: Option<u32>,
    /// Refuse to create anything.
    pub require_existing: bool,
    /// Create an empty store although the secret is given.
    pub new_store: bool,
    /// Serve from an unsafe store.
    pub allow_unsafe_store: bool,
    /// What to log.
    pub log_level: String,
    /// How to log it.
    pub log_format: LogFormat,
    /// Limits of the service.
    pub limits: Limits,
    /// Limits of the server.
    pub server: ServerLimits,
    /// The largest body of a request.
    pub body_max: usize,
    /// Keys not to hand out.
    pub blocklist: Blocklist,
    /// What aliases may look like.
    pub alias_rules: AliasRules,
    /// Spaces to make at start.
    pub spaces: BTreeMap<String, SpaceSpec>,
    /// Where all this comes from, for `config show`.
    pub shown: Settings,
}

/// Settings given as flags.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Flags {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--store`
    pub store: Option<String>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
    /// `--new-store`
    pub new_store: bool,
    /// `--listen`
    pub listen: Option<String>,
    /// `--require-existing`
    pub require_existing: bool,
    /// `--allow-unsafe-store`
    pub allow_unsafe_store: bool,
}

impl Config {
    /// Reads the file, the environment and the flags, and checks the whole.
    pub fn load(flags: &Flags) -> anyhow::Result<Config> {
        let mut settings = match config_file(flags)? {
            Some(path) => {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read the settings in {}", path.display()))?;
                Settings::parse(&text).with_context(|| path.display().to_string())?
            }
            None => Settings::default(),
        };
        settings.overlay_environment(|name| std::env::var(name).ok())?;
        settings.overlay_flags(flags);
        Config::resolve(settings)
    }

    fn resolve(settings: Settings) -> anyhow::Result<Config> {
        let filled = settings;
        let data_dir = data_dir(filled.data_dir.as_deref())?;
        let limits = &filled.limits;
        let store = match &filled.store {
            Some(url) => url.clone(),
            None => format!("sqlite:{}", data_dir.join("keymill.db").display()),
        };
        crate::store::check_url(&store).context("store")?;
        let listen = parse_listen(&filled.listen)?;
        check_log_level(&filled.log.level)?;
        let default_space = filled.default_space.clone();
        check_name(&default_space).context("default_space")?;
        let mut spaces = BTreeMap::new();
        for (name, space) in &filled.spaces {
            check_name(name).with_context(|| format!("[spaces.{name}]"))?;
            let in_space = || format!("[spaces.{name}]");
            space.definition().check().with_context(in_space)?;
            space.tuning_over(&Tuning::default()).check().with_context(in_space)?;
            spaces.insert(name.clone(), space.clone());
        }
        let mut shown = filled.clone();
        shown.store = Some(redact(&store));
        shown.data_dir = Some(data_dir.clone());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Config {
            listen,
            data_dir,
            default_space,
            secret: secret(filled.secret_file.as_deref())?,
            worker: filled.worker,
            require_existing: filled.require_existing,
            new_store: filled.new_store,
            allow_unsafe_store: filled.allow_unsafe_store,
            log_level: filled.log.level.clone(),
            log_format: filled.log.format,
            limits: Limits {
                count_max: within("limits.count_max", limits.count_max, COUNT_MAX)?,
                waiting_max: limits.waiting_max,
                wait_max: seconds("limits.wait_seconds", limits.wait_seconds)?,
                heartbeat_every: seconds("limits.heartbeat_seconds", limits.heartbeat_seconds)?,
            },
            server: ServerLimits {
                connections_max: within(
                    "limits.connections_max",
                    limits.connections_max,
                    CONNECTIONS_MAX,
                )? as usize,
                header_time_max: seconds("limits.header_seconds", limits.header_seconds)?,
                idle_time_max: seconds("limits.idle_seconds", limits.idle_seconds)?,
                drain_time_max: seconds("limits.drain_seconds", limits.drain_seconds)?,
                threads: if limits.threads == 0 { cores } else { limits.threads },
            },
            body_max: limits.body_max_bytes,
            blocklist: blocklist(filled.blocklist.builtin, filled.blocklist.file.as_deref())?,
            alias_rules: AliasRules {
                length_max: filled.aliases.length_max.clamp(1, ALIAS_LENGTH_MAX),
                reserved: filled.aliases.reserved.clone(),
            },
            spaces,
            store,
            shown,
        })
    }

    /// What a service on this store is made of.
    pub fn setup(&self, store: Arc<dyn Store>, unsafe_store: Option<String>) -> Setup {
        Setup {
            store,
            data_dir: self.data_dir.clone(),
            secret: self.secret.clone(),
            blocklist: self.blocklist.clone(),
            alias_rules: self.alias_rules.clone(),
            limits: self.limits,
            worker: self.worker,
            clock: Clock::default(),
            require_existing: self.require_existing,
            unsafe_store,
        }
    }

    /// The space of this name as the settings want it; the default space is always wanted.
    pub fn wanted_space(&self, name: &str) -> Option<SpaceSpec> {
        let configured = self.spaces.get(name).cloned();
        configured.or_else(|| (name == self.default_space).then(SpaceSpec::default))
    }
}

/// The file to read: the one named, else `keymill.toml` here, if there is one.
fn config_file(flags: &Flags) -> anyhow::Result<Option<PathBuf>> {
    let named = flags.config.clone().or_else(|| std::env::var_os("KEYMILL_CONFIG").map(Into::into));
    if let Some(path) = named {
        return Ok(Some(path));
    }
    let here = PathBuf::from("keymill.toml");
    Ok(here.is_file().then_some(here))
}

fn data_dir(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let named = |variable: &str| std::env::var_os(variable).filter(|it| !it.is_empty());
    let path = if let Some(path) = given {
        path.to_owned()
    } else if let Some(path) = named("STATE_DIRECTORY") {
        // systemd may name several, separated by colons; the first is ours.
        let path = path.to_string_lossy();
        path.split(':').next().unwrap_or_default().into()
    } else {
        platform_data_dir(named("XDG_DATA_HOME").map(PathBuf::from), std::env::home_dir())
            .context("this user has no home folder for data; set --data-dir")?
    };
    Ok(std::path::absolute(path)?)
}

/// Where this platform keeps a program's data. A relative `XDG_DATA_HOME` does not count, by XDG's
/// own rule.
fn platform_data_dir(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let below_home =
        if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
    let home = home.filter(|home| !home.as_os_str().is_empty());
    let base = xdg.filter(|path| path.is_absolute()).or_else(|| Some(home?.join(below_home)))?;
    Some(base.join("keymill"))
}

fn parse_listen(text: &str) -> anyhow::Result<SocketAddr> {
    use std::net::ToSocketAddrs;
    let with_host = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let mut found = with_host.to_socket_addrs().with_context(|| {
        format!("cannot listen on `{text}`: write ADDRESS:PORT, such as 127.0.0.1:8080")
    })?;
    found.next().with_context(|| format!("`{text}` names no address"))
}

/// The secret, from the environment or the file named.
fn secret(file: Option<&Path>) -> anyhow::Result<Option<Master>> {
    let given = match (std::env::var("KEYMILL_SECRET"), file) {
        (Err(VarError::NotUnicode(_)), _) => bail!("KEYMILL_SECRET is not UTF-8 text"),
        (Ok(text), _) => Some((zeroize::Zeroizing::new(text), "KEYMILL_SECRET".to_owned())),
        (Err(_), Some(path)) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the secret in {}", path.display()))?;
            Some((zeroize::Zeroizing::new(text), path.display().to_string()))
        }
        (Err(_), None) => None,
    };
    given.map(|(text, source)| Master::given(&text).context(source)).transpose()
}

fn blocklist(builtin: bool, file: Option<&Path>) -> anyhow::Result<Blocklist> {
    let text = match file {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the blocklist {}", path.display()))?,
    };
    let words =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let made = match (builtin, file) {
        (true, None) => return Ok(Blocklist::builtin()),
        (false, None) => return Ok(Blocklist::none()),
        (true, Some(_)) => Blocklist::with_builtin(words),
        (false, Some(_)) => Blocklist::new(words),
    };
    made.with_context(|| format!("the blocklist {}", file.unwrap_or(Path::new("")).display()))
}

/// Refuses a level that the log's filter would take for the name of a module.
fn check_log_level(level: &str) -> anyhow::Result<()> {
    let known = ["error", "warn", "info", "debug", "trace", "off"];
    let is_level = known.contains(&level.to_ascii_lowercase().as_str());
    let is_filter = level.contains(['=', ',']) && EnvFilter::try_new(level).is_ok();
    if !is_level && !is_filter {
        bail!(
            "log.level is `{level}`: use {}, or a filter such as keymill=debug,warn",
            known.join(", ")
        );
    }
    Ok(())
}

fn seconds(setting: &str, seconds: f64) -> anyhow::Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time >= Duration::from_millis(1) && time <= Duration::from_secs(86_400) => {
            Ok(time)
        }
        _ => bail!("{setting} is {seconds}: it must be from 0.001 to 86400"),
    }
}

fn within(setting: &str, value: u32, max: u32) -> anyhow::Result<u32> {
    if !(1..=max).contains(&value) {
        bail!("{setting} is {value}: it must be from 1 to {max}");
    }
    Ok(value)
}

/// A store's URL without its password.
fn redact(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((login, place))) => {
            let user = login.split_once("://").map_or("", |(_, login)| login);
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}://{user}:***@{place}")
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(redact("postgres://me:secret@host/db"), "postgres://me:***@host/db");
        assert_eq!(redact("sqlite:/var/lib/k@m.db"), "sqlite:/var/lib/k@m.db");
    }

    #[test]
    fn data_lives_where_the_platform_keeps_it() {
        let data_dir = |xdg: Option<&str>, home: Option<&str>| {
            platform_data_dir(xdg.map(PathBuf::from), home.map(PathBuf::from))
        };
        assert_eq!(data_dir(Some("/x"), Some("/h")), Some("/x/keymill".into()));
        assert_eq!(data_dir(None, None), None);
        assert_eq!(data_dir(None, Some("")), None);
        if cfg!(target_os = "linux") {
            let at_home = Some("/h/.local/share/keymill".into());
            assert_eq!(data_dir(None, Some("/h")), at_home);
            assert_eq!(data_dir(Some("relative"), Some("/h")), at_home);
        }
    }

    #[test]
    fn a_port_alone_listens_everywhere() {
        assert_eq!(parse_listen(":9000").unwrap().to_string(), "0.0.0.0:9000");
        assert!(parse_listen("nonsense").is_err());
    }
}
