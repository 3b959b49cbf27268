//! The world that inputs meet: an instance on a SQLite file, with a keyspace of every kind.
//!
//! Every target asks [`enter`] for it. An instance serves many inputs, because it takes longer to start one than to
//! answer, and is then replaced, because inputs change it. So a failure may depend on inputs before the one that is
//! reported.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keymill::access::rights::Grants;
use keymill::access::{Access, AccessSettings, secret_text};
use keymill::front::http::Http;
use keymill_core::Blocklist;
use keymill_engine::operations::{Limits, OpenedStore, Opening, Service, Setup};
use keymill_engine::space::SpaceSpec;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::memory;

/// How many inputs an instance serves, and for how long: some inputs have it work in the background.
const INPUTS_MAX: u32 = 1_000;
const AGE_MAX: Duration = Duration::from_secs(10);
/// How long an input may take. Nothing that is waited for here takes longer than a store does.
const TIME_MAX: Duration = Duration::from_secs(20);
/// The largest body of a request.
const BODY_MAX: usize = 64 << 10;

/// The keyspaces of a world. `full` has handed out all its keys.
pub const SPACES: [&str; 9] =
    ["default", "plain", "pooled", "digest", "flakes", "uuids", "grouped", "full", "audited"];

/// An instance.
pub struct World {
    /// What answers are made with.
    pub service: Service,
    /// What answers where there are no tokens: everybody may do everything.
    open: Http,
    /// What answers where there is one.
    guarded: Http,
    /// The text of that token.
    token: String,
    _folder: TempDir,
}

/// What a client connects to, and what it has to show there.
pub struct Entrance<'a> {
    /// What answers.
    pub http: &'a Http,
    /// A token, if the client shows one.
    pub token: Option<&'a str>,
}

struct Running {
    world: World,
    runtime: Runtime,
    inputs: u32,
    began: Instant,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Runs something in the world, which must end in time; `true` if the world is to be replaced behind it.
pub fn enter(run: impl AsyncFnOnce(&World) -> bool) {
    RUNNING.with_borrow_mut(|running| {
        let Running { world, runtime, inputs, began } = running.get_or_insert_with(Running::start);
        *inputs += 1;
        let is_spoilt = runtime.block_on(async {
            let run = pin!(run(world));
            timeout(TIME_MAX, run).await.expect("an input is done with in time")
        });
        if is_spoilt || *inputs >= INPUTS_MAX || began.elapsed() >= AGE_MAX {
            if let Some(running) = running.take() {
                running.end();
            }
        }
    });
}

impl Running {
    fn start() -> Running {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let world = runtime.block_on(World::new());
        Running { world, runtime, inputs: 0, began: Instant::now() }
    }

    fn end(self) {
        let Running { world, runtime, .. } = self;
        runtime.block_on(world.service.stop(Duration::from_secs(5)));
        drop(world);
        // Calls of the store that are under way.
        runtime.shutdown_timeout(Duration::from_secs(5));
        memory::instance_is_gone();
    }
}

impl World {
    async fn new() -> World {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let url = format!("sqlite:{}", folder.path().join("keymill.db").display());
        let store = OpenedStore::open(&url, Opening::default()).await;
        let setup = Setup {
            store: store.expect("a new store can be opened"),
            data_dir: folder.path().to_owned(),
            secret: None,
            blocklist: Blocklist::builtin(),
            alias_rules: Default::default(),
            // Large enough for answers that are made in pieces.
            limits: Limits {
                count_max: 2_000,
                wait_max: Duration::from_millis(20),
                ..Limits::default()
            },
            require_existing: false,
            worker: None,
            clock: Default::default(),
            unsafe_store: None,
        };
        let service = Service::start(setup).await.expect("an instance can be started");
        for name in SPACES {
            let made = service.ensure_space(name, &settings(name)).await;
            made.expect("a keyspace can be made");
        }
        let keys = ["first", "second", "third"].map(str::to_owned);
        service.import_pool("pooled", &keys).await.expect("keys can be imported");
        let front = || Http::new(service.clone(), "default", BODY_MAX);
        let token = secret_text::make().expect("there is randomness").to_string();
        let guarded = front().with_access(Arc::new(Access::new(access(&token))));
        World { open: front(), guarded, token, service, _folder: folder }
    }

    /// One of the ways in, as a byte of the input says: mostly the one that asks for nothing.
    pub fn entrance(&self, choice: u8) -> Entrance<'_> {
        match choice % 8 {
            0 => Entrance { http: &self.guarded, token: None },
            1 => Entrance { http: &self.guarded, token: Some(&self.token) },
            _ => Entrance { http: &self.open, token: None },
        }
    }
}

/// One token, which may do much, and nothing for callers without one but to read what `default` is.
fn access(token: &str) -> AccessSettings {
    let hash = secret_text::hash(token.as_bytes()).expect("it was made as a token");
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let token = json!({
        "name": "some", "secrets": [{"sha256": hash}], "rate": 3_000, "quota": 1_000_000,
        "allow": ["take:default,plain,full", "read:*", "name:digest"],
        "created_at": "2025-01-01T00:00:00Z", "created_by": "nobody",
    });
    AccessSettings {
        anonymous: Grants::parse(["read:default"]).expect("it is a right"),
        tokens: vec![serde_json::from_value(token).expect("it is a token on record")],
        ..AccessSettings::default()
    }
}

fn settings(name: &str) -> SpaceSpec {
    let settings = match name {
        "plain" => json!({"kind": "sequential", "length": 0}),
        "pooled" => json!({"kind": "pooled", "ttl_seconds": 60}),
        "digest" => json!({"kind": "digest", "normalize": "url"}),
        "flakes" => json!({"kind": "snowflake", "layout": "javascript"}),
        "uuids" => json!({"kind": "uuid"}),
        "grouped" => json!({
            "alphabet": "base32", "length": 9, "prefix": "ab_", "group": 4, "check": true,
        }),
        "full" => json!({"kind": "sequential", "alphabet": "decimal", "length": 2, "start": 100}),
        "audited" => json!({"audit": "key"}),
        _ => json!({}),
    };
    serde_json::from_value(settings).expect("these are settings of a keyspace")
}
