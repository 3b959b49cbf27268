//! The configuration: from settings as they were typed to a [`Config`] that cannot be invalid.
//!
//! `settings` holds what the file, the environment and the flags say, every part optional.
//! [`Config`] is the result, checked once; nothing after it has to check again. It knows where each
//! value came from (`origin`), for `config show` (`show`) and for errors. Every command but those about
//! completions and manuals begins here.

mod access;
mod data_dir;
mod file;
mod flags;
mod limits;
mod listen;
mod local_server;
mod mistakes;
mod origin;
mod redaction;
mod remote;
mod secrets;
mod settings;
mod show;
mod variables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use keymill_core::Blocklist;
use keymill_engine::clock::Clock;
use keymill_engine::operations::{AliasRules, Limits, OpenedStore, Setup};
use keymill_engine::space::secret::Master;
use keymill_engine::space::{SpaceSpec, Tuning, check_name};
use tracing_subscriber::EnvFilter;

pub(crate) use access::ADMIN;
pub(crate) use file::{config_file, log_format};
pub use flags::{Flags, SecretUse};
pub use local_server::LocalServer;
pub(crate) use mistakes::closest;
pub use origin::{Origin, Origins, WrongUsage};
pub use remote::Remote;
pub use settings::{DEFAULT_FILE, LogFormat, Settings, TokenSettings};

use self::secrets::{ADMIN_TOKEN, MASTER, STORE, Source, TLS_KEY};
use crate::access::AccessSettings;
use crate::front::addresses::{AddressRules, Network};
use crate::front::http::BrowserRules;
use crate::server::{Endpoint, ServerLimits, TlsFiles};

/// The longest that an alias may be set to: keys of 255 bytes fit every store.
const ALIAS_LENGTH_MAX: usize = 200;

/// Everything a command needs to know, checked.
#[derive(Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: Vec<Endpoint>,
    /// Where to listen for admins and monitoring, if that is a place of its own.
    pub admin_listen: Option<Endpoint>,
    /// Where to speak the Redis protocol.
    pub redis_listen: Vec<Endpoint>,
    /// The files for TLS, if it is used.
    pub tls: Option<TlsFiles>,
    /// The store's URL.
    pub store: String,
    /// Whether it comes from a file, and so is not shown.
    pub is_store_hidden: bool,
    /// The folder for the default database and for the floors.
    pub data_dir: PathBuf,
    /// The keyspace that is used when none is named.
    pub default_space: String,
    /// The secret that the user set, if the command uses it.
    pub secret: Option<Master>,
    /// Why it could not be read, where the command may turn out not to need it.
    pub secret_unread: Option<anyhow::Error>,
    /// Whether the user set a secret.
    pub secret_given: bool,
    /// How the command uses the secret.
    pub secret_use: SecretUse,
    /// The worker number of this instance.
    pub worker: Option<u32>,
    /// Refuse to create anything.
    pub require_existing: bool,
    /// Whether the command creates the store if there is none.
    pub creates_store: bool,
    /// Create an empty store although the user set a secret.
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
    /// Trusted proxies, and how many connections an address may have.
    pub address_rules: AddressRules,
    /// Who may do what.
    pub access: AccessSettings,
    /// Names of the server, and web pages that may use it.
    pub browser_rules: BrowserRules,
    /// Listen on any address without tokens.
    pub insecure_no_auth: bool,
    /// The largest body of a request.
    pub body_max: usize,
    /// How many bytes of large answers may wait in memory to be sent.
    pub unsent_max: usize,
    /// How many keyspaces have metrics of their own.
    pub metrics_spaces_max: usize,
    /// Words that keys must not contain.
    pub blocklist: Blocklist,
    /// What aliases may look like.
    pub alias_rules: AliasRules,
    /// Keyspaces to create at the start.
    pub spaces: BTreeMap<String, SpaceSpec>,
    /// The settings that all this comes from, without passwords, for `config show`.
    pub shown: Settings,
    /// Where each of them came from.
    pub origins: Origins,
}

