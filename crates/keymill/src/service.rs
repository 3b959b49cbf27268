//! The service: what every front and the command line call.
//!
//! It owns the spaces of this instance, their mills and the heartbeat. It knows no protocol
//! and no database.

mod audit;
mod bounds;
mod digest;
mod explain;
mod health;
mod heartbeat;
mod ids;
mod import;
mod ledger;
mod names;
mod pool;
mod registry;
mod spaces;
mod take;
mod together;
mod used;
mod uuid;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use keymill_core::Blocklist;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use bounds::Bounds;
pub use digest::DigestAnswer;
pub use explain::{Explanation, State};
pub use health::{Health, Problem};
pub use ids::IdFields;
pub use import::{Import, ImportInto, ImportReport};
pub use names::{AliasRules, Imported};
pub use pool::Filling;
pub use registry::Space;
pub use spaces::{Ensured, SpaceReport};
pub use take::{Taken, check_caller};

use crate::clock::Clock;
use crate::digest::DigestError;
use crate::floor::{Floors, OtherStore};
use crate::instance::Instance;
use crate::mill::Dry;
use crate::secret::Master;
use crate::space::{DefinitionError, Difference};
use crate::store::{Place, Store, StoreError, WentBack};

/// How long a command takes to give back what it holds.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// What a service is made of.
#[derive(Debug)]
pub struct Setup {
    /// Where spaces and leases are on record.
    pub store: Arc<dyn Store>,
    /// The folder whose floor file this instance keeps.
    pub data_dir: PathBuf,
    /// The secret that the user set, if any.
    pub secret: Option<Master>,
    /// Keys not to hand out.
    pub blocklist: Blocklist,
    /// What aliases may look like.
    pub alias_rules: AliasRules,
    /// How much of everything.
    pub limits: Limits,
    /// The worker number of this instance in snowflake spaces; any that is free where none is set.
    pub worker: Option<u32>,
    /// The time of day.
    pub clock: Clock,
    /// Refuse to make the store's first secret or a new space.
    pub require_existing: bool,
    /// What makes the store unsafe, where the user allowed it all the same.
    pub unsafe_store: Option<String>,
}

/// How much of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most keys in one take.
    pub count_max: u32,
    /// The most callers who wait for one space's keys.
    pub waiting_max: usize,
    /// How long they wait.
    pub wait_max: Duration,
    /// How often the instance shows the store that it lives.
    pub heartbeat_every: Duration,
}

/// A running instance's spaces, to take from and to ask about.
#[derive(Debug, Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    floors: Arc<Floors>,
    master: Master,
    blocklist: Arc<Blocklist>,
    alias_rules: AliasRules,
    limits: Limits,
    worker: Option<u32>,
    clock: Clock,
    require_existing: bool,
    unsafe_store: Option<String>,
    instance: Instance,
    address: Mutex<Option<String>>,
    /// Read on every request, replaced when a space is made or first asked for.
    spaces: ArcSwap<HashMap<String, Arc<Space>>>,
    /// Held while `spaces` is replaced.
    opening: tokio::sync::Mutex<()>,
    health: health::Watch,
    heartbeat: watch::Sender<u64>,
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
    /// Where tasks live, whichever thread first asks for a space: they outlive the threads
    /// that serve requests, to give leases back.
    runtime: tokio::runtime::Handle,
}

