//! What the handlers of one instance share, and what of it changes while the server runs.
//!
//! `serve` sets it up and changes it when the settings are read again; a connection has a copy, with its own line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use keymill_engine::operations::Service;
use tokio::sync::{Notify, Semaphore};

use super::browser::BrowserRules;
use super::budget::{Budget, Line, UNSENT_MAX};
use super::origin::Origins;
use super::routes::router;
use super::single::DefaultSpace;
use super::{Http, openapi};
use crate::access::session::SessionKey;
use crate::access::{Access, AccessSettings};
use crate::front::addresses::AddressRules;
use crate::metrics::{Metrics, SPACES_MAX};

/// How many imports may be under way at once.
const IMPORTS_MAX: usize = 8;

/// What the handlers share.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(in crate::front) service: Service,
    pub(super) default_space: Arc<DefaultSpace>,
    pub(in crate::front) metrics: Arc<Metrics>,
    /// The largest body of a request.
    pub(in crate::front) body_max: Arc<AtomicUsize>,
    pub(in crate::front) address_rules: Arc<ArcSwap<AddressRules>>,
    /// Who may do what.
    pub(in crate::front) access: Arc<Access>,
    /// What the sessions of browsers are signed with.
    pub(super) session_key: Arc<SessionKey>,
    pub(in crate::front) browser_rules: Arc<ArcSwap<BrowserRules>>,
    pub(super) origins: Arc<Origins>,
    /// Imports under way, each with lines in memory.
    pub(super) imports: Arc<Semaphore>,
    pub(super) description: openapi::LastDescription,
    /// Whether the server was told to stop.
    pub(in crate::front) stopping: Arc<AtomicBool>,
    /// Told when it is, for answers that would go on for ever.
    pub(in crate::front) stop_told: Arc<Notify>,
    /// How much of large answers may be in memory.
    pub(in crate::front) budget: Arc<Budget>,
    /// Whether what only admins need is answered on a listener of its own.
    pub(in crate::front) has_admin_listener: bool,
    /// The connection that is answered, if it is known.
    pub(in crate::front) line: Option<Arc<Line>>,
}

impl State {
    /// What there is before any settings are known.
    pub(super) fn new(service: Service, default_space: &str, body_max: usize) -> State {
        let metrics = Arc::new(Metrics::new(service.clone(), SPACES_MAX));
        let imports = Arc::new(Semaphore::new(IMPORTS_MAX));
        let session_key = service.master().map(|master| SessionKey::new(master.session_key()));
        State {
            service,
            default_space: Arc::new(DefaultSpace::new(default_space)),
            metrics,
            body_max: Arc::new(AtomicUsize::new(body_max)),
            address_rules: Arc::default(),
            access: Arc::new(Access::new(AccessSettings::default())),
            // A service that was started to read may have no secret.
            session_key: Arc::new(session_key.unwrap_or_else(SessionKey::random)),
            browser_rules: Arc::default(),
            origins: Arc::new(Origins::new()),
            imports,
            description: openapi::LastDescription::default(),
            stopping: Arc::default(),
            stop_told: Arc::default(),
            budget: Budget::new(UNSENT_MAX),
            has_admin_listener: false,
            line: None,
        }
    }
}

impl Http {
    /// What addresses may do at present.
    pub fn address_rules(&self) -> Arc<AddressRules> {
        self.state.address_rules.load_full()
    }

    /// Changes what addresses may do, from the next connection and the next request on.
    pub fn set_address_rules(&self, rules: AddressRules) {
        self.state.address_rules.store(Arc::new(rules));
    }

    /// The same front with other ideas of who may do what.
    pub fn with_access(mut self, access: Arc<Access>) -> Http {
        self.state.access = access;
        // Handlers have a copy of the state.
        self.router = router(self.state.clone());
        self
    }

    /// Changes what the settings say of who may do what.
    pub fn set_access(&self, settings: AccessSettings) {
        self.state.access.set(settings);
    }

    /// Changes which names the server has, and which pages may use it.
    pub fn set_browser_rules(&self, rules: BrowserRules) {
        self.state.browser_rules.store(Arc::new(rules));
    }

    /// Changes how large the body of a request may be.
    pub fn set_body_max(&self, body_max: usize) {
        self.state.body_max.store(body_max, Ordering::Relaxed);
    }

    /// Sets how many bytes of large answers may wait in memory to be sent.
    pub fn with_unsent_max(mut self, bytes: usize) -> Http {
        self.state.budget = Budget::new(bytes);
        self
    }

    /// Sets how many keyspaces have metrics of their own. Nothing was counted before.
    pub fn with_metrics_spaces_max(mut self, spaces_max: usize) -> Http {
        self.state.metrics = Arc::new(Metrics::new(self.state.service.clone(), spaces_max));
        // Handlers have a copy of the state.
        self.router = router(self.state.clone());
        self
    }

    /// Answers on the admin listener alone what only admins need.
    pub(crate) fn with_admin_listener(mut self) -> Http {
        self.state.has_admin_listener = true;
        self
    }

    /// Reports from now on that this instance is not ready, so that load balancers use others.
    pub fn begin_stop(&self) {
        self.state.stopping.store(true, Ordering::Relaxed);
        self.state.stop_told.notify_waiters();
    }
}
