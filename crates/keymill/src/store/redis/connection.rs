//! Connections to Redis: whether the server is safe, whose it is, and who has what was written.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, ScriptInvocation, ServerErrorKind, TlsCertificates,
};
use tokio::time::timeout;

use super::fold_error;
use super::scripts::Scripts;
use crate::floor::History;
use crate::store::pool::{CALL_MAX, CHECK_EVERY, CONNECT_MAX, refuse_unsafe};
use crate::store::url::{StoreUrl, Tls};
use crate::store::{Finding, Opening, StoreError, values};

const PORT: u16 = 6379;
/// How long replicas may take to confirm.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// A connection that has been idle for longer is tried before it is used.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// The server of a URL.
pub(super) struct Server {
    url: StoreUrl,
    client: Client,
    prefix: String,
    /// How many replicas must confirm a change; where it is not set, one, once there was one.
    replicas: Option<u32>,
    allow_unsafe: bool,
    met: Arc<Met>,
}

/// What all connections know of the server, as of the last time that one of them looked.
#[derive(Debug, Default)]
struct Met {
    /// Whether it was ever seen with a replica.
    replicated: AtomicBool,
}

/// One checked connection.
pub(super) struct Connection {
    connection: MultiplexedConnection,
    place: String,
    store_key: String,
    witness: redis::Script,
    replicas: Option<u32>,
    met: Arc<Met>,
    /// Of the server at the other end of this very connection: one that was made before a failover
    /// may lead to another than one that was made after it.
    timeline: AtomicU64,
    checked_at: Instant,
    failed: AtomicBool,
}

/// Who the server is. All empty, where it has no stamp.
#[derive(Debug, Default)]
pub(super) struct Witness {
    pub(super) identity: String,
    timeline: u64,
    made: bool,
}

impl Server {
    pub(super) fn parse(url: &str, opening: Opening) -> Result<Server, StoreError> {
        let url = StoreUrl::parse(url, &["prefix", "replicas"])?;
        let refuse = |problem: String| {
            Err(StoreError::Broken(format!("the store's URL {problem}: redis://host:6379/0")))
        };
        let [host] = url.hosts.as_slice() else {
            return refuse("must name one Redis server".to_owned());
        };
        let Ok(database) = (if url.path.is_empty() { "0" } else { &url.path }).parse::<i64>()
        else {
            return refuse(format!("has `{}` where the number of a database belongs", url.path));
        };
        let replicas = url.setting("replicas").map(str::parse).transpose();
        let Ok(replicas) = replicas else {
            return refuse("has replicas that are not a number".to_owned());
        };
        let prefix = url.setting("prefix").unwrap_or("keymill").to_owned();
        if prefix.is_empty() || prefix.contains(['{', '}']) {
            return refuse("has a prefix that is empty or has braces".to_owned());
        }
        let tls = match url.tls()? {
            None if url.scheme == "rediss" => Some(Tls::default()),
            tls => tls,
        };
        let mut settings = RedisConnectionInfo::default().set_db(database);
        if let Some(user) = &url.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &url.password {
            settings = settings.set_password(password);
        }
        let scheme = if tls.is_some() { "rediss" } else { "redis" };
        let address = format!("{scheme}://{}:{}", bracketed(&host.name), host.port_or(PORT));
        let client = client(&address, settings, tls);
        let allow_unsafe = opening.allow_unsafe;
        Ok(Server { client: client?, url, prefix, replicas, allow_unsafe, met: Arc::default() })
    }

    pub(super) fn shown(&self) -> String {
        self.url.shown()
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Gives the server its stamp, where it has none and `opening` allows it; whether it did.
    pub(super) async fn prepare(&self, opening: Opening) -> Result<bool, StoreError> {
        let connection = self.connect().await?;
        let stamp = if opening.create && opening.migrate { values::stamp() } else { String::new() };
        let witness = connection.witness_or(&stamp).await?;
        if witness.identity.is_empty() && !opening.create {
            let place = self.shown();
            return Err(StoreError::Broken(format!("{place} is empty, and is not created")));
        }
        Ok(witness.made)
    }

    async fn connect(&self) -> Result<Connection, StoreError> {
        let place = format!("redis at {}", self.url.hosts[0]);
        let connect = self.connect_to(&place);
        timeout(CONNECT_MAX, connect).await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable(format!("{place} did not answer in {CONNECT_MAX:?}")))
        })
    }

    async fn connect_to(&self, place: &str) -> Result<Connection, StoreError> {
        let limits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_response_timeout(Some(CALL_MAX));
        let connection = self.client.get_multiplexed_async_connection_with_config(&limits).await;
        let connection = Connection {
            connection: connection.map_err(|error| fold_error(place, &error).changing_nothing())?,
            place: place.to_owned(),
            store_key: format!("{}:store", self.prefix),
            witness: Scripts::new().witness,
            replicas: self.replicas,
            met: self.met.clone(),
            timeline: AtomicU64::new(0),
            checked_at: Instant::now(),
            failed: AtomicBool::new(false),
        };
        refuse_unsafe(&connection.findings().await?, self.allow_unsafe)?;
        connection.witness().await?;
        Ok(connection)
    }
}

