//! The local cache: keys that were fetched ahead, handed out from memory.
//!
//! [`CachedKeyspace`] is the face. `batch` holds the keys and hands them out, lock-free; `refill` is the task that
//! fetches more, as many as `demand` says; `builder` has the settings.
//!
//! # Invariants
//!
//! - A key is handed out once: `batch` claims it by an atomic counter, and nothing here can be cloned.
//! - A key that is older than the maximum age, or has expired, is not handed out.
//! - After a fork, the child starts with an empty cache: what is in memory is its parent's.

mod batch;
mod builder;
mod demand;
mod refill;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::error::Error;
use crate::fork;
use crate::key::Key;
use crate::keyspace::Keyspace;
use batch::Chain;
pub use builder::CacheBuilder;
use builder::Settings;
use refill::Refill;

/// A keyspace whose keys are fetched ahead and handed out from memory.
///
/// A take is answered at once while there are keys, and the next ones are fetched in the background before they are
/// needed: by default enough for the next 30 seconds at the present rate. So takes go on while no server can be reached, for
/// as long as the keys last; after that they wait, up to the deadline, while the cache goes on trying. The first take waits
/// for the first keys.
///
/// **Fetched counts as handed out.** Keys that are in the cache when it is dropped, or when the process ends, stay unused: a
/// gap. Therefore the cache is off, and every take asks a server, in keyspaces
///
/// - with `audit = "key"`, where the fetch would be on record instead of the use,
/// - of kind `pooled`, whose keys are not to be wasted,
/// - of kind `snowflake`, whose keys would be out of order by the time they are used, and
/// - whose settings the token may not read (it needs the right `read` besides `take`).
///
/// [`CacheBuilder::any_keyspace`] turns it on there too, without looking at the settings. [`status`](Self::status) says
/// whether it is on.
///
/// Keys are dropped after ten minutes (or what [`CacheBuilder::max_age`] says), when they expire, and when a server says
/// that the keyspace is sealed or the token no longer valid. That bounds how long keys are used after a seal or a revocation.
///
/// It cannot be cloned: share it in an [`Arc`]. A forked child starts with an empty cache, and never hands out what its
/// parent may hand out too. A snapshot of a virtual machine is a copy that nothing notices: do not start one twice while a
/// cache in it has keys.
#[derive(Debug)]
pub struct CachedKeyspace {
    keyspace: Keyspace,
    settings: Settings,
    /// Replaced as a whole after a fork.
    live: ArcSwap<Live>,
}

/// Whether a cache hands out keys from memory.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CacheStatus {
    /// It has not fetched anything yet.
    Starting,
    /// It hands out keys from memory.
    On,
    /// It is on, and the last fetch failed; fetching goes on.
    Failing(Error),
    /// It is on, and servers refuse to give out more keys. They are asked again when keys are wanted.
    Refused(Error),
    /// It is off, for the reason that is given in words. Every take asks a server.
    Off(String),
}

/// What belongs to one process.
#[derive(Debug)]
struct Live {
    generation: u64,
    chain: Chain,
    /// Wakes the refill.
    low: Notify,
    /// Wakes callers who wait.
    filled: Notify,
    /// How many callers wait.
    waiting: AtomicU64,
    outlook: ArcSwap<Outlook>,
    /// Whether the refill runs. Its runtime may have been shut down.
    is_running: AtomicBool,
    task: Mutex<Option<AbortHandle>>,
}

/// What a caller can expect who finds no keys.
#[derive(Debug)]
struct Outlook {
    status: CacheStatus,
    since: Instant,
}

impl CachedKeyspace {
    fn new(keyspace: Keyspace, settings: Settings) -> CachedKeyspace {
        CachedKeyspace { keyspace, settings, live: ArcSwap::from_pointee(Live::new()) }
    }

    /// The keyspace, for calls that ask a server.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Takes a key: at once if there is one in memory, otherwise when the next ones arrive. Waits no longer than the
    /// deadline of the client.
    pub async fn take(&self) -> Result<Key, Error> {
        if let Some(key) = self.draw() {
            return Ok(key);
        }
        self.wait().await
    }

