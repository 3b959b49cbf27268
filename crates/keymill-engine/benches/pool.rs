//! Pools and records of single keys: filling against the database's own bulk load, claims from small,
//! large and half-drawn pools, takes that share commits against takes that do not, and keys in use
//! elsewhere.
//!
//! Run it with private servers: `backends cargo bench -p keymill-engine --all-features --bench pool`. How many keys is
//! `KEYMILL_BENCH_KEYS`, a million if left out. `sqlite3` and `psql` are the bulk loaders. The figures
//! depend on the disk; what matters is how they compare in one run.

#![allow(clippy::unwrap_used, reason = "a bench that fails to unwrap has failed, and says where")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keymill_core::Blocklist;
use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{
    ClaimAsk, Confirm, Evidence, KeyUse, LeaseAsk, Opening, Store, Uses,
};
use keymill_engine::operations::{AliasRules, Filling, Limits, Service, Setup, Space};
use keymill_engine::space::{Audit, Kind, SpaceSpec};

/// How many callers take at once.
const CALLERS: u64 = 64;
const BUSY: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() {
    let keys = std::env::var("KEYMILL_BENCH_KEYS").ok();
    let keys: u64 = keys.map_or(1_000_000, |keys| keys.parse().unwrap());
    let only = std::env::args().nth(1).filter(|only| !only.starts_with('-'));
    let runs = |part: &str| only.as_deref().is_none_or(|only| only == part);
    for kind in ["sqlite", "postgres", "mysql", "mysql9", "redis"] {
        let folder = tempfile::tempdir().unwrap();
        let url = match kind {
            "sqlite" => format!("sqlite:{}", folder.path().join("keymill.db").display()),
            _ => match std::env::var(format!("KEYMILL_TEST_{}", kind.to_uppercase())) {
                Ok(url) => url,
                Err(_) => {
                    println!("{kind}: no server");
                    continue;
                }
            },
        };
        let bench = Bench::new(kind, &url, folder.path()).await;
        let has_rows = kind != "redis";
        if runs("fill") {
            bench.fill(keys).await;
        }
        if runs("claim") && has_rows {
            bench.claims(keys).await;
        }
        if runs("audit") && has_rows {
            bench.audit(Kind::Pooled).await;
            bench.audit(Kind::Shuffled).await;
        }
        if runs("digest") {
            bench.digests().await;
        }
        if runs("import") {
            bench.import(keys).await;
        }
    }
}

struct Bench {
    kind: String,
    url: String,
    store: Store,
    service: Service,
    instance: Instance,
    folder: std::path::PathBuf,
    spaces: AtomicU64,
}

impl Bench {
    async fn new(kind: &str, url: &str, folder: &Path) -> Bench {
        let store = keymill_engine::internals::store::open(url, Opening::default()).await.unwrap();
        let setup = Setup {
            store: store.clone().into(),
            data_dir: folder.to_owned(),
            secret: None,
            blocklist: Blocklist::none(),
            alias_rules: AliasRules::default(),
            limits: Limits { wait_max: Duration::from_secs(10), ..Limits::default() },
            require_existing: false,
            worker: None,
            clock: Default::default(),
            unsafe_store: None,
        };
        Bench {
            kind: kind.to_owned(),
            url: url.to_owned(),
            service: Service::start(setup).await.unwrap(),
            store,
            instance: Instance::this_process(),
            folder: folder.to_owned(),
            spaces: AtomicU64::new(0),
        }
    }

    /// A new space of a kind.
    async fn space(&self, kind: Kind, audit: Audit) -> Arc<Space> {
        let number = self.spaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-{}-{number}", self.instance.id);
        let spec = SpaceSpec { kind: Some(kind), audit: Some(audit), ..SpaceSpec::default() };
        self.service.ensure_space(&name, &spec).await.unwrap();
        self.service.space(&name).await.unwrap()
    }

    async fn pool_of(&self, keys: u64) -> Arc<Space> {
        let space = self.space(Kind::Pooled, Audit::Batch).await;
        let filled = self.service.fill_pool(&space.name, Filling::Add(keys), |_, _| {}).await;
        assert_eq!(filled.unwrap(), keys);
        space
    }

    async fn fill(&self, keys: u64) {
        let begin = Instant::now();
        let space = self.pool_of(keys).await;
        let ours = begin.elapsed();
        let rate = keys as f64 / ours.as_secs_f64();
        let theirs = match self.kind.as_str() {
            "sqlite" => Some(self.sqlite_import(&space, keys)),
            "postgres" => Some(self.psql_copy(&space, keys)),
            _ => None,
        };
        let ratio = theirs.map_or(String::new(), |theirs| {
            let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
            format!("; bulk load {theirs:.1?}, ratio {ratio:.2}")
        });
        println!("{}: fill of {keys} keys {ours:.1?}, {rate:.0}/s{ratio}", self.kind);
    }