/// What can go wrong in the service, as far as a caller can act on it.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// No space has this name.
    #[error("there is no keyspace `{0}`")]
    UnknownSpace(String),
    /// The count is not one that can be asked for.
    #[error("count must be a whole number from 1 to {max}")]
    BadCount {
        /// The most that can be asked for.
        max: u32,
    },
    /// The name of a caller cannot be one.
    #[error("caller must have at most {max} bytes, and no control characters")]
    BadCaller {
        /// The longest, in bytes.
        max: usize,
    },
    /// The input cannot be digested.
    #[error(transparent)]
    BadInput(#[from] DigestError),
    /// The definition contradicts itself.
    #[error(transparent)]
    BadDefinition(#[from] DefinitionError),
    /// The store has the space with another definition.
    #[error(
        "the keyspace `{space}` is different in the store: {}. A definition is permanent; give the new one another name",
        list(differences)
    )]
    DifferentDefinition {
        /// The space.
        space: String,
        /// Where they differ.
        differences: Vec<Difference>,
    },
    /// The secret is not the one that the space was made with.
    #[error(
        "the secret is not the one that the keyspace `{space}` was made with (its fingerprint is \
         {found}, the keyspace's is {wanted}); set KEYMILL_SECRET or `secret_file` to the right one"
    )]
    WrongSecret {
        /// The space.
        space: String,
        /// The fingerprint of the secret at hand.
        found: String,
        /// The fingerprint on record.
        wanted: String,
    },
    /// The store keeps no secret, and its spaces were made with one.
    #[error(
        "the store keeps no secret, and the keyspace `{space}` was made with one: set KEYMILL_SECRET \
         or `secret_file` to it"
    )]
    SecretMissing {
        /// The space.
        space: String,
    },
    /// Something would have to be created, and the instance was told not to.
    #[error("{0} does not exist, and --require-existing forbids creating it")]
    NotExisting(String),
    /// The data directory belongs to another store.
    #[error(transparent)]
    OtherStore(#[from] OtherStore),
    /// The alias is not one that can be had.
    #[error("`{alias}` cannot be an alias: {problem}")]
    BadAlias {
        /// The alias.
        alias: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The key is another's, or may have been handed out.
    #[error("`{key}` of the keyspace `{space}` is taken")]
    Taken {
        /// The space.
        space: String,
        /// The key.
        key: String,
    },
    /// There is no such alias.
    #[error("there is no alias `{alias}` in the keyspace `{space}`")]
    UnknownAlias {
        /// The space.
        space: String,
        /// The alias.
        alias: String,
    },
    /// The space has no more keys.
    #[error(
        "the keyspace `{space}` is used up; {held_elsewhere} of its keys are held by other instances"
    )]
    Exhausted {
        /// The space.
        space: String,
        /// How many ordinals are in open leases of other instances.
        held_elsewhere: u64,
    },
    /// The pool has no keys, and nobody fills it.
    #[error(
        "the pool of `{space}` is empty: fill it with `keymill pool fill {space} --count N`, or set \
         `low_water` and it fills itself"
    )]
    PoolEmpty {
        /// The space.
        space: String,
    },
    /// The pool has no keys, and is being filled.
    #[error("the pool of `{space}` is empty and being filled; try again soon")]
    PoolFilling {
        /// The space.
        space: String,
    },
    /// Every worker of a snowflake space is held by others.
    #[error("{0}")]
    NoWorker(String),
    /// The space is of a kind that cannot do this.
    #[error("{0}")]
    WrongKind(String),
    /// The key cannot be retired.
    #[error("`{key}` of the keyspace `{space}` cannot be retired: {problem}")]
    NotRetirable {
        /// The space.
        space: String,
        /// The key.
        key: String,
        /// Why.
        problem: String,
    },
    /// The space was ended.
    #[error("the keyspace `{0}` is sealed: it hands out no more keys")]
    Sealed(String),
    /// The store is older than what was seen of it.
    #[error(transparent)]
    WentBack(Arc<WentBack>),
    /// No keys right now; there may be soon.
    #[error("the keyspace `{space}` has no keys at hand: {reason}")]
    Dry {
        /// The space.
        space: String,
        /// Why, in words.
        reason: String,
    },
    /// The store could not answer.
    #[error("{0}")]
    StoreUnavailable(String),
    /// Nothing will help but a person.
    #[error("{0}")]
    Broken(String),
}

impl Service {
    /// Starts an instance on a store: makes or finds the secret, and begins to heartbeat.
    pub async fn start(setup: Setup) -> Result<Service, ServiceError> {
        let store = setup.store;
        let identity = store.identity().await?;
        let mut files = vec![setup.data_dir.join("floors.json")];
        files.extend(store.floor_file());
        let floors = Floors::open(identity, files).map_err(|error| {
            let problem = format!("the floor file {error}");
            // Whoever holds it may be paused, and wake up.
            match error.kind() {
                io::ErrorKind::TimedOut => ServiceError::StoreUnavailable(problem),
                _ => ServiceError::Broken(problem),
            }
        })?;
        let master = match setup.secret {
            Some(master) => master,
            None => stored_secret(&*store, &floors, setup.require_existing).await?,
        };
        let inner = Arc::new(Inner {
            store,
            floors: Arc::new(floors),
            master,
            blocklist: Arc::new(setup.blocklist),
            alias_rules: setup.alias_rules,
            limits: setup.limits,
            worker: setup.worker,
            clock: setup.clock,
            require_existing: setup.require_existing,
            unsafe_store: setup.unsafe_store,
            instance: Instance::this_process(),
            address: Mutex::default(),
            spaces: ArcSwap::default(),
            opening: tokio::sync::Mutex::default(),
            health: health::Watch::default(),
            heartbeat: watch::Sender::default(),
            stop: watch::Sender::default(),
            tasks: Mutex::default(),
            runtime: tokio::runtime::Handle::current(),
        });
        Ok(Service { inner })
    }

