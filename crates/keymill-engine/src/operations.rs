//! The service: what every front and the command line call.
//!
//! It owns the spaces of this instance, their sources and the heartbeat. It knows no protocol
//! and no database.

mod advance;
mod audit;
mod bounds;
mod digests;
mod error;
mod exact_take;
mod explain;
mod export;
mod figures;
mod health;
mod heartbeat;
mod ids;
mod import;
mod input;
mod names;
mod opened_store;
mod pools;
mod preview;
mod registry;
mod source;
mod spaces;
mod take;
mod takeable;
mod tokens;
pub mod turn;
mod unwritten;
mod usage;
mod use_log;
mod used;
mod uuids;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use keymill_core::Blocklist;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use advance::{AdvanceAsk, AdvancePlan, HighestKeys};
pub use bounds::Bounds;
pub use digests::DigestAnswer;
pub use error::ServiceError;
pub use explain::{Explanation, State};
pub use export::{ExportCheck, ExportFile, MovedFile};
pub use figures::{CallFigures, Figures, Heartbeats};
pub use health::{Health, Problem};
pub use ids::IdFields;
pub use import::{Import, ImportInto, ImportReport};
pub use input::{check_caller, check_space};
pub use names::{AliasRules, Imported, check_alias_text};
pub use opened_store::OpenedStore;
pub use pools::Filling;
pub use preview::Preview;
pub use registry::Space;
pub use spaces::{Ensured, SpaceReport};
pub use take::{Taken, TakenNow};
pub use tokens::{KnownTokens, TokenRecord, TokenSecret, check_token_name};
pub use unwritten::{Unwritten, Withdrawn};
pub use usage::SpaceUsage;

use crate::clock::Clock;
use crate::fence::Fence;
use crate::fence::group_commit::GroupCommit;
use crate::instance::Instance;
use crate::space::secret::Master;
use crate::store::Store;
pub use crate::store::{
    Act, AvailablePage, Claimed, Finding, InstancePage, InstanceRecord, LeasePage, LeaseRecord,
    NameRecord, Opening, Purpose, SpaceRecord, StoreDescription, UsedKey, UsedPage, Verdict,
};
use crate::supply::leases::GiveBacks;

/// How long a command takes to give back what it holds.
const LEAVE_MAX: Duration = Duration::from_secs(5);
/// The most leases that one commit closes.
const GIVE_BACKS_MAX: usize = 500;

/// What a service is made of.
#[derive(Debug)]
pub struct Setup {
    /// Where spaces and leases are on record.
    pub store: OpenedStore,
    /// The folder where this instance keeps what it has seen of the store.
    pub data_dir: PathBuf,
    /// The secret that the user set, if any.
    pub secret: Option<Master>,
    /// Keys not to hand out.
    pub blocklist: Blocklist,
    /// What aliases may look like.
    pub alias_rules: AliasRules,
    /// What takes and waiting callers are limited to.
    pub limits: Limits,
    /// The worker number of this instance in snowflake spaces; any that is free where none is set.
    pub worker: Option<u32>,
    /// The clocks of this host, or those of a test.
    pub clock: Clock,
    /// Refuse to make the store's first secret or a new space.
    pub require_existing: bool,
    /// What makes the store unsafe, if the user has allowed to use it nevertheless.
    pub unsafe_store: Option<String>,
}

/// What takes and waiting callers are limited to, and how often the instance reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most keys in one take.
    pub count_max: u32,
    /// The most callers who wait for one space's keys.
    pub waiting_max: usize,
    /// How long they wait.
    pub wait_max: Duration,
    /// How often the instance reports to the store that it is running.
    pub heartbeat_every: Duration,
}

/// A running instance's spaces, to take from and to ask about.
#[derive(Debug, Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// When this instance started.
    started: Instant,
    /// The store, and what was seen of it.
    fence: Arc<Fence>,
    /// None where the service was started to read, and nobody gave one.
    master: Option<Master>,
    blocklist: ArcSwap<Blocklist>,
    alias_rules: ArcSwap<AliasRules>,
    limits: Limits,
    /// Of the limits, the one that may change at any time.
    count_max: AtomicU32,
    worker: Option<u32>,
    clock: Clock,
    require_existing: bool,
    unsafe_store: Option<String>,
    address: Mutex<Option<String>>,
    spaces: registry::OpenSpaces,
    health: health::Watch,
    /// Where leases go at the end, those of many spaces to a commit.
    give_backs: Arc<GiveBacks>,
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
    /// Where tasks live, whichever thread first asks for a space: they outlive the threads
    /// that serve requests, to give leases back.
    runtime: tokio::runtime::Handle,
}

impl Service {
    /// Starts an instance on a store: makes or finds the secret. It sends no heartbeat before
    /// [`Service::announce`] or [`Service::start_heartbeat`].
    pub async fn start(setup: Setup) -> Result<Service, ServiceError> {
        Service::start_with(setup, true).await
    }

    /// Starts an instance to read records and change settings. It makes no secret, and needs none: what
    /// cannot be done without is refused when it is asked for.
    pub async fn start_to_read(setup: Setup) -> Result<Service, ServiceError> {
        Service::start_with(setup, false).await
    }