    /// The same rows as a file.
    fn rows(&self, space: &Space, keys: u64, separator: char) -> std::path::PathBuf {
        let mut text = String::new();
        space.generations().keys(0..keys, |ordinal, key| {
            let key = std::str::from_utf8(key).unwrap();
            let name = &space.name;
            writeln!(text, "{}{separator}{name}{separator}{key}", ordinal + 131_072).unwrap();
        });
        let path = self.folder.join("rows");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn sqlite_import(&self, space: &Space, keys: u64) -> Duration {
        let rows = self.rows(space, keys, ',');
        let database = self.folder.join("import.db");
        let script = format!(
            "PRAGMA journal_mode = wal; PRAGMA synchronous = full;
            CREATE TABLE available_keys (id INTEGER NOT NULL, space TEXT NOT NULL,
                key TEXT NOT NULL, PRIMARY KEY (space, id)) WITHOUT ROWID;\n\
            .mode csv\n.import {} available_keys\n",
            rows.display()
        );
        let begin = Instant::now();
        run(Command::new("sqlite3").arg(&database), &script);
        begin.elapsed()
    }

    fn psql_copy(&self, space: &Space, keys: u64) -> Duration {
        let rows = self.rows(space, keys, '\t');
        let url = self.url.split('?').next().unwrap();
        let script =
            "CREATE TABLE bulk_keys (id bigint NOT NULL, space text COLLATE \"C\" NOT NULL,
            key text COLLATE \"C\" NOT NULL, reserved_by text COLLATE \"C\", reserved_at bigint,
            PRIMARY KEY (space, id));
            CREATE INDEX ON bulk_keys (space, reserved_at) WHERE reserved_at IS NOT NULL;";
        run(Command::new("psql").args(["-q", url]), script);
        let copy = format!("\\copy bulk_keys (id, space, key) FROM '{}'\n", rows.display());
        let begin = Instant::now();
        run(Command::new("psql").args(["-q", url]), &copy);
        let time = begin.elapsed();
        run(Command::new("psql").args(["-q", url]), "DROP TABLE bulk_keys;");
        time
    }

    async fn claims(&self, keys: u64) {
        let small = self.pool_of(10_000).await;
        let few = self.claim_time(&small, 50).await;
        let large = self.pool_of(keys).await;
        let many = self.claim_time(&large, 200).await;
        let mut after = i64::MIN;
        for _ in 0..keys / 2 / 10_000 {
            after = self.claim(&large, 10_000, after).await.1;
        }
        let half = self.claim_time(&large, 200).await;
        let ratio = |time: Duration| time.as_secs_f64() / few.as_secs_f64();
        println!(
            "{}: claim of 100 from 10,000 {few:.0?}, from {keys} {many:.0?} ({:.2}), half drawn {half:.0?} ({:.2})",
            self.kind,
            ratio(many),
            ratio(half)
        );
    }

    /// The median time of a claim, by an instance that has just started.
    async fn claim_time(&self, space: &Space, times: usize) -> Duration {
        let (mut measured, mut after) = (Vec::new(), i64::MIN);
        for _ in 0..times {
            let begin = Instant::now();
            after = self.claim(space, 100, after).await.1;
            measured.push(begin.elapsed());
        }
        measured.sort_unstable();
        measured[measured.len() / 2]
    }

    async fn claim(&self, space: &Space, size: u64, after: i64) -> (usize, i64) {
        let (ask, floor) = (self.claim_ask(space, size, after), self.floor().await);
        let claim = self.store.rows.as_ref().unwrap().pools.claim(&ask, &floor).await.unwrap();
        (claim.keys.len(), claim.keys.last().map_or(after, |last| last.id + 1))
    }

    fn claim_ask(&self, space: &Space, size: u64, after: i64) -> ClaimAsk {
        ClaimAsk {
            space: space.name.clone(),
            instance: self.instance.clone(),
            size,
            share: 1,
            after,
            reserve: false,
            reserve_max: Duration::from_secs(300),
            ttl: None,
            last: None,
        }
    }

    async fn floor(&self) -> keymill_engine::internals::store::Floor {
        let store = self.store.admin.identity().await.unwrap();
        keymill_engine::internals::store::Floor {
            store,
            mark: keymill_engine::internals::store::Mark::default(),
        }
    }

