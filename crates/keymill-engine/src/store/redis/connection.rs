//! One connection to Redis: what is asked over it, who the server at its other end is, and which replicas have
//! what was written.
//!
//! `server` makes them.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{
    Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, Script, ScriptInvocation,
    ServerErrorKind,
};

use super::fold_error;
use super::met::Met;
use super::scripts::Scripts;
use crate::store::connections::refuse_unsafe;
use crate::store::{History, StoreError};

/// How long replicas may take to confirm.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// One checked connection.
pub(super) struct Connection {
    link: MultiplexedConnection,
    server_name: String,
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
    /// Whether it was given its stamp just now.
    pub(super) made: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server_name)
    }
}

impl Witness {
    pub(super) fn history(&self) -> History {
        History { server: 0, timeline: self.timeline }
    }
}

impl Connection {
    /// A connection that is still to be checked. `made_at` is when connecting began.
    pub(super) fn new(
        link: MultiplexedConnection,
        server_name: &str,
        store_key: String,
        replicas: Option<u32>,
        met: Arc<Met>,
        made_at: Instant,
    ) -> Connection {
        Connection {
            link,
            server_name: server_name.to_owned(),
            store_key,
            witness: Scripts::new().witness,
            replicas,
            met,
            course: Mutex::default(),
            made_at,
            checked_at: made_at,
            failed: AtomicBool::new(false),
        }
    }

    /// Refuses a server that is not safe, unless that is allowed, and learns who it is.
    pub(super) async fn check(&mut self, allow_unsafe: bool) -> Result<(), StoreError> {
        refuse_unsafe(&self.findings().await?, allow_unsafe)?;
        self.witness().await?;
        self.checked_at = Instant::now();
        Ok(())
    }

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

    /// When it was last checked.
    pub(super) fn checked_at(&self) -> Instant {
        self.checked_at
    }

    /// Whether an answer is missing, which may still come over it.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The server, in words.
    pub(super) fn server_name(&self) -> &str {
        &self.server_name
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
        command.query_async(&mut self.link.clone()).await
    }

    /// Asks several things that change nothing, in one round trip.
    pub(super) async fn ask_all<T: FromRedisValue>(
        &self,
        pipe: &Pipeline,
    ) -> Result<Vec<T>, StoreError> {
        if pipe.is_empty() {
            return Ok(Vec::new());
        }
        let answer = pipe.query_async(&mut self.link.clone()).await;
        self.answered(answer).map_err(StoreError::changing_nothing)
    }

    /// Runs a script of which it does not matter whether it was run.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        let answer = script.invoke_async(&mut self.link.clone()).await;
        self.answered(answer).map_err(StoreError::changing_nothing)
    }

    /// Runs a script that changes something, and has the replicas confirm it.
    pub(super) async fn change(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<Vec<String>, StoreError> {
        let answer = script.invoke_async(&mut self.link.clone()).await;
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
        let loaded = script.load_async(&mut self.link.clone()).await;
        self.answered(loaded).map_err(StoreError::changing_nothing)?;
        let answers = pipe.ignore_errors().query_async(&mut self.link.clone()).await;
        let answers: Vec<RedisResult<Vec<String>>> = self.answered(answers)?;
        let answers: Vec<_> = answers.into_iter().map(|answer| self.answered(answer)).collect();
        if answers.iter().flatten().any(|answer| has_changed(answer)) {
            self.wait_for_replicas().await?;
        }
        Ok(answers)
    }

    /// Runs a command that changes something, and has the replicas confirm it.
    pub(super) async fn change_by(&self, command: &Cmd) -> Result<(), StoreError> {
        let answer: Result<i64, _> = command.query_async(&mut self.link.clone()).await;
        self.answered(answer)?;
        self.wait_for_replicas().await
    }

    /// Who the server is, as of now.
    pub(super) async fn witness(&self) -> Result<Witness, StoreError> {
        self.witness_or("").await
    }

    /// The same, making the stamp where there is none; an empty one is not made.
    pub(super) async fn witness_or(&self, stamp: &str) -> Result<Witness, StoreError> {
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
                confirmed, replicas, self.server_name
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
            let error = fold_error(&self.server_name, &error);
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