    /// Takes a key if there is one in memory. If not, more are being fetched from now on, provided that this is called
    /// within a tokio runtime or was before.
    pub fn try_take(&self) -> Option<Key> {
        self.draw().or_else(|| {
            let live = self.live();
            self.wake_refill(&live);
            // Another process's keys may have been in the way.
            live.draw()
        })
    }

    /// How many keys are in memory.
    pub fn len(&self) -> u64 {
        self.live().chain.left(Instant::now())
    }

    /// Whether there are no keys in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether keys are handed out from memory, and if not, why.
    pub fn status(&self) -> CacheStatus {
        self.live().outlook.load().status.clone()
    }

    /// The hot path.
    #[inline]
    pub(crate) fn draw(&self) -> Option<Key> {
        let live = self.live.load();
        match live.generation == fork::generation() {
            true => live.draw(),
            false => None,
        }
    }

    /// Waits for keys.
    #[cold]
    async fn wait(&self) -> Result<Key, Error> {
        let deadline = Instant::now() + self.keyspace.client().limits().call;
        let live = Arc::clone(&self.live());
        let _place = Waiting::new(&live.waiting);
        loop {
            let mut filled = std::pin::pin!(live.filled.notified());
            // Listening starts before the last look, so that no filling slips between.
            filled.as_mut().enable();
            if let Some(key) = live.draw() {
                return Ok(key);
            }
            self.wake_refill(&live);
            let outlook = live.outlook.load_full();
            match &outlook.status {
                CacheStatus::Off(_) => {
                    let taken = timeout_at(deadline, self.keyspace.take()).await;
                    return taken.unwrap_or_else(|_| Err(outlook.after_waiting()));
                }
                CacheStatus::Refused(error) if outlook.since.elapsed() < refill::ASK_AGAIN => {
                    return Err(error.clone());
                }
                _ => {}
            }
            if timeout_at(deadline, filled).await.is_err() {
                return Err(live.outlook.load().after_waiting());
            }
        }
    }

    /// What belongs to this process. A forked child makes its own.
    fn live(&self) -> Guard<Arc<Live>> {
        let live = self.live.load();
        if live.generation == fork::generation() {
            return live;
        }
        // If another thread was faster, what it made is used.
        self.live.compare_and_swap(&live, Arc::new(Live::new()));
        self.live.load()
    }

    /// Has the refill look whether keys are wanted, and starts it if it does not run.
    fn wake_refill(&self, live: &Arc<Live>) {
        live.low.notify_one();
        if live.is_running.load(Ordering::Acquire) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if live.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let refill = Refill::new(live.clone(), self.keyspace.clone(), self.settings.clone());
        let task = runtime.spawn(refill.run()).abort_handle();
        *live.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }
}

impl Drop for CachedKeyspace {
    fn drop(&mut self) {
        let live = self.live.load();
        // Otherwise the task is the parent's.
        if live.generation == fork::generation()
            && let Some(task) = live.task.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            task.abort();
        }
    }
}

impl Live {
    fn new() -> Live {
        Live {
            generation: fork::generation(),
            chain: Chain::new(),
            low: Notify::new(),
            filled: Notify::new(),
            waiting: AtomicU64::new(0),
            outlook: ArcSwap::from_pointee(Outlook::new(CacheStatus::Starting)),
            is_running: AtomicBool::new(false),
            task: Mutex::new(None),
        }
    }

    #[inline]
    fn draw(&self) -> Option<Key> {
        let (key, is_low) = self.chain.draw(Instant::now())?;
        if is_low {
            self.low.notify_one();
        }
        Some(key)
    }

    /// Says what callers can expect, and has those who wait look at it.
    fn set_outlook(&self, status: CacheStatus) {
        self.outlook.store(Arc::new(Outlook::new(status)));
        self.filled.notify_waiters();
    }
}

impl Outlook {
    fn new(status: CacheStatus) -> Outlook {
        Outlook { status, since: Instant::now() }
    }

    /// The error of a caller who has waited to the deadline.
    fn after_waiting(&self) -> Error {
        match &self.status {
            CacheStatus::Failing(error) | CacheStatus::Refused(error) => error.clone(),
            _ => Error::unreachable(
                "no keys in memory, and none arrived within the deadline".to_owned(),
            ),
        }
    }
}

/// One caller who waits.
struct Waiting<'a>(&'a AtomicU64);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicU64) -> Waiting<'a> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
