//! keymill inside a program: one instance on one store.
//!
//! A program opens it, asks it for keyspaces (`keyspace`) and closes it. It checks the store as the server does,
//! and starts a service with the server's defaults. It makes no key itself.

use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keymill_core::Blocklist;

use crate::clock::Clock;
use crate::operations::{AliasRules, Limits, Service, ServiceError as Error, Setup};
use crate::space::secret::{Master, SecretTooShort};
use crate::store::{self, Opening};

/// How long a close may take.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// A running instance: the keyspaces of one store, to take keys from.
///
/// A program opens one for each store and keeps it. Clones are the same instance.
///
/// # Closing and dropping
///
/// An instance leases keys ahead of demand, and [`Keymill::close`] returns those that were not taken. When the last
/// clone and the last [`Keyspace`](crate::Keyspace) are dropped without it, everything in the background ends at
/// once. That costs a gap and nothing else: the keys that were leased and not taken are never handed out.
///
/// ```no_run
/// # async fn example() -> Result<(), keymill_engine::Error> {
/// use keymill_engine::Keymill;
///
/// let keymill = Keymill::open("sqlite:keys.db").await?;
/// let key = keymill.keyspace("links").ensure().await?.take().await?;
/// keymill.close().await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Keymill {
    service: Service,
    has_heartbeat: bool,
}

impl Keymill {
    /// Opens a store, creating it if it does not exist: `sqlite:PATH`, `postgres://…`, `mysql://…`, `redis://…` or
    /// `etcd://…`. Checks that it is safe to lease from, and starts the heartbeat. A store on the network needs a
    /// data directory: use [`Keymill::builder`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), keymill_engine::Error> {
    /// let keymill = keymill_engine::Keymill::open("sqlite:/var/lib/shop/keys.db").await?;
    /// # Ok(()) }
    /// ```
    pub async fn open(url: &str) -> Result<Keymill, Error> {
        Keymill::builder(url).open().await
    }

    /// Describes how to open a store, for settings that differ from those of [`Keymill::open`].
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), keymill_engine::Error> {
    /// use keymill_engine::Keymill;
    ///
    /// let url = "postgres://shop@db1,db2/keymill";
    /// let keymill = Keymill::builder(url).data_dir("/var/lib/shop").open().await?;
    /// # Ok(()) }
    /// ```
    pub fn builder(url: &str) -> KeymillBuilder {
        KeymillBuilder {
            url: url.to_owned(),
            data_dir: None,
            secret: None,
            new_store: false,
            allow_unsafe_store: false,
            has_heartbeat: true,
        }
    }

    /// Returns the keys that were leased and not taken, and ends the heartbeat. This takes at most 5 seconds and a last
    /// message to the store; what could not be returned by then is a gap. Call it last: nothing is leased ahead any more,
    /// so takes that rely on that are refused.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), keymill_engine::Error> {
    /// # let keymill = keymill_engine::Keymill::open("sqlite:keys.db").await?;
    /// keymill.close().await;
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) {
        if self.has_heartbeat {
            // The heartbeat itself says goodbye.
            self.service.stop(CLOSE_MAX).await;
        } else {
            self.service.leave().await;
        }
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    pub(crate) fn has_heartbeat(&self) -> bool {
        self.has_heartbeat
    }
}

/// How to open a [`Keymill`]; made by [`Keymill::builder`].
#[must_use = "nothing is opened before `open`"]
pub struct KeymillBuilder {
    url: String,
    data_dir: Option<PathBuf>,
    secret: Option<Result<Master, SecretTooShort>>,
    new_store: bool,
    allow_unsafe_store: bool,
    has_heartbeat: bool,
}

impl KeymillBuilder {
    /// A folder of this machine that survives restarts and belongs to this store alone. What was seen of the store is
    /// kept there, so that a store that is rolled back to an earlier state cannot repeat keys. With SQLite it is the
    /// folder of the database by default.
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> KeymillBuilder {
        self.data_dir = Some(folder.into());
        self
    }

    /// The secret that makes keys unguessable, at least 32 characters. Without one, a random secret is created at the
    /// first start and kept in the store. It can never change: another secret would repeat keys.
    pub fn secret(mut self, secret: &str) -> KeymillBuilder {
        self.secret = Some(Master::given(secret));
        self
    }

    /// Allows an empty store together with [`secret`](KeymillBuilder::secret). For the first start only: a store that
    /// was lost is empty, too, and would hand out the same keys again.
    pub fn new_store(mut self) -> KeymillBuilder {
        self.new_store = true;
        self
    }

    /// Uses a store that may lose what it has granted, and so repeat keys. Without this, it is refused with the reason.
    pub fn allow_unsafe_store(mut self) -> KeymillBuilder {
        self.allow_unsafe_store = true;
        self
    }

    /// For programs that take a few keys and end. Nothing is leased ahead: each take leases exactly the keys that it
    /// hands out, which takes a moment, and leaves nothing to return.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), keymill_engine::Error> {
    /// # use keymill_engine::Keymill;
    /// let keymill = Keymill::builder("sqlite:keys.db").without_heartbeat().open().await?;
    /// let coupons = keymill.open_keyspace("coupons").await?.take_many(500).await?;
    /// keymill.close().await;
    /// # Ok(()) }
    /// ```
    pub fn without_heartbeat(mut self) -> KeymillBuilder {
        self.has_heartbeat = false;
        self
    }

    /// Opens the store, checks it and starts the instance.
    pub async fn open(self) -> Result<Keymill, Error> {
        store::check_url(&self.url)?;
        let data_dir = self.data_dir.or_else(|| store::folder_of(&self.url));
        let data_dir = data_dir.ok_or_else(no_data_dir)?;
        let secret = self.secret.transpose().map_err(|short| Error::Broken(short.to_string()))?;
        make_folder(&data_dir)?;
        let secret_given = secret.is_some() && !self.new_store;
        let opening = Opening {
            create: !secret_given,
            secret_given,
            allow_unsafe: self.allow_unsafe_store,
            ..Opening::default()
        };
        let store = store::open(&self.url, opening).await?;
        if secret_given {
            store::refuse_forgotten(&store).await?;
        }
        let unsafe_store =
            store::check_safety(&store.admin.check().await?, self.allow_unsafe_store)?;
        let setup = Setup {
            store: store.into(),
            data_dir,
            secret,
            blocklist: Blocklist::builtin(),
            alias_rules: AliasRules::default(),
            limits: Limits::default(),
            worker: None,
            clock: Clock::default(),
            require_existing: false,
            unsafe_store,
        };
        let service = Service::start(setup).await?;
        if self.has_heartbeat {
            service.start_heartbeat();
        }
        Ok(Keymill { service, has_heartbeat: self.has_heartbeat })
    }
}

impl fmt::Debug for KeymillBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL, which may hold a password.
        f.debug_struct("KeymillBuilder").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

fn no_data_dir() -> Error {
    Error::Broken(
        "a store on the network needs a data directory on this machine, to notice when the store is rolled \
         back to an earlier state: open it with `Keymill::builder(url).data_dir(folder)`"
            .to_owned(),
    )
}

/// Creates the data directory where it is missing, for its owner alone: SQLite may keep the secret in it.
fn make_folder(folder: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| {
        Error::Broken(format!("cannot create the data directory {}: {error}", folder.display()))
    })
}