    /// Begins to show the store that this instance lives, and where it can be reached.
    pub fn announce(&self, address: String) {
        *self.inner.address.lock().expect("nothing panics while it is held") = Some(address);
        self.spawn(heartbeat::run(self.clone()));
    }

    /// Gives all leases back and says goodbye. What does not fit into `time_max` is left: it
    /// costs a gap.
    pub async fn stop(&self, time_max: Duration) {
        self.inner.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks());
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(time_max, all).await.is_err() {
            tracing::warn!("gave up giving leases back after {time_max:?}");
        }
    }

    /// Says goodbye for a command that has never announced itself.
    pub async fn leave(&self) {
        self.stop(LEAVE_MAX).await;
        self.beat(true).await;
    }

    /// This process, as leases name it.
    pub fn instance(&self) -> &Instance {
        &self.inner.instance
    }

    /// The store in words.
    pub fn place(&self) -> Place {
        self.inner.store.place()
    }

    /// The store itself, for commands that look at it.
    #[cfg(feature = "cli")]
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    /// How much of everything.
    pub fn limits(&self) -> Limits {
        self.inner.limits
    }

    /// The secret behind the spaces.
    pub fn master(&self) -> &Master {
        &self.inner.master
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks().spawn_on(task, &self.inner.runtime);
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.inner.tasks.lock().expect("nothing panics while it is held")
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            count_max: 100_000,
            waiting_max: 1_024,
            wait_max: Duration::from_secs(2),
            heartbeat_every: Duration::from_secs(5),
        }
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> ServiceError {
        match error {
            StoreError::Unavailable(_) | StoreError::InDoubt(_) | StoreError::Outdated(_) => {
                ServiceError::StoreUnavailable(error.to_string())
            }
            StoreError::WentBack(how) => ServiceError::WentBack(how),
            StoreError::UnknownSpace(space) => ServiceError::UnknownSpace(space),
            StoreError::Exhausted { space, held_elsewhere } => {
                ServiceError::Exhausted { space, held_elsewhere }
            }
            StoreError::Sealed(space) => ServiceError::Sealed(space),
            StoreError::NoWorker { .. } => ServiceError::NoWorker(error.to_string()),
            StoreError::Broken(problem) => ServiceError::Broken(problem),
        }
    }
}

impl ServiceError {
    fn dry(space: &str, dry: Dry) -> ServiceError {
        let space = space.to_owned();
        match dry {
            Dry::Exhausted { held_elsewhere } => ServiceError::Exhausted { space, held_elsewhere },
            Dry::Sealed => ServiceError::Sealed(space),
            Dry::PoolFilling => ServiceError::PoolFilling { space },
            Dry::NoWorker(reason) => ServiceError::NoWorker(reason),
            Dry::WentBack(how) => ServiceError::WentBack(how),
            Dry::Late(_) | Dry::Crowded | Dry::Stopping => {
                ServiceError::Dry { space, reason: dry.to_string() }
            }
        }
    }
}

/// The secret kept in the store; the first instance makes it.
async fn stored_secret(
    store: &dyn Store,
    floors: &Floors,
    require_existing: bool,
) -> Result<Master, ServiceError> {
    if let Some(text) = store.secret(None).await? {
        return Ok(Master::made_up(text));
    }
    if require_existing {
        return Err(ServiceError::NotExisting("a secret in the store".to_owned()));
    }
    let spaces = store.spaces().await?;
    if let Some(space) = spaces.into_iter().find(|space| space.fingerprint.is_some()) {
        // Another instance may have made both since the first look.
        let made = store.secret(None).await?.map(Master::made_up);
        return made.ok_or(ServiceError::SecretMissing { space: space.name });
    }
    spaces::check_store(floors)?;
    let text = store.secret(Some(&Master::random_text())).await?;
    let text = text.expect("a secret that was given to the store is there");
    Ok(Master::made_up(text))
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
