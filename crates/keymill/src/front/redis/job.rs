//! Jobs: commands that wait for keys, for the store, or for the list of tokens.
//!
//! `session` makes one of a command, with copies of all that it needs, and does it when `server` says so: what was read
//! may be gone by then. A token is not among them, only its hash.

use keymill_engine::operations::Service;

use super::connection::Hello;
use super::failure::Failure;
use super::frame::Command;
use super::questions;
use super::reply::Reply;
use super::session::{Session, text};
use super::take::Take;
use crate::access::secret_text::{self, TokenHash};
use crate::access::{Caller, Denied};
use crate::front::admission::{self, Refused};

/// A command that waits.
#[derive(Debug)]
pub(crate) struct Job(Kind);

#[derive(Debug)]
enum Kind {
    Take(Take),
    Count { space: Box<str> },
    Member { space: Box<str>, key: Box<str> },
    Exist { spaces: Vec<Box<str>> },
    Type { space: Box<str> },
    Authenticate { shown: Shown, hello: Option<Hello> },
}

/// A token as a client has shown it.
#[derive(Debug)]
pub(super) struct Shown {
    user: Box<str>,
    /// `None` where it cannot be a token.
    hash: Option<TokenHash>,
}

impl Job {
    pub(super) fn take(take: Take) -> Job {
        Job(Kind::Take(take))
    }

    /// `SCARD space`
    pub(super) fn count(command: Command<'_>) -> Job {
        Job(Kind::Count { space: text(command.part(1)).into() })
    }

    /// `SISMEMBER space key`
    pub(super) fn member(command: Command<'_>) -> Job {
        let [space, key] = [1, 2].map(|place| text(command.part(place)).into());
        Job(Kind::Member { space, key })
    }

    /// `EXISTS space …`
    pub(super) fn exist(command: Command<'_>) -> Job {
        Job(Kind::Exist { spaces: command.parts_from(1).map(|part| text(part).into()).collect() })
    }

    /// `TYPE space`
    pub(super) fn kind(command: Command<'_>) -> Job {
        Job(Kind::Type { space: text(command.part(1)).into() })
    }

    /// `AUTH [user] token`
    pub(super) fn authenticate(command: Command<'_>) -> Job {
        let shown = match command.len() {
            2 => Shown::new(b"", command.part(1)),
            _ => Shown::new(command.part(1), command.part(2)),
        };
        Job(Kind::Authenticate { shown, hello: None })
    }

    /// `HELLO version AUTH user token …`
    pub(super) fn hello(shown: Shown, hello: Hello) -> Job {
        Job(Kind::Authenticate { shown, hello: Some(hello) })
    }

    /// The name of the command.
    pub(super) fn name(&self) -> &'static str {
        match &self.0 {
            Kind::Take(take) => take.name(),
            Kind::Count { .. } => "scard",
            Kind::Member { .. } => "sismember",
            Kind::Exist { .. } => "exists",
            Kind::Type { .. } => "type",
            Kind::Authenticate { hello: None, .. } => "auth",
            Kind::Authenticate { hello: Some(_), .. } => "hello",
        }
    }
}

impl Shown {
    pub(super) fn new(user: &[u8], token: &[u8]) -> Shown {
        Shown { user: text(user).into(), hash: secret_text::hash(token) }
    }

    /// Whether this is a name that a caller may have: the one that all have in Redis, or that of its token.
    fn is_of(&self, caller: &Caller) -> bool {
        let user = &*self.user;
        user.is_empty() || user == "default" || caller.token_name().is_none_or(|name| name == user)
    }
}

impl Session<'_> {
    /// Does a job, and writes its answer or the beginning of one.
    pub(super) async fn try_work(&mut self, job: Job, output: &mut Vec<u8>) -> Result<(), Failure> {
        let service: &Service = &self.redis.service;
        let reply = &mut Reply::new(output, self.version);
        match job.0 {
            Kind::Take(take) => return self.take(take, output).await,
            Kind::Count { space } => reply.integer(questions::count(service, &space).await?),
            Kind::Member { space, key } => {
                reply.integer(questions::may_come(service, &space, &key).await?.into());
            }
            Kind::Exist { spaces } => reply.integer(questions::exist(service, &spaces).await?),
            Kind::Type { space } => reply.word(questions::kind(service, &space).await?),
            Kind::Authenticate { shown, hello } => {
                self.authenticate(shown).await?;
                match hello {
                    Some(hello) => self.greet(hello, reply),
                    None => reply.ok(),
                }
            }
        }
        Ok(())
    }

    /// Takes in the token that a client has shown. One that is refused leaves the one before in use.
    async fn authenticate(&mut self, shown: Shown) -> Result<(), Failure> {
        let redis = self.redis;
        let ask = |_| {
            if redis.access.is_on() && shown.hash.is_none() {
                return Err(Refused::new(Denied::NotAToken, None));
            }
            redis.recognize(shown.hash.as_ref()).map_err(|denied| Refused::new(denied, None))
        };
        let has_token = shown.hash.is_some();
        let admitted = admission::admit(&redis.access, &redis.service, has_token, ask).await;
        let caller = admitted.map_err(|problem| match problem.code() {
            "unauthorized" => Failure::wrong_token(problem.detail()),
            _ => problem.into(),
        })?;
        if !shown.is_of(&caller) {
            return Err(Failure::wrong_token(
                "the user name must be `default` or the name of the token",
            ));
        }
        self.token = shown.hash;
        Ok(())
    }

    /// Answers `HELLO`, from whose answer on the connection speaks its version.
    pub(super) fn greet(&mut self, hello: Hello, reply: &mut Reply<'_>) {
        let Hello { version, name } = hello;
        if let Some(version) = version {
            self.version = version;
            reply.switch_to(version);
        }
        if let Some(name) = name {
            self.name = name;
        }
        super::connection::describe(self, reply);
    }
}
