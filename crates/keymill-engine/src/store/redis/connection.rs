//! Connections to Redis: whether the server is safe, whose it is, and who has what was written.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisError, RedisResult, Script, ScriptInvocation, ServerErrorKind,
    TlsCertificates,
};

use super::fold_error;
use super::met::Met;
use super::scripts::Scripts;
use crate::store::connections::{CALL_MAX, CHECK_EVERY, CONNECT_MAX, in_time, refuse_unsafe};
use crate::store::url::{StoreUrl, Tls};
use crate::store::{History, Opening, StoreError, values};

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

/// One checked connection.
pub(super) struct Connection {
    connection: MultiplexedConnection,
    place: String,
    store_key: String,
    witness: Script,
    replicas: Option<u32>,
    met: Arc<Met>,
    /// Of the server at the other end of this very connection: one that was made before a failover
    /// may lead to another than one that was made after it.
    course: Mutex<Course>,
    made_at: Instant,
    checked_at: Instant,
    failed: AtomicBool,
}

/// The course of history that a server was on at the last look.
#[derive(Debug, Default)]
struct Course {
    replication_id: String,
    timeline: u64,
}

/// Who the server is. The identity is empty where it has no stamp.
#[derive(Debug)]
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
            return refuse(format!("has `{}` in place of the number of a database", url.path));
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

    /// Has no connection used again that was made before this time.
    pub(super) fn give_up(&self, before: Instant) {
        self.met.give_up(before);
    }

    /// Whether a connection that was made at this time is not to be used again.
    pub(super) fn has_given_up(&self, made_at: Instant) -> bool {
        self.met.has_given_up(made_at)
    }

    /// Gives the server its stamp, where it has none and `opening` allows it; whether it did.
    pub(super) async fn prepare(&self, opening: Opening) -> Result<bool, StoreError> {
        let connection = self.connect().await?;
        let stamp = if opening.create && opening.migrate { values::stamp() } else { String::new() };
        let witness = connection.witness_or(&stamp).await?;
        if witness.identity.is_empty() && !opening.create {
            return Err(StoreError::empty(&self.shown(), opening));
        }
        Ok(witness.made)
    }

    async fn connect(&self) -> Result<Connection, StoreError> {
        let place = format!("redis at {}", self.url.hosts[0]);
        in_time(&place, self.connect_to(&place)).await
    }

    async fn connect_to(&self, place: &str) -> Result<Connection, StoreError> {
        let made_at = Instant::now();
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
            course: Mutex::default(),
            made_at,
            checked_at: made_at,
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
        let failed = connection.failed.load(Ordering::Relaxed);
        if failed || self.has_given_up(connection.made_at) {
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
        History { server: 0, timeline: self.course().timeline }
    }

    /// The replication ID under which that history was met.
    pub(super) fn replication_id(&self) -> String {
        self.course().replication_id.clone()
    }

    /// When connecting began: it leads to where the address led then.
    pub(super) fn made_at(&self) -> Instant {
        self.made_at
    }

    /// The server, in words.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Has neither this connection used again nor any other that is there.
    pub(super) fn give_up(&self) {
        self.met.give_up(Instant::now());
    }

    /// Asks something that changes nothing.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let answer = self.try_ask(command).await;
        self.answered(answer).map_err(StoreError::changing_nothing)
    }

    /// The same, with the error as the driver has it.
    pub(super) async fn try_ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        command.query_async(&mut self.connection.clone()).await
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
        if has_changed(&answer) {
            self.wait_for_replicas().await?;
        }
        Ok(answer)
    }

    /// Runs one script many times, with what is in a pipeline of `EVALSHA`, in one round trip, and has
    /// the replicas confirm all of it. What one of them answers is apart from the others.
    pub(super) async fn change_all(
        &self,
        script: &Script,
        pipe: &mut Pipeline,
    ) -> Result<Vec<Result<Vec<String>, StoreError>>, StoreError> {
        let loaded = script.load_async(&mut self.connection.clone()).await;
        self.answered(loaded).map_err(StoreError::changing_nothing)?;
        let answers = pipe.ignore_errors().query_async(&mut self.connection.clone()).await;
        let answers: Vec<RedisResult<Vec<String>>> = self.answered(answers)?;
        let answers: Vec<_> = answers.into_iter().map(|answer| self.answered(answer)).collect();
        if answers.iter().flatten().any(|answer| has_changed(answer)) {
            self.wait_for_replicas().await?;
        }
        Ok(answers)
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

    /// The same, making the stamp where there is none; an empty one is not made.
    async fn witness_or(&self, stamp: &str) -> Result<Witness, StoreError> {
        let mut script = self.witness.key(&self.store_key);
        let answer: Vec<String> = self.run(script.arg(stamp)).await?;
        let [identity, timeline, replicated, made, replication_id] = answer.as_slice() else {
            return Err(StoreError::Broken("a script's answer is cut short".to_owned()));
        };
        let timeline = timeline.parse().unwrap_or_default();
        *self.course() = Course { replication_id: replication_id.clone(), timeline };
        if !identity.is_empty() {
            self.met.learn(self.made_at, timeline, replicated == "1");
        }
        Ok(Witness { identity: identity.clone(), timeline, made: made == "1" })
    }

    /// Waits until replicas have what was changed over this connection; in doubt, where too few have.
    pub(super) async fn wait_for_replicas(&self) -> Result<(), StoreError> {
        let replicas = self.replicas.unwrap_or(u32::from(self.met.is_replicated()));
        if replicas == 0 {
            return Ok(());
        }
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(WAIT_MAX.as_millis().to_string());
        let problem = match self.ask::<u32>(&wait).await {
            Ok(confirmed) if confirmed >= replicas => return Ok(()),
            Ok(confirmed) => format!(
                "{} of {} replicas of {} confirmed the change; if it has no replicas, set \
                 replicas=0 in the store's URL",
                confirmed, replicas, self.place
            ),
            Err(error) => error.to_string(),
        };
        // A master that nobody follows may be one whose place another has taken.
        self.give_up();
        Err(StoreError::InDoubt(problem))
    }

    pub(super) fn answered<T>(&self, answer: RedisResult<T>) -> Result<T, StoreError> {
        answer.map_err(|error| {
            // The address may lead to the new master by now; this connection, and those that are as
            // old, never will.
            if is_no_master(&error) {
                self.give_up();
            }
            let error = fold_error(&self.place, &error);
            // An answer that did not come may still come, on this connection.
            if matches!(error, StoreError::InDoubt(_)) {
                self.failed.store(true, Ordering::Relaxed);
            }
            error
        })
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().expect("nothing panics while it is held")
    }
}

/// Whether a script says that it has changed something. A refusal has changed nothing that a replica
/// would have to know.
fn has_changed(answer: &[String]) -> bool {
    answer.first().is_some_and(|status| status == "ok" || status == "made")
}

/// Whether a server has become another's replica, and perhaps loads what that one has. Before Redis 7
/// it says so in the words of a script that has failed.
fn is_no_master(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, MasterDown, ReadOnly, ResponseError};
    match error.kind() {
        ErrorKind::Server(BusyLoading | MasterDown | ReadOnly) => true,
        ErrorKind::Server(ResponseError) => {
            error.detail().is_some_and(|said| said.contains("READONLY"))
        }
        _ => false,
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
