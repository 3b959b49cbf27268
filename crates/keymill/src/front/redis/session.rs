//! A session: what one connection has said so far, and how its commands are answered.
//!
//! `server` gives it the bytes that it has read and sends what [`Session::answer`] writes. A command that has to wait
//! comes back as a [`Job`]; `server` runs it with [`Session::work`] while it sends the answers before it. Nothing else
//! here waits.
//!
//! # Invariants
//!
//! - Commands are answered in the order in which they came, each once.
//! - A command is looked at only after its sender was: what a token may do is looked up again for each read, and after
//!   each wait.
//! - What is not sent yet is bounded: at [`OUTPUT_MAX`] bytes no further command is answered.

use std::borrow::Cow;
use std::mem;
use std::time::Instant;

use hyper::StatusCode;
use tracing::Instrument;

use super::Redis;
use super::commands::{self, Entry, Needs, Verb};
use super::connection;
use super::failure::{Failure, shown};
use super::frame::{Command, Frame, blank_len};
use super::job::Job;
use super::large::Large;
use super::queue::{Batch, Queue, is_run_at_once};
use super::reply::{Reply, Version};
use super::take::Known;
use crate::access::Caller;
use crate::access::secret_text::TokenHash;
use crate::front::addresses::ClientAddress;
use crate::front::http::checks::log_failure;
use crate::front::span;
use crate::metrics::{Protocol, Route};

/// How many bytes of answers may wait to be sent before another command is answered.
const OUTPUT_MAX: usize = 16 << 10;
/// After how many commands and keys others on the same thread get their turn.
const WORK_OF_A_TURN: u32 = 512;

/// What one connection has said so far.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(super) redis: &'a Redis,
    pub(super) version: Version,
    /// The hash of the token that it has shown.
    pub(super) token: Option<TokenHash>,
    /// What the client calls itself.
    pub(super) name: Box<str>,
    /// Who it is, until time passes.
    pub(super) caller: Option<Caller>,
    /// The keyspace that was used last, so that it need not be looked up again.
    space: Option<Known>,
    frame: Frame,
    pub(super) queue: Option<Queue>,
    pub(super) batch: Batch,
    /// An answer that is being written.
    pub(super) large: Option<Large>,
    /// Commands and keys since others had their turn.
    pub(super) work: u32,
    /// When the commands that are answered had come.
    pub(super) began: Instant,
    /// Commands that were answered and not yet counted: takes, and others.
    uncounted: [u64; 2],
}

/// What to do after some commands were answered.
#[derive(Debug)]
pub(crate) enum Next {
    /// Read more: there is no other complete command.
    Read,
    /// Send what was written.
    Send,
    /// Send it, and let others have their turn.
    Turn,
    /// Do this, and append what it gives.
    Wait(Box<Job>),
    /// Send what was written, and close the connection.
    Close,
    /// Close it now: the rest of an answer cannot be made.
    Cut,
}

/// What became of a command.
pub(super) enum Flow {
    /// It is answered.
    Done,
    /// It is answered, and so are so many copies of it right behind it.
    Copies(u32),
    /// It has to wait.
    Wait(Box<Job>),
    /// It is answered, and was the last.
    Close,
}

