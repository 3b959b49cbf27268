//! The configuration: from what was typed to what cannot be invalid.
//!
//! `settings` holds what the file, the environment and the flags say, every part optional.
//! [`Config`] is the result, checked once; nothing after it has to ask again. It knows where each
//! value came from (`origin`), for `config show` (`show`) and for errors.

mod mistakes;
mod origin;
mod settings;
mod show;
mod variables;

use std::collections::BTreeMap;
use std::env::VarError;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use keymill_core::Blocklist;
use keymill_engine::clock::Clock;
use keymill_engine::operations::{AliasRules, Limits, Setup};
use keymill_engine::space::secret::Master;
use keymill_engine::space::{SpaceSpec, Tuning, check_name};
use keymill_engine::store::Store;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

pub(crate) use mistakes::closest;
pub use origin::{Origin, Origins, WrongUsage};
pub use settings::{DEFAULT_FILE, LogFormat, Settings};

use crate::front::addresses::{AddressRules, Network};
use crate::front::http::UNSENT_MIN;
use crate::server::ServerLimits;

/// The longest that an alias may be set to: keys of 255 bytes fit every store.
const ALIAS_LENGTH_MAX: usize = 200;
/// One answer is made in memory before it is sent.
const COUNT_MAX: Max = Max { number: 10_000_000, text: "10,000,000" };
const CONNECTIONS_MAX: Max = Max { number: 1_000_000, text: "1,000,000" };

/// The most that a setting may be, and how messages write it.
#[derive(Debug, Clone, Copy)]
struct Max {
    number: u32,
    text: &'static str,
}

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
    /// The secret that the user set, where the command uses it.
    pub secret: Option<Master>,
    /// Whether the user set one.
    pub secret_given: bool,
    /// What the command does with it.
    pub secret_use: SecretUse,
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
    /// What addresses may do.
    pub address_rules: AddressRules,
    /// The largest body of a request.
    pub body_max: usize,
    /// How much of large answers may be made and not sent, in bytes.
    pub unsent_max: usize,
    /// Keys not to hand out.
    pub blocklist: Blocklist,
    /// What aliases may look like.
    pub alias_rules: AliasRules,
    /// Spaces to make at start.
    pub spaces: BTreeMap<String, SpaceSpec>,
    /// The settings that led to all this, without passwords, for `config show`.
    pub shown: Settings,
    /// Where each of them came from.
    pub origins: Origins,
}

/// What a command does with the secret.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum SecretUse {
    /// It makes keys: there has to be one, and the first command makes it.
    #[default]
    Needed,
    /// It needs the secret of some keyspaces only.
    IfGiven,
    /// It neither makes nor reads keys, and need not be able to read the file with the secret.
    Unneeded,
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
    /// `--port`
    pub port: Option<u16>,
    /// `--require-existing`
    pub require_existing: bool,
    /// `--allow-unsafe-store`
    pub allow_unsafe_store: bool,
    /// What the command does with the secret.
    pub secret_use: SecretUse,
}

