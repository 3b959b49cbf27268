//! Calls: an attempt at one server after the other, until one answers or it makes no sense to go on.
//!
//! Every call of a client comes through [`run`], and so does the refill of a cache.
//!
//! # Invariants
//!
//! - What is not safe to repeat is sent again only if not a byte of it was sent.
//! - Requests that servers may have seen are repeated only within the retry budget. A request that never left costs none:
//!   no server has more to do because of it.
//! - A call ends by its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::backoff::Backoff;
use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::servers::{Server, Servers, Tried};
use crate::transport::Failure;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A call with all its attempts.
    pub(crate) call: Duration,
    /// One attempt.
    pub(crate) attempt: Duration,
    /// Whether a call that fails is tried again.
    pub(crate) is_repeating: bool,
}

/// Something that can be tried at one server, and at another.
pub(crate) trait Attempt: Sync {
    /// What a server answers.
    type Answer: Send;

    /// Tries it once. `sent` is set when a server may have seen it.
    fn attempt(
        &self,
        server: &Server,
        sent: &AtomicBool,
    ) -> impl Future<Output = Result<Self::Answer, Stop>> + Send;

    /// Whether it does no harm if two servers, or one of them twice, get it.
    fn is_repeatable(&self) -> bool;

    /// Whether an attempt may take as long as it needs, because what is sent has no known length.
    fn is_unlimited(&self) -> bool {
        false
    }

    /// Learns that an attempt may have had its effect, although there was no answer.
    fn doubt(&self) {}
}

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Stop {
    /// There was no answer.
    Failed(Failure),
    /// The server refused.
    Refused(Error),
}

/// Tries servers until one answers.
pub(crate) async fn run<A: Attempt>(
    servers: &Servers,
    budget: &Budget,
    limits: Limits,
    call: &A,
) -> Result<A::Answer, Error> {
    budget.add_call();
    let deadline = Instant::now() + limits.call;
    let mut round = Round::default();
    loop {
        let now = Instant::now();
        let picked = match round.is_rate_limited {
            false => servers.pick(&mut round.tried, now),
            true => None,
        };
        let Some(server) = picked else {
            let wait = round.wait(servers, now);
            if round.exhausted || now + wait >= deadline {
                return Err(round.error(servers));
            }
            sleep(wait).await;
            round.begin();
            continue;
        };
        let sent = AtomicBool::new(false);
        let attempt_end = now + limits.attempt;
        let stop = if call.is_unlimited() {
            call.attempt(server, &sent).await
        } else {
            let attempt = timeout_at(attempt_end.min(deadline), call.attempt(server, &sent));
            attempt.await.unwrap_or_else(|_| Err(too_late(now.elapsed(), &sent)))
        };
        let stop = match stop {
            Ok(answer) => {
                server.answered();
                return Ok(answer);
            }
            Err(stop) => stop,
        };
        // Where the caller's time was too short, the server is not to blame.
        let is_fault = Instant::now() >= attempt_end || !is_over(deadline);
        match stop {
            Stop::Refused(error) => {
                server.answered();
                let may_go_on = round.refused(servers, server, error);
                if !may_go_on || !call.is_repeatable() || !budget.take_retry() {
                    return Err(round.error(servers));
                }
            }
            Stop::Failed(Failure::NotSent(problem)) => round.failed(server, &problem, is_fault),
            Stop::Failed(Failure::Lost { problem, was_idle }) => {
                call.doubt();
                // A server that has closed an idle connection may well answer on another one.
                round.failed(server, &problem, is_fault && !was_idle);
                if was_idle {
                    server.close_idle();
                    round.tried.forget_last();
                }
                if !call.is_repeatable() || !budget.take_retry() {
                    return Err(round.error(servers));
                }
            }
        }
        if is_over(deadline) || !limits.is_repeating {
            return Err(round.error(servers));
        }
    }
}

fn is_over(deadline: Instant) -> bool {
    Instant::now() >= deadline
}

/// What a call has met so far.
#[derive(Debug, Default)]
struct Round {
    tried: Tried,
    backoff: Backoff,
    /// The last problem.
    error: Option<Error>,
    /// The servers that did not answer, each with its last problem.
    silent: Vec<(Arc<str>, String)>,
    /// How long a server asked to be left alone.
    retry_after: Duration,
    /// A server said that there are no keys left. Others may still hold some.
    exhausted: bool,
    /// A server said that this client asks too much. Asking another one instead would evade the limit.
    is_rate_limited: bool,
}

impl Round {
    fn begin(&mut self) {
        self.tried.clear();
        self.is_rate_limited = false;
    }

    /// Notes what a server said. Returns whether another attempt may succeed.
    fn refused(&mut self, servers: &Servers, server: &Server, error: Error) -> bool {
        let error = error.with_server(&server.line.address.name);
        let kind = error.kind();
        let wait = error.retry_after().unwrap_or_default();
        // What one server says of the keyspace is worth more than that another is not ready.
        if !self.exhausted || kind == ErrorKind::Exhausted {
            self.error = Some(error);
        }
        match kind {
            ErrorKind::Exhausted => {
                self.exhausted = true;
                servers.has_untried(&self.tried)
            }
            ErrorKind::NoKeysReady | ErrorKind::Unavailable | ErrorKind::RateLimited { .. } => {
                self.is_rate_limited = matches!(kind, ErrorKind::RateLimited { .. });
                self.retry_after = self.retry_after.max(wait);
                true
            }
            _ => false,
        }
    }

    /// Notes that there was no answer.
    fn failed(&mut self, server: &Server, problem: &str, is_fault: bool) {
        if is_fault {
            server.failed(problem, Instant::now());
        }
        if !self.exhausted {
            let name: &Arc<str> = &server.line.address.name;
            self.silent.retain(|(other, _)| other != name);
            self.silent.push((name.clone(), problem.to_owned()));
            let all = self.silent.iter().map(|(name, problem)| format!("{name} {problem}"));
            let detail = all.collect::<Vec<_>>().join("; ");
            self.error = Some(Error::unreachable(detail).with_server(name));
        }
    }

    /// How long to wait until the next round.
    fn wait(&mut self, servers: &Servers, now: Instant) -> Duration {
        let asked = std::mem::take(&mut self.retry_after);
        self.backoff.next().max(asked).max(servers.ready_at(now) - now)
    }

    fn error(self, servers: &Servers) -> Error {
        self.error.unwrap_or_else(|| Error::unreachable(servers.problems()))
    }
}

fn too_late(waited: Duration, sent: &AtomicBool) -> Stop {
    let problem = format!("did not answer within {} ms", waited.as_millis());
    Stop::Failed(match sent.load(Ordering::Relaxed) {
        true => Failure::Lost { problem, was_idle: false },
        false => Failure::NotSent(problem),
    })
}
