//! `SPOP`, `INCR` and `INCRBY`: keys that are in memory are answered at once, everything else is a [`Take`] that waits. In a
//! pipeline, the keys of equal commands are made together.
//!
//! `session` calls this. Takes are counted against the limits of their token before a key is made, as over HTTP.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use keymill_engine::operations::turn::turn;
use keymill_engine::operations::{ServiceError, Space};
use keymill_engine::space::{Definition, Kind};

use super::failure::{Failure, shown};
use super::frame::Command;
use super::job::Job;
use super::large::{AROUND_KEY, Large};
use super::reply::Reply;
use super::session::{Flow, Session, text};
use crate::access::Counted;
use crate::access::rights::Right;
use crate::front::admission::exceeded;
use crate::front::problem::Problem;

/// Answers up to this size are made at once; what is larger is made in pieces.
const SMALL_MAX: usize = 16 << 10;
/// A take of this many keys waits for a turn of its own: it takes some hundredths of a millisecond.
const COUNT_OF_A_TURN: u32 = 256;
/// From how many copies of a command on in a pipeline their keys are made together, and up to how many.
const COPIES_MIN: usize = 3;
const COPIES_MAX: usize = 127;
/// How long a take waits for the memory of keys that have to be there as a whole.
const ROWS_WAIT_MAX: Duration = Duration::from_secs(10);
/// What a key that has to be put on record takes in memory until it is, besides its text.
const ROW_BYTES: usize = 256;

/// A keyspace that was looked up.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) space: Arc<Space>,
    /// Whether its keys are integers. A definition is permanent.
    is_integer: bool,
}

/// Keys that somebody waits for.
#[derive(Debug)]
pub(super) struct Take {
    space: Box<str>,
    form: Form,
    count: u32,
    /// Who they are recorded for.
    caller: Box<str>,
    /// They come back to the quota of the token where the take fails.
    counted: Counted,
}

/// How keys are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One, as a string.
    One,
    /// As a set.
    Many,
    /// One, as a number.
    Integer,
}

impl Known {
    pub(super) fn new(space: Arc<Space>) -> Known {
        let is_integer = is_integer(&space.record().definition);
        Known { space, is_integer }
    }
}

impl Form {
    #[inline]
    fn put(self, key: &[u8], reply: &mut Reply<'_>) {
        match self {
            Form::Integer => reply.digits(key),
            Form::One | Form::Many => reply.bulk(key),
        }
    }
}

impl Take {
    pub(super) fn name(&self) -> &'static str {
        if self.form == Form::Integer { "incr" } else { "spop" }
    }
}