impl Config {
    /// Reads the file, the environment and the flags, and checks the whole.
    pub fn load(flags: &Flags) -> anyhow::Result<Config> {
        variables::refuse_unreadable(std::env::vars_os())?;
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        variables::refuse_unknown(
            std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))),
        )?;
        let mut origins = Origins::default();
        let mut settings = match config_file(flags)? {
            Some(path) => {
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| unreadable(&path, error, flags))?;
                let settings =
                    Settings::parse(&text).with_context(|| path.display().to_string())?;
                origins.add_file(std::path::absolute(&path)?, &toml::from_str(&text)?);
                settings
            }
            None => Settings::default(),
        };
        for (path, variable) in settings.overlay_environment(|name| std::env::var(name).ok())? {
            origins.set(&path, Origin::Variable(variable));
        }
        settings.overlay_flags(flags);
        origins.add_flags(flags);
        Config::resolve(settings, origins, flags.secret_use)
    }

    fn resolve(
        settings: Settings,
        mut origins: Origins,
        secret_use: SecretUse,
    ) -> anyhow::Result<Config> {
        let filled = settings;
        let (data_dir, named_by) = data_dir(filled.data_dir.as_deref())?;
        if let Some(variable) = named_by {
            origins.set("data_dir", Origin::Variable(variable.to_owned()));
        }
        if std::env::var_os("KEYMILL_SECRET").is_some() {
            origins.set("secret", Origin::Variable("KEYMILL_SECRET".to_owned()));
        }
        let limits = &filled.limits;
        let store = match &filled.store {
            Some(url) => url.clone(),
            None => format!("sqlite:{}", data_dir.join("keymill.db").display()),
        };
        keymill_engine::store::check_url(&store)
            .map_err(|error| origins.blame("store", error.into()))?;
        let listen =
            parse_listen(&filled.listen).map_err(|error| origins.blame("listen", error))?;
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
            secret: match secret_use {
                SecretUse::Unneeded => None,
                SecretUse::Needed | SecretUse::IfGiven => secret(filled.secret_file.as_deref())?,
            },
            secret_given: filled.secret_file.is_some()
                || std::env::var_os("KEYMILL_SECRET").is_some(),
            secret_use,
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
                first_byte_time_max: seconds(
                    "limits.first_byte_seconds",
                    limits.first_byte_seconds,
                )?,
                header_time_max: seconds("limits.header_seconds", limits.header_seconds)?,
                idle_time_max: seconds("limits.idle_seconds", limits.idle_seconds)?,
                drain_delay: seconds_or_none(
                    "limits.drain_delay_seconds",
                    limits.drain_delay_seconds,
                )?,
                drain_time_max: seconds("limits.drain_seconds", limits.drain_seconds)?,
                threads: if limits.threads == 0 { cores } else { limits.threads },
            },
            address_rules: AddressRules {
                trusted_proxies: networks(&filled.trusted_proxies).context("trusted_proxies")?,
                connections_per_address_max: within(
                    "limits.connections_per_address_max",
                    limits.connections_per_address_max,
                    CONNECTIONS_MAX,
                )? as usize,
            },
            body_max: limits.body_max_bytes,
            unsent_max: unsent_max(limits.unsent_max_bytes)?,
            blocklist: blocklist(filled.blocklist.builtin, filled.blocklist.file.as_deref())?,
            alias_rules: AliasRules {
                length_max: filled.aliases.length_max.clamp(1, ALIAS_LENGTH_MAX),
                reserved: filled.aliases.reserved.clone(),
            },
            spaces,
            store,
            shown,
            origins,
        })
    }

    /// What a service on this store is made of.
    pub fn setup(&self, store: Store, unsafe_store: Option<String>) -> Setup {
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

    /// The space of this name as the settings want it. The default space is wanted unasked, but not where
    /// the secret is given from outside: another store may have handed out its keys already.
    pub fn wanted_space(&self, name: &str) -> Option<SpaceSpec> {
        let is_wanted = name == self.default_space && (!self.secret_given || self.new_store);
        let configured = self.spaces.get(name).cloned();
        configured.or_else(|| is_wanted.then(SpaceSpec::default))
    }

    /// What to say where the default space does not exist for that reason.
    pub fn why_no_default(&self) -> String {
        let name = &self.default_space;
        format!(
            "the keyspace `{name}` does not exist, and is not created automatically because the \
             secret comes from KEYMILL_SECRET or `secret_file`: another store with this secret may \
             have issued its keys. If none has, create it with `keymill space create {name}`; \
             otherwise move it here with `keymill space export` and `import`"
        )
    }
}

/// How the log is to be written, also where the settings as a whole cannot be used: then their errors
/// are written in the same way.
pub(crate) fn log_format(flags: &Flags) -> LogFormat {
    let is_json = match std::env::var("KEYMILL_LOG_FORMAT") {
        Ok(format) => format == "json",
        Err(_) => {
            let text = config_file(flags).ok().flatten().map(std::fs::read_to_string);
            let table = text.and_then(|text| text.ok()?.parse::<toml::Table>().ok());
            let format = table.as_ref().and_then(|table| table.get("log")?.get("format")?.as_str());
            format == Some("json")
        }
    };
    if is_json { LogFormat::Json } else { LogFormat::Text }
}

/// The file to read: the one named, else `keymill.toml` here, if there is one.
pub(crate) fn config_file(flags: &Flags) -> anyhow::Result<Option<PathBuf>> {
    let named = flags.config.clone().or_else(|| std::env::var_os("KEYMILL_CONFIG").map(Into::into));
    if let Some(path) = named {
        return Ok(Some(path));
    }
    let here = PathBuf::from("keymill.toml");
    Ok(here.is_file().then_some(here))
}