impl Config {
    /// Reads the file, the environment and the flags, and checks the whole.
    pub fn load(flags: &Flags) -> anyhow::Result<Config> {
        let (settings, origins) = Config::read(flags)?;
        Config::resolve(&settings, origins, flags.secret_use)
    }

    /// The settings as the file, the environment and the flags have them, and where each comes from.
    fn read(flags: &Flags) -> anyhow::Result<(Settings, Origins)> {
        variables::refuse_unreadable(std::env::vars_os())?;
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        variables::refuse_unknown(
            std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))),
        )?;
        let mut origins = Origins::default();
        let mut settings = match config_file(flags)? {
            Some(path) => {
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| file::unreadable(&path, error, flags))?;
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
        Ok((settings, origins))
    }

    fn resolve(
        filled: &Settings,
        mut origins: Origins,
        secret_use: SecretUse,
    ) -> anyhow::Result<Config> {
        let (data_dir, named_by) = data_dir::data_dir(filled.data_dir.as_deref())?;
        if let Some(variable) = named_by {
            origins.set("data_dir", Origin::Variable(variable.to_owned()));
        }
        let master = master(filled.secret_file.as_deref(), &mut origins)?;
        let admin_token = ADMIN_TOKEN.find_in_environment()?;
        for (name, found) in [("secret", &master), ("admin_token", &admin_token)] {
            if let Some(source) = found {
                origins.set(name, source.origin.clone());
            }
        }
        let limits = &filled.limits;
        let (store, is_store_hidden) = store(filled, &mut origins, &data_dir)?;
        let listen = filled.endpoints().map_err(|error| origins.blame("listen", error))?;
        let admin_listen =
            filled.admin_endpoint().map_err(|error| origins.blame("admin_listen", error))?;
        let redis_listen =
            filled.redis_endpoints().map_err(|error| origins.blame("redis_listen", error))?;
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
        let given = || master.as_ref().map(secret).transpose();
        let (secret, secret_unread) = match secret_use {
            SecretUse::Needed => (given()?, None),
            SecretUse::IfGiven => given().map_or_else(|why| (None, Some(why)), |it| (it, None)),
            SecretUse::Unneeded => (None, None),
        };
        let mut shown = filled.clone();
        shown.store = Some(redaction::redact(&store));
        // Only where it is the one that counts.
        let is_by_file = is_store_hidden && origins.of("store") == origins.of("store_file");
        shown.store_file = filled.store_file.clone().filter(|_| is_by_file);
        shown.data_dir = Some(data_dir.clone());
        let tls_key = TLS_KEY.find(None, filled.tls_key.as_deref(), &origins)?;
        if let Some(source) = &tls_key {
            origins.set("tls_key", source.origin.clone());
            shown.tls_key = source.file().map(Path::to_owned);
        }
        Ok(Config {
            listen,
            admin_listen,
            redis_listen,
            tls: filled.tls_files(tls_key.as_ref().and_then(Source::file))?,
            data_dir,
            default_space,
            secret,
            secret_unread,
            secret_given: master.is_some(),
            secret_use,
            worker: filled.worker,
            require_existing: filled.require_existing,
            creates_store: true,
            new_store: filled.new_store,
            allow_unsafe_store: filled.allow_unsafe_store,
            log_level: filled.log.level.clone(),
            log_format: filled.log.format,
            limits: limits.of_service()?,
            server: limits.of_server()?,
            address_rules: AddressRules {
                trusted_proxies: networks(&filled.trusted_proxies).context("trusted_proxies")?,
                connections_per_address_max: limits.connections_per_address_max()?,
            },
            access: filled.access(admin_token.as_ref())?,
            browser_rules: filled.browser_rules()?,
            insecure_no_auth: filled.insecure_no_auth,
            body_max: limits.body_max_bytes,
            unsent_max: limits.unsent_max()?,
            metrics_spaces_max: limits.metrics_spaces_max,
            blocklist: blocklist(filled.blocklist.builtin, filled.blocklist.file.as_deref())?,
            alias_rules: AliasRules {
                length_max: filled.aliases.length_max.clamp(1, ALIAS_LENGTH_MAX),
                reserved: filled.aliases.reserved.clone(),
            },
            spaces,
            store,
            is_store_hidden,
            shown,
            origins,
        })
    }

    /// The setup of a service on this store.
    pub fn setup(&self, store: OpenedStore, unsafe_store: Option<String>) -> Setup {
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

    /// Whether a variable, a file or a credential holds the admin token.
    pub fn has_admin_token(&self) -> bool {
        self.origins.of("admin_token") != Origin::Default
    }

    /// The settings for a keyspace that is created if it is missing: one in the settings file, or the default
    /// one. The latter is not created if the secret comes from outside the store, not even in a new one, because
    /// another store may have handed out its keys.
    pub fn wanted_space(&self, name: &str) -> Option<SpaceSpec> {
        let is_wanted = name == self.default_space && !self.secret_given;
        let configured = self.spaces.get(name).cloned();
        configured.or_else(|| is_wanted.then(SpaceSpec::default))
    }

    /// The message for a default keyspace that does not exist for that reason.
    pub fn why_no_default(&self) -> String {
        let name = &self.default_space;
        let origin = self.secret_origin().unwrap_or_default();
        format!(
            "the keyspace `{name}` does not exist, and is not created automatically because the \
             secret comes {origin}: another store with this secret may \
             have issued its keys. If none has, create it with `keymill space create {name}`; \
             otherwise move it here with `keymill space export` and `import`"
        )
    }

    /// Where the secret comes from, in words; `None` if it is in the store.
    pub fn secret_origin(&self) -> Option<String> {
        self.secret_given.then(|| MASTER.origin_in_words(&self.origins.of("secret")))
    }
}