    async fn start_with(setup: Setup, needs_secret: bool) -> Result<Service, ServiceError> {
        if let Some(reasons) = &setup.unsafe_store {
            tracing::warn!("using a store that is not safe to lease from: {reasons}");
        }
        let instance = Instance::this_process();
        let fence = Arc::new(Fence::open(setup.store.store, &setup.data_dir, instance).await?);
        let master = match setup.secret {
            Some(master) => Some(master),
            None if needs_secret => Some(stored_secret(&fence, setup.require_existing).await?),
            None => fence.store().admin.secret(None).await?.map(Master::made_up),
        };
        let runtime = tokio::runtime::Handle::current();
        let through = fence.clone();
        let give_back = move |backs| {
            let fence = through.clone();
            async move { fence.give_back(backs).await }
        };
        let give_backs = GroupCommit::start(&runtime, GIVE_BACKS_MAX, |_| 1, give_back);
        let inner = Arc::new(Inner {
            started: Instant::now(),
            fence,
            master,
            blocklist: ArcSwap::from_pointee(setup.blocklist),
            alias_rules: ArcSwap::from_pointee(setup.alias_rules),
            limits: setup.limits,
            count_max: AtomicU32::new(setup.limits.count_max),
            worker: setup.worker,
            clock: setup.clock,
            require_existing: setup.require_existing,
            unsafe_store: setup.unsafe_store,
            address: Mutex::default(),
            spaces: registry::OpenSpaces::default(),
            health: health::Watch::default(),
            give_backs: Arc::new(give_backs),
            stop: watch::Sender::default(),
            tasks: Mutex::default(),
            runtime,
        });
        Ok(Service { inner })
    }

    /// Begins to report to the store that this instance is running, and where it can be reached.
    pub fn announce(&self, address: String) {
        *self.inner.address.lock().expect("nothing panics while it is held") = Some(address);
        self.start_heartbeat();
    }

    /// Begins to report to the store that this instance is running, until it stops or is dropped.
    pub fn start_heartbeat(&self) {
        let (every, stop) = (self.inner.limits.heartbeat_every, self.inner.stop.subscribe());
        self.spawn(heartbeat::run(Arc::downgrade(&self.inner), every, stop));
    }

    /// Gives all leases back and says goodbye. What does not fit into `time_max` is left: it
    /// costs a gap.
    pub async fn stop(&self, time_max: Duration) {
        self.inner.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks());
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(time_max, all).await.is_err() {
            tracing::warn!(
                "gave up returning unused keys after {time_max:?}; they are never handed out"
            );
        }
    }

    /// Says goodbye for a command that has never announced itself.
    pub async fn leave(&self) {
        self.stop(LEAVE_MAX).await;
        self.beat(true).await;
    }

    /// This process, as leases name it.
    pub fn instance(&self) -> &Instance {
        self.inner.fence.instance()
    }

    /// The store in words.
    pub fn describe_store(&self) -> StoreDescription {
        self.store().admin.describe()
    }

    /// What tells whether the store is safe to lease from, setting by setting.
    pub async fn check(&self) -> Result<Vec<Finding>, ServiceError> {
        Ok(self.store().admin.check().await?)
    }

    /// What takes and waiting callers are limited to at present.
    pub fn limits(&self) -> Limits {
        let count_max = self.inner.count_max.load(Ordering::Relaxed);
        Limits { count_max, ..self.inner.limits }
    }

    /// Changes what may change while the instance runs: keys not to hand out, what aliases may look
    /// like, and the most keys in one take.
    pub fn reload(&self, blocklist: Blocklist, alias_rules: AliasRules, count_max: u32) {
        self.inner.blocklist.store(Arc::new(blocklist));
        self.inner.alias_rules.store(Arc::new(alias_rules));
        self.inner.count_max.store(count_max, Ordering::Relaxed);
        for space in self.known_spaces() {
            space.blocklist.store(self.blocklist_of(&space.record().tuning));
        }
    }

    /// The time of day by the clock of this instance.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.inner.clock.now_ms()).unwrap_or_default()
    }

    /// The secret behind the spaces, where this instance has one.
    pub fn master(&self) -> Option<&Master> {
        self.inner.master.as_ref()
    }

    /// The secret, to make the keys of a space with.
    fn master_for(&self, space: &str) -> Result<&Master, ServiceError> {
        self.master().ok_or_else(|| ServiceError::SecretMissing { space: space.to_owned() })
    }

    /// The store, to read from: changes go through the fence.
    fn store(&self) -> &Store {
        self.inner.fence.store()
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

/// The secret kept in the store; the first instance makes it.
async fn stored_secret(fence: &Fence, require_existing: bool) -> Result<Master, ServiceError> {
    let store = fence.store();
    if let Some(text) = store.admin.secret(None).await? {
        return Ok(Master::made_up(text));
    }
    if require_existing {
        return Err(ServiceError::NotExisting("a secret in the store".to_owned()));
    }
    let spaces = store.spaces.spaces().await?;
    if let Some(space) = spaces.into_iter().find(|space| space.fingerprint.is_some()) {
        // Another instance may have made both since the first look.
        let made = store.admin.secret(None).await?.map(Master::made_up);
        return made.ok_or(ServiceError::SecretMissing { space: space.name });
    }
    let text = fence.make_secret(&Master::random_text()).await?;
    let text = text.expect("a secret that was given to the store is there");
    Ok(Master::made_up(text))
}