impl Session<'_> {
    /// `SPOP space [count]`
    #[inline]
    pub(super) fn spop(
        &mut self,
        command: Command<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<Flow, Failure> {
        let name = text(command.part(1));
        if command.len() > 2 {
            return self.spop_many(&name, command.part(2), reply);
        }
        self.take_one(command, &name, Form::One, reply)
    }

    fn spop_many(
        &mut self,
        name: &str,
        count: &[u8],
        reply: &mut Reply<'_>,
    ) -> Result<Flow, Failure> {
        let count_max = self.redis.service.limits().count_max;
        match text(count).parse::<u32>() {
            Ok(0) => {
                reply.set(0);
                Ok(Flow::Done)
            }
            Ok(count) if count <= count_max => self.wait_for(name, Form::Many, count),
            // Elsewhere 0 is refused too.
            _ => Err(Problem::bad_request(
                "bad_count",
                format!("count must be a whole number from 0 to {count_max}"),
            )
            .into()),
        }
    }

    /// `INCR space`
    #[inline]
    pub(super) fn incr(
        &mut self,
        command: Command<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<Flow, Failure> {
        let name = text(command.part(1));
        let known = self.known_space(&name);
        if known.is_some_and(|known| !known.is_integer) {
            return Err(not_integers(&name));
        }
        self.take_one(command, &name, Form::Integer, reply)
    }

    /// `INCRBY space 1`, which redis-py's `incr` sends. A larger step would promise numbers in between that are not the
    /// caller's.
    pub(super) fn incr_by(
        &mut self,
        command: Command<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<Flow, Failure> {
        if command.part(2) != b"1" {
            return Err(Failure::wrong(format!(
                "INCRBY takes one key, so its amount must be 1, not '{}': the numbers after a key may belong to \
                 others. Take several keys with SPOP space count",
                shown(command.part(2))
            )));
        }
        self.incr(command, reply)
    }

    /// Takes one key, which is most likely in memory; and one for each copy of the command behind it.
    #[inline]
    fn take_one(
        &mut self,
        command: Command<'_>,
        name: &str,
        form: Form,
        reply: &mut Reply<'_>,
    ) -> Result<Flow, Failure> {
        let copies = command.copies(COPIES_MAX);
        if copies >= COPIES_MIN
            && let Some(taken) = self.take_run(name, form, 1 + copies, reply)
        {
            return Ok(Flow::Copies(taken - 1));
        }
        self.caller().spend(1).map_err(exceeded)?;
        let began = self.began;
        match self.known_space(name).and_then(|known| known.space.take_noted(began)) {
            Some(taken) => {
                form.put(&taken.key, reply);
                Ok(Flow::Done)
            }
            None => self.wait_for(name, form, 1),
        }
    }

    /// Takes the keys of a command and its copies together, which is faster than one by one; how many, or `None` where
    /// that is not possible.
    fn take_run(
        &mut self,
        name: &str,
        form: Form,
        count: usize,
        reply: &mut Reply<'_>,
    ) -> Option<u32> {
        let (redis, began) = (self.redis, self.began);
        let is_ready = self.known_space(name).is_some_and(|known| {
            known.space.at_hand() >= count as u64 && !known.space.takes_rows()
        });
        if !is_ready {
            return None;
        }
        // What holds for the command holds for its copies, but whoever has no token is counted for each of them.
        let (is_counted, wanted) =
            (self.caller().token_name().is_none(), Some((Right::Take, Some(name))));
        let copies = (1..count).take_while(|_| !is_counted || self.admit(wanted).is_ok()).count();
        let count = u32::try_from(1 + copies).ok()?;
        let counted = self.caller().count(count, false).ok()?;
        let (known, before) = (self.known_space(name)?, reply.len());
        // Nothing of it is recorded, so nobody's name is needed.
        let each = |key: &[u8]| form.put(key, reply);
        let taken = at_once(redis.service.take_together(&known.space, count, began, each));
        let Some(Ok(taken)) = taken else {
            reply.truncate(before);
            return None;
        };
        counted.keep(taken.count);
        Some(taken.count)
    }

    fn wait_for(&self, space: &str, form: Form, count: u32) -> Result<Flow, Failure> {
        // A single one is counted before it is looked for in memory.
        let counted = self.caller().count(count, form != Form::Many).map_err(exceeded)?;
        let caller = self.caller().name(&self.name, space).into();
        let take = Take { space: space.into(), form, count, caller, counted };
        Ok(Flow::Wait(Box::new(Job::take(take))))
    }

    /// Takes keys that are not in memory, or are many.
    pub(super) async fn take(&mut self, take: Take, output: &mut Vec<u8>) -> Result<(), Failure> {
        let Take { space, form, count, caller, counted } = take;
        let (redis, version) = (self.redis, self.version);
        let space = redis.service.space(&space).await?;
        if form == Form::Integer && !is_integer(&space.record().definition) {
            return Err(not_integers(&space.name));
        }
        if space.record().definition.kind == Kind::Digest {
            return Err(made_from_inputs(&space.name));
        }
        let len_max = (space.key_len_max() + AROUND_KEY).saturating_mul(count as usize);
        if len_max > SMALL_MAX {
            return self.take_large(&space, count, &caller, counted, output).await;
        }
        if count >= COUNT_OF_A_TURN {
            // Pipelined, many of these would be made in a row, and hold up everybody else on this thread.
            turn().await;
        }
        self.work += count;
        let mut keys = Vec::with_capacity(len_max);
        let mut written = Reply::new(&mut keys, version);
        let each = |key: &[u8]| form.put(key, &mut written);
        let taken = redis.service.take(&space, count, &caller, each).await;
        let mut reply = Reply::new(output, version);
        match found(taken)? {
            None if form == Form::Many => reply.set(0),
            None => reply.null(),
            Some(taken) => {
                counted.keep(taken.count);
                if form == Form::Many {
                    reply.set(taken.count as usize);
                }
                output.append(&mut keys);
            }
        }
        Ok(())
    }

    /// Takes keys whose text is made later. All of them are drawn, and on record where they have to be, before the
    /// answer begins.
    async fn take_large(
        &mut self,
        space: &Arc<Space>,
        count: u32,
        caller: &str,
        counted: Counted,
        output: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let redis = self.redis;
        let rows = if space.takes_rows() {
            let bytes = (space.key_len_max() + AROUND_KEY + ROW_BYTES) * count as usize;
            let room = redis.budget.reserve_whole(bytes, ROWS_WAIT_MAX).await;
            Some(room.ok_or_else(Problem::too_many_large_answers)?)
        } else {
            None
        };
        let unwritten = found(redis.service.take_later(space, count, caller).await)?;
        let mut reply = Reply::new(output, self.version);
        let Some(unwritten) = unwritten else {
            reply.set(0);
            return Ok(());
        };
        counted.keep(unwritten.count());
        reply.set(unwritten.count() as usize);
        let account = redis.budget.open(redis.line.clone());
        let rows = rows.map(|rows| rows.settle(unwritten.text_in_memory(), &account));
        self.large = Some(Large::new(unwritten, self.version, account, rows));
        Ok(())
    }
}

/// What something gives without waiting. Where it would wait, it is given up.
fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// What was taken; `None` where the keyspace is used up, as a set would be empty.
fn found<T>(taken: Result<T, ServiceError>) -> Result<Option<T>, Failure> {
    match taken {
        Ok(taken) => Ok(Some(taken)),
        Err(ServiceError::Exhausted { .. } | ServiceError::PoolEmpty { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the keys of a keyspace are integers as programs write them.
pub(super) fn is_integer(definition: &Definition) -> bool {
    matches!(definition.kind, Kind::Sequential | Kind::Snowflake)
        && definition.length == 0
        && definition.prefix.is_empty()
        && !definition.check
        && matches!(definition.alphabet.as_str(), "decimal" | "0123456789")
}

fn made_from_inputs(space: &str) -> Failure {
    ServiceError::WrongKind(format!(
        "`{space}` makes keys from inputs, for which the Redis protocol has no command: ask for them over HTTP or \
         gRPC, or with `keymill digest {space}`"
    ))
    .into()
}

fn not_integers(space: &str) -> Failure {
    ServiceError::WrongKind(format!(
        "the keys of `{space}` are not plain integers: INCR is for keyspaces of kind snowflake, and of kind sequential \
         with length 0; take other keys with SPOP"
    ))
    .into()
}