/// Where the master secret comes from, if it is set. It is not read yet.
fn master(file: Option<&Path>, origins: &mut Origins) -> anyhow::Result<Option<Source>> {
    const VARIABLE: &str = "KEYMILL_SECRET";
    // What is not text was refused before.
    let value = std::env::var(VARIABLE).ok().map(zeroize::Zeroizing::new);
    if value.is_some() {
        origins.set("secret", Origin::Variable(VARIABLE.to_owned()));
    }
    MASTER.find(value.as_ref().map(|text| text.as_str()), file, origins)
}

fn secret(source: &Source) -> anyhow::Result<Master> {
    Master::given(&source.read()?).with_context(|| source.label())
}

/// The store's URL, and whether it was in a file.
fn store(
    filled: &Settings,
    origins: &mut Origins,
    data_dir: &Path,
) -> anyhow::Result<(String, bool)> {
    let found = STORE.find(filled.store.as_deref(), filled.store_file.as_deref(), origins)?;
    let Some(source) = found else {
        return Ok((format!("sqlite:{}", data_dir.join("keymill.db").display()), false));
    };
    origins.set("store", source.origin.clone());
    let url = source.read()?.trim().to_owned();
    if let Err(error) = OpenedStore::check_url(&url) {
        // The refusal quotes what stands in the place of a kind of store. In a file, that may be a password.
        let is_url = url.contains("://") || url.starts_with("sqlite:");
        if source.file().is_some() && !is_url {
            bail!(
                "{} does not hold the URL of a store, such as postgres://user:password@host/database",
                source.label()
            );
        }
        return Err(origins.blame("store", error.into()));
    }
    Ok((url, source.file().is_some()))
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

/// Refuses a level that the log's filter would read as the name of a module.
fn check_log_level(level: &str) -> anyhow::Result<()> {
    let known = ["error", "warn", "info", "debug", "trace", "off"];
    let is_level = known.contains(&level.to_ascii_lowercase().as_str());
    let is_filter = level.contains(['=', ',']) && EnvFilter::try_new(level).is_ok();
    if !is_level && !is_filter {
        bail!(
            "log.level must be {}, or a filter such as keymill=debug,warn, not `{level}`",
            known.join(", ")
        );
    }
    Ok(())
}

fn networks(texts: &[String]) -> anyhow::Result<Vec<Network>> {
    texts.iter().map(|text| text.parse::<Network>().map_err(anyhow::Error::msg)).collect()
}