impl Manager for Server {
    type Type = Connection;
    type Error = StoreError;

    async fn create(&self) -> Result<Connection, StoreError> {
        self.connect().await
    }

    async fn recycle(
        &self,
        connection: &mut Connection,
        metrics: &Metrics,
    ) -> RecycleResult<StoreError> {
        if connection.failed.load(Ordering::Relaxed) {
            return Err(RecycleError::message("failed"));
        }
        if metrics.last_used() > IDLE_MAX {
            connection.ask::<String>(&redis::cmd("PING")).await?;
        }
        if connection.checked_at.elapsed() > CHECK_EVERY {
            refuse_unsafe(&connection.findings().await?, self.allow_unsafe)?;
            connection.witness().await?;
            connection.checked_at = Instant::now();
        }
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

impl Witness {
    pub(super) fn history(&self) -> History {
        History { server: 0, timeline: self.timeline }
    }
}

impl Connection {
    /// The course of history that the server is on.
    pub(super) fn history(&self) -> History {
        History { server: 0, timeline: self.timeline.load(Ordering::SeqCst) }
    }

    /// Asks something that changes nothing.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let answer = command.query_async(&mut self.connection.clone()).await;
        self.answered(answer).map_err(StoreError::changing_nothing)
    }

    /// Asks several things that change nothing, in one round trip.
    pub(super) async fn ask_all<T: FromRedisValue>(
        &self,
        pipe: &Pipeline,
    ) -> Result<Vec<T>, StoreError> {
        if pipe.is_empty() {
            return Ok(Vec::new());
        }
        let answer = pipe.query_async(&mut self.connection.clone()).await;
        self.answered(answer).map_err(StoreError::changing_nothing)
    }

    /// Runs a script of which it does not matter whether it was run.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        let answer = script.invoke_async(&mut self.connection.clone()).await;
        self.answered(answer).map_err(StoreError::changing_nothing)
    }

    /// Runs a script that changes something, and has the replicas confirm it.
    pub(super) async fn change(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<Vec<String>, StoreError> {
        let answer = script.invoke_async(&mut self.connection.clone()).await;
        let answer: Vec<String> = self.answered(answer)?;
        // A refusal has changed nothing that a replica would have to know.
        if answer.first().is_some_and(|status| status == "ok" || status == "made") {
            self.wait_for_replicas().await?;
        }
        Ok(answer)
    }

    /// Runs a command that changes something, and has the replicas confirm it.
    pub(super) async fn change_by(&self, command: &Cmd) -> Result<(), StoreError> {
        let answer: Result<i64, _> = command.query_async(&mut self.connection.clone()).await;
        self.answered(answer)?;
        self.wait_for_replicas().await
    }

    /// Who the server is, as of now.
    pub(super) async fn witness(&self) -> Result<Witness, StoreError> {
        self.witness_or("").await
    }

    pub(super) async fn findings(&self) -> Result<Vec<Finding>, StoreError> {
        let mut info = redis::cmd("INFO");
        let info: String = self.ask(info.arg("everything")).await?;
        let info = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or("unknown").to_owned()
        };
        // While it loads, it says of itself what is not so.
        if info("loading") == "1" || info("async_loading") == "1" {
            let place = &self.place;
            return Err(StoreError::Unavailable(format!("{place} is still loading its data")));
        }
        let fsync = self.setting("appendfsync").await?;
        let on_rewrite = self.setting("no-appendfsync-on-rewrite").await?;
        let policy = self.setting("maxmemory-policy").await?;
        let (role, aof) = (info("role"), info("aof_enabled"));
        let aof = if aof == "1" { "yes".to_owned() } else { format!("no ({aof})") };
        let replicas = format!("{} replicas", info("connected_slaves"));
        Ok(vec![
            Finding::new("server", &info("redis_version"), "5 or later", true),
            Finding::new("run_id", &info("run_id"), "any", true),
            Finding::new("replication ID", &info("master_replid"), "any", true),
            Finding::new("role", &role, "master", role == "master"),
            Finding::new("appendonly", &aof, "yes", aof == "yes"),
            Finding::new("appendfsync", &fsync, "always", fsync == "always"),
            Finding::new("no-appendfsync-on-rewrite", &on_rewrite, "no", on_rewrite == "no"),
            Finding::new("maxmemory-policy", &policy, "noeviction", policy == "noeviction"),
            Finding::new(
                "promise",
                &format!("best effort, {replicas}"),
                "a store whose failover loses nothing: PostgreSQL, etcd",
                false,
            )
            .warning(),
        ])
    }