impl<'a> Session<'a> {
    /// A session that begins.
    pub(crate) fn new(redis: &'a Redis) -> Session<'a> {
        Session {
            redis,
            version: Version::Resp2,
            token: None,
            name: "".into(),
            caller: None,
            space: None,
            frame: Frame::default(),
            queue: None,
            batch: Batch::default(),
            large: None,
            work: 0,
            began: Instant::now(),
            uncounted: [0; 2],
        }
    }

    /// Notes that the connection had nothing to do, so that others had their turn.
    pub(crate) fn rest(&mut self) {
        self.work = 0;
    }

    /// Answers commands at the beginning of `input`, as far as that takes no waiting. Gives how many bytes of it were
    /// used, and what to do next; until that is [`Next::Read`], it wants to be asked again.
    pub(crate) fn answer(&mut self, input: &[u8], output: &mut Vec<u8>) -> (usize, Next) {
        // Time has passed since it was last asked.
        self.caller = None;
        // Once for all commands of a pipeline: whoever sent them waits for all of them.
        self.began = Instant::now();
        let (mut frame, mut used) = (mem::take(&mut self.frame), 0);
        let next = loop {
            if let Some(next) = self.pause(output) {
                break next;
            }
            let answered = if self.batch.is_done() {
                self.answer_next(&mut frame, &input[used..], output, &mut used)
            } else {
                let Batch { bytes, mut at } = mem::take(&mut self.batch);
                let answered = self.answer_next(&mut frame, &bytes[at..], output, &mut at);
                self.batch = Batch { bytes, at };
                answered
            };
            if let Some(next) = answered {
                break next;
            }
        };
        if self.batch.is_done() {
            // An idle connection need not keep the room of its last batch.
            self.batch = Batch::default();
        }
        self.frame = frame;
        self.count_answers();
        (used, next)
    }

    /// What has to be done before another command is answered.
    fn pause(&mut self, output: &mut Vec<u8>) -> Option<Next> {
        if output.len() >= OUTPUT_MAX {
            return Some(Next::Send);
        }
        if let Some(large) = &mut self.large {
            // A piece at a time, and each when the one before is sent.
            match large.write(output) {
                Ok(true) => self.large = None,
                Ok(false) => {}
                Err(_) => return Some(Next::Cut),
            }
            return Some(Next::Turn);
        }
        if self.work >= WORK_OF_A_TURN {
            self.work = 0;
            return Some(Next::Turn);
        }
        None
    }

    /// Answers the command at the beginning of some bytes, and counts those it has used; `None` where the next one can
    /// follow at once.
    #[inline]
    fn answer_next(
        &mut self,
        frame: &mut Frame,
        bytes: &[u8],
        output: &mut Vec<u8>,
        used: &mut usize,
    ) -> Option<Next> {
        let blank = blank_len(bytes);
        if blank > 0 {
            *used += blank;
            self.work += 1;
            return None;
        }
        let command = match frame.read(bytes) {
            Ok(Some(command)) => command,
            Ok(None) => return Some(Next::Read),
            Err(malformed) => {
                let text = format!("Protocol error: {malformed}");
                self.fail("", &Failure::wrong(text), output);
                return Some(Next::Close);
            }
        };
        *used += command.bytes.len();
        self.work += 1;
        match self.run(command, output) {
            Flow::Done => None,
            Flow::Copies(count) => {
                *used += command.bytes.len() * count as usize;
                self.work += count;
                // Only takes have copies.
                self.uncounted[0] += u64::from(count);
                None
            }
            Flow::Wait(job) => Some(Next::Wait(job)),
            Flow::Close => Some(Next::Close),
        }
    }

    #[inline]
    fn run(&mut self, command: Command<'_>, output: &mut Vec<u8>) -> Flow {
        let entry = commands::find(command.name());
        let mut reply = Reply::new(output, self.version);
        let ran = match &mut self.queue {
            Some(queue) if !is_run_at_once(entry) => queue.add(entry, command).map(|()| {
                reply.word("QUEUED");
                Flow::Done
            }),
            _ => self.try_run(entry, command, &mut reply),
        };
        match ran {
            Ok(flow @ Flow::Wait(_)) => flow,
            Ok(flow) => {
                self.succeed(entry);
                flow
            }
            Err(failure) => {
                self.fail(entry.map_or("", |entry| entry.name), &failure, output);
                Flow::Done
            }
        }
    }

    #[inline]
    fn try_run(
        &mut self,
        entry: Option<&Entry>,
        command: Command<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<Flow, Failure> {
        let Some(entry) = entry else {
            // Strangers are not told what there is.
            self.admit(None)?;
            return Err(Failure::unknown(command));
        };
        if !entry.fits(command) {
            if entry.needs != Needs::Nothing {
                self.admit(None)?;
            }
            return Err(Failure::parts(entry.name));
        }
        self.admit_command(entry, command)?;
        match entry.verb {
            Verb::Spop => return self.spop(command, reply),
            Verb::Incr => return self.incr(command, reply),
            Verb::IncrBy => return self.incr_by(command, reply),
            Verb::Scard => return Ok(wait(Job::count(command))),
            Verb::Sismember => return Ok(wait(Job::member(command))),
            Verb::Exists => return Ok(wait(Job::exist(command))),
            Verb::Type => return Ok(wait(Job::kind(command))),
            Verb::Ping if command.len() == 1 => reply.word("PONG"),
            Verb::Ping | Verb::Echo => reply.bulk(command.part(1)),
            Verb::Hello => return connection::hello(self, command, reply),
            Verb::Auth => return Ok(wait(Job::authenticate(command))),
            Verb::Select => connection::select(command, reply)?,
            Verb::Client => connection::client(self, command, reply)?,
            Verb::Config => connection::config(command, reply)?,
            Verb::Info => connection::info(reply),
            Verb::Command => {
                if !commands::answer(command, reply) {
                    return Err(Failure::subcommand(command, "COUNT, DOCS, INFO and LIST"));
                }
            }
            Verb::Multi => {
                if self.queue.is_some() {
                    return Err(Failure::wrong("MULTI calls can not be nested"));
                }
                self.queue = Some(Queue::default());
                reply.ok();
            }
            Verb::Exec => {
                let queue = self.queue.take();
                let queue = queue.ok_or_else(|| Failure::wrong("EXEC without MULTI"))?;
                let (batch, count) = queue.run().ok_or_else(|| {
                    let text = "Transaction discarded because of previous errors.";
                    Failure::new("EXECABORT", StatusCode::BAD_REQUEST, text)
                })?;
                reply.array(count);
                self.batch = batch;
            }
            Verb::Discard => {
                let queue = self.queue.take();
                queue.ok_or_else(|| Failure::wrong("DISCARD without MULTI"))?;
                reply.ok();
            }
            Verb::Reset => {
                (self.version, self.token, self.caller) = (Version::Resp2, None, None);
                (self.name, self.queue) = ("".into(), None);
                reply.word("RESET");
            }
            Verb::Quit => {
                reply.ok();
                return Ok(Flow::Close);
            }
        }
        Ok(Flow::Done)
    }

    /// A keyspace that this instance has met, without asking the store.
    #[inline]
    pub(super) fn known_space(&mut self, name: &str) -> Option<&Known> {
        if self.space.as_ref().is_none_or(|known| known.space.name != name) {
            self.space = self.redis.service.known_space(name).map(Known::new);
        }
        self.space.as_ref()
    }

    /// Does what has to wait; what it gives is the answer, or the beginning of one.
    pub(crate) async fn work(&mut self, job: Job) -> Vec<u8> {
        let name = job.name();
        self.began = Instant::now();
        let mut output = Vec::new();
        let span = span::begin(None);
        let work = self.try_work(job, &mut output).instrument(span.clone());
        let (done, of) = (work.await, (Protocol::Redis, route_of(commands::find(name.as_bytes()))));
        span.in_scope(|| {
            span::end(of, done.as_ref().map_or_else(|it| it.status, |()| StatusCode::OK));
        });
        match done {
            Ok(()) => self.succeed(commands::find(name.as_bytes())),
            Err(failure) => {
                output.clear();
                self.fail(name, &failure, &mut output);
            }
        }
        self.count_answers();
        output
    }

    #[inline]
    fn succeed(&mut self, entry: Option<&Entry>) {
        self.uncounted[usize::from(route_of(entry) != Route::Take)] += 1;
        tracing::debug!(
            client = %self.redis.client,
            connection = self.redis.id,
            command = entry.map(|entry| entry.name),
            "answered"
        );
    }

    /// Answers that a command was not done.
    pub(super) fn fail(&self, name: &str, failure: &Failure, output: &mut Vec<u8>) {
        let Failure { code, text, status, cause } = failure;
        Reply::new(output, self.version).error(code, text);
        let Redis { metrics, client, id, .. } = self.redis;
        let route = route_of(commands::find(name.as_bytes()));
        metrics.count((Protocol::Redis, route), *status, self.began.elapsed());
        tracing::debug!(%client, connection = id, command = name, "refused: {code} {text}");
        if let Some((code, cause)) = cause {
            log_failure(&format!("redis-{id}"), Some(ClientAddress(*client)), code, cause);
        }
    }

    fn count_answers(&mut self) {
        let counts = mem::take(&mut self.uncounted);
        if counts == [0; 2] {
            return;
        }
        let took = self.began.elapsed();
        for (route, count) in [Route::Take, Route::Other].into_iter().zip(counts) {
            if count > 0 {
                let of = (Protocol::Redis, route);
                self.redis.metrics.count_many(of, StatusCode::OK, took, count);
            }
        }
    }
}

/// What a command is counted as.
#[inline]
fn route_of(entry: Option<&Entry>) -> Route {
    match entry.map(|entry| entry.verb) {
        Some(Verb::Spop | Verb::Incr | Verb::IncrBy) => Route::Take,
        _ => Route::Other,
    }
}

fn wait(job: Job) -> Flow {
    Flow::Wait(Box::new(job))
}

/// A part of a command as text. What is not UTF-8 names nothing.
#[inline]
pub(super) fn text(part: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(part) {
        Ok(text) => text.into(),
        Err(_) => shown(part).into(),
    }
}