/// What to say of a settings file that cannot be read. One that a flag names and that does not exist is
/// wrong usage.
fn unreadable(path: &Path, error: io::Error, flags: &Flags) -> anyhow::Error {
    let problem = format!("cannot read the settings in {}", path.display());
    if flags.config.is_some() && error.kind() == io::ErrorKind::NotFound {
        return WrongUsage(format!("--config: {problem}: {error}")).into();
    }
    anyhow::Error::new(error).context(problem)
}

/// Refuses a budget that would hold up the few answers that it has room for.
fn unsent_max(bytes: usize) -> anyhow::Result<usize> {
    if bytes < UNSENT_MIN {
        bail!("limits.unsent_max_bytes must be at least {UNSENT_MIN}, not {bytes}");
    }
    Ok(bytes)
}

/// The data directory, and the variable that names it, where no setting does.
fn data_dir(given: Option<&Path>) -> anyhow::Result<(PathBuf, Option<&'static str>)> {
    let named = |variable: &str| std::env::var_os(variable).filter(|it| !it.is_empty());
    let (path, variable) = if let Some(path) = given {
        (path.to_owned(), None)
    } else if let Some(path) = named("STATE_DIRECTORY") {
        // systemd may name several, separated by colons; the first is ours.
        let path = path.to_string_lossy();
        (path.split(':').next().unwrap_or_default().into(), Some("STATE_DIRECTORY"))
    } else {
        let xdg = named("XDG_DATA_HOME").map(PathBuf::from);
        let variable = xdg.as_ref().filter(|path| path.is_absolute()).map(|_| "XDG_DATA_HOME");
        let path = platform_data_dir(xdg, std::env::home_dir())
            .context("this user has no home folder for data; set --data-dir")?;
        (path, variable)
    };
    Ok((std::path::absolute(path)?, variable))
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

fn networks(texts: &[String]) -> anyhow::Result<Vec<Network>> {
    texts.iter().map(|text| text.parse::<Network>().map_err(anyhow::Error::msg)).collect()
}

fn seconds(setting: &str, seconds: f64) -> anyhow::Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time >= Duration::from_millis(1) && time <= Duration::from_secs(86_400) => {
            Ok(time)
        }
        _ => bail!("{setting} is {seconds}: it must be from 0.001 to 86400"),
    }
}

fn seconds_or_none(setting: &str, given: f64) -> anyhow::Result<Duration> {
    if given == 0.0 { Ok(Duration::ZERO) } else { seconds(setting, given) }
}

fn within(setting: &str, value: u32, max: Max) -> anyhow::Result<u32> {
    if !(1..=max.number).contains(&value) {
        bail!("{setting} is {value}: it must be from 1 to {}", max.text);
    }
    Ok(value)
}

/// A store's URL without passwords: neither that of the login nor any among the parameters.
fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| *scheme != "sqlite")
    else {
        return url.to_owned();
    };
    // A password may hold any character, so the login ends at the last `@`.
    let (login, place) = match rest.rsplit_once('@') {
        Some((login, place)) => match login.split_once(':') {
            Some((user, _)) => (format!("{user}:***@"), place),
            None => (format!("{login}@"), place),
        },
        None => (String::new(), rest),
    };
    let (place, parameters) = match place.split_once('?') {
        Some((place, parameters)) => (place, Some(parameters)),
        None => (place, None),
    };
    let hide = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("pass") => format!("{name}=***"),
        _ => parameter.to_owned(),
    };
    let parameters = parameters.map_or(String::new(), |parameters| {
        let shown: Vec<String> = parameters.split('&').map(hide).collect();
        format!("?{}", shown.join("&"))
    });
    format!("{scheme}://{login}{place}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_written_as_it_is() {
        for max in [COUNT_MAX, CONNECTIONS_MAX] {
            assert_eq!(max.text.replace(',', "").parse(), Ok(max.number));
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(redact("postgres://me:secret@host/db"), "postgres://me:***@host/db");
        assert_eq!(redact("postgres://me:p@ss@host/db"), "postgres://me:***@host/db");
        assert_eq!(redact("redis://:secret@host/0"), "redis://:***@host/0");
        assert_eq!(redact("postgres://me@host/db"), "postgres://me@host/db");
        let parameters = "postgres://host/db?sslmode=require&password=secret";
        assert_eq!(redact(parameters), "postgres://host/db?sslmode=require&password=***");
        assert_eq!(redact("sqlite:/var/lib/k@m.db"), "sqlite:/var/lib/k@m.db");
        assert_eq!(redact("sqlite://var/k:1@m.db"), "sqlite://var/k:1@m.db");
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