    /// A setting of the server. One that it will not tell is unknown, which is not safe.
    async fn setting(&self, name: &str) -> Result<String, StoreError> {
        let mut get = redis::cmd("CONFIG");
        get.arg("GET").arg(name);
        let answer = get.query_async::<Vec<String>>(&mut self.connection.clone()).await;
        let hidden = |error: &redis::RedisError| {
            matches!(
                error.kind(),
                ErrorKind::Server(ServerErrorKind::NoPerm) | ErrorKind::Extension
            ) || error.code() == Some("ERR")
        };
        match answer {
            Err(error) if hidden(&error) => Ok(format!("unknown ({error})")),
            answer => {
                let pair = self.answered(answer).map_err(StoreError::changing_nothing)?;
                Ok(pair.get(1).cloned().unwrap_or_else(|| "unknown".to_owned()))
            }
        }
    }

    /// The same, making the stamp where there is none; an empty one is not made.
    async fn witness_or(&self, stamp: &str) -> Result<Witness, StoreError> {
        let mut script = self.witness.key(&self.store_key);
        let answer: Vec<String> = self.run(script.arg(stamp)).await?;
        let [identity, timeline, replicated, made] = answer.as_slice() else {
            self.timeline.store(0, Ordering::SeqCst);
            return Ok(Witness::default());
        };
        let timeline = timeline.parse().unwrap_or_default();
        self.timeline.store(timeline, Ordering::SeqCst);
        self.met.replicated.store(replicated == "1", Ordering::SeqCst);
        Ok(Witness { identity: identity.clone(), timeline, made: made == "1" })
    }

    async fn wait_for_replicas(&self) -> Result<(), StoreError> {
        let replicated = self.met.replicated.load(Ordering::SeqCst);
        let replicas = self.replicas.unwrap_or(u32::from(replicated));
        if replicas == 0 {
            return Ok(());
        }
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(WAIT_MAX.as_millis().to_string());
        let doubt = |problem: String| StoreError::InDoubt(problem);
        let confirmed: u32 = self.ask(&wait).await.map_err(|error| doubt(error.to_string()))?;
        if confirmed < replicas {
            return Err(doubt(format!(
                "{} of {} replicas of {} confirmed it; set replicas=0 in the store's URL if there \
                 shall be none",
                confirmed, replicas, self.place
            )));
        }
        Ok(())
    }

    fn answered<T>(&self, answer: Result<T, redis::RedisError>) -> Result<T, StoreError> {
        answer.map_err(|error| {
            let follows = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
            let error = fold_error(&self.place, &error);
            // An answer that did not come may still come, on this connection; and one to a server
            // that has become a replica leads nowhere.
            if follows || matches!(error, StoreError::InDoubt(_)) {
                self.failed.store(true, Ordering::Relaxed);
            }
            error
        })
    }
}

fn client(
    address: &str,
    settings: RedisConnectionInfo,
    tls: Option<Tls>,
) -> Result<Client, StoreError> {
    let broken = |problem: String| StoreError::Broken(format!("the store's URL: {problem}"));
    let info = address.into_connection_info().map_err(|error| broken(error.to_string()))?;
    let info = info.set_redis_settings(settings);
    let client = match tls {
        None => Client::open(info),
        Some(Tls { ca }) => {
            let root_cert = ca.map(std::fs::read).transpose();
            let root_cert = root_cert.map_err(|error| broken(format!("tls_ca: {error}")))?;
            Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
        }
    };
    client.map_err(|error| broken(error.to_string()))
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}