    /// Takes of one key each, every key on record before its answer.
    async fn audit(&self, kind: Kind) {
        let space = self.space(kind, Audit::Key).await;
        if kind == Kind::Pooled {
            let fill = Filling::Add(2_000_000);
            self.service.fill_pool(&space.name, fill, |_, _| {}).await.unwrap();
        }
        let together = self
            .crowd(
                |bench, _, space| async move {
                    bench.take(&space, 1, "caller", |_| {}).await.unwrap();
                },
                &space,
            )
            .await;
        // The same rows, in a commit each.
        let other = self.space(kind, Audit::Key).await;
        let pooled = kind == Kind::Pooled;
        let mut reserved = Vec::new();
        if pooled {
            let fill = Filling::Add(60_000);
            self.service.fill_pool(&other.name, fill, |_, _| {}).await.unwrap();
            let mut ask = self.claim_ask(&other, 10_000, i64::MIN);
            ask.reserve = true;
            let (rows, floor) = (self.store.rows.as_ref().unwrap(), self.floor().await);
            for _ in 0..6 {
                reserved.extend(rows.pools.claim(&ask, &floor).await.unwrap().keys);
            }
        }
        let reserved = Arc::new(reserved);
        let (store, instance, floor) =
            (self.store.clone(), self.instance.id.clone(), self.floor().await);
        let alone = self
            .crowd(
                move |_, number, space| {
                    let place = usize::try_from(number).unwrap();
                    let key = reserved.get(place).cloned().unwrap_or_else(|| {
                        keymill_engine::internals::store::Claimed {
                            id: number,
                            key: format!("k{number}"),
                        }
                    });
                    let key = KeyUse { id: key.id, key: key.key, caller: "caller".into() };
                    let uses = Uses {
                        space: space.name.clone(),
                        instance: instance.clone(),
                        keys: vec![key],
                        pooled,
                        ttl: None,
                        last: None,
                    };
                    let (store, floor) = (store.clone(), floor.clone());
                    async move {
                        // One that waited too long for its turn tries again.
                        let _ = store.rows.as_ref().unwrap().use_log.note(&uses, &floor).await;
                    }
                },
                &other,
            )
            .await;
        println!(
            "{}: audit \"key\" on a {kind} keyspace, {CALLERS} callers: {together:.0} takes/s; a commit each {alone:.0}/s; ratio {:.1}",
            self.kind,
            together / alone
        );
    }

    /// How often a second a crowd of callers does something.
    async fn crowd<F: Future<Output = ()> + Send>(
        &self,
        what: impl Fn(Service, i64, Arc<Space>) -> F + Clone + Send + 'static,
        space: &Arc<Space>,
    ) -> f64 {
        let (begin, numbers) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..CALLERS {
            let (what, service) = (what.clone(), self.service.clone());
            let (space, numbers) = (space.clone(), numbers.clone());
            tasks.spawn(async move {
                while begin.elapsed() < BUSY {
                    let number = numbers.fetch_add(1, Ordering::Relaxed).cast_signed();
                    what(service.clone(), number, space.clone()).await;
                }
            });
        }
        tasks.join_all().await;
        numbers.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64()
    }

    async fn digests(&self) {
        let space = self.space(Kind::Digest, Audit::Batch).await;
        let rate = self
            .crowd(
                |service, number, space| async move {
                    let input = format!("https://example.com/page/{number}");
                    service.digest(&space.name, "", &input).await.unwrap();
                },
                &space,
            )
            .await;
        println!("{}: {rate:.0} digests/s, {CALLERS} callers", self.kind);
    }

    async fn import(&self, keys: u64) {
        // Keys of another secret: as good as random ones.
        let (space, other) = (
            self.space(Kind::Shuffled, Audit::Batch).await,
            self.space(Kind::Shuffled, Audit::Batch).await,
        );
        let before = self.lease_time(&space).await;
        let (begin, memory) = (Instant::now(), memory());
        let mut start = 0;
        let (mut made, mut refused) = (0, 0);
        while start < keys {
            let end = keys.min(start + 1_000_000);
            let mut lines = Vec::new();
            other.generations().keys(start..end, |_, key| {
                lines.push(String::from_utf8(key.to_vec()).unwrap());
            });
            let imported = self.service.import_used(&space.name, &lines).await.unwrap();
            made += imported.made;
            refused += imported.refused.len();
            start = end;
        }
        let time = begin.elapsed();
        let after = self.lease_time(&space).await;
        println!(
            "{}: import of {keys} used keys {time:.1?} ({made} made, {refused} granted already), memory +{} MB; lease {before:.0?} before, {after:.0?} after ({:.2})",
            self.kind,
            (self::memory() - memory) / 1_024,
            after.as_secs_f64() / before.as_secs_f64()
        );
    }

    /// The median time of a lease with its skips.
    async fn lease_time(&self, space: &Space) -> Duration {
        let mut times = Vec::new();
        for _ in 0..200 {
            let ask = LeaseAsk {
                space: space.name.clone(),
                instance: self.instance.clone(),
                size: 1_000,
                share: 64,
                last_lease: None,
                spent: Vec::new(),
            };
            let floor = self.floor().await;
            let begin = Instant::now();
            let grant = self.store.leases.lease(&ask, &floor).await.unwrap();
            let settled = Confirm {
                space: space.name.clone(),
                reached: grant.mark,
                evidence: Evidence::Lease {
                    lease: grant.lease,
                    holder: self.instance.id.clone(),
                    end: grant.ordinals.end,
                },
                skips_in: grant.ordinals,
            };
            assert!(self.store.snapshots.confirm(&settled).await.unwrap().on_record);
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        times[times.len() / 2]
    }
}

/// The most memory this process has had, in kB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Runs a program with a script.
fn run(command: &mut Command, script: &str) {
    use std::io::Write;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}
