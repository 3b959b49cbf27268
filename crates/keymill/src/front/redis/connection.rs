//! What connections need: `HELLO`, `SELECT`, `CLIENT`, `CONFIG` and `INFO`.
//!
//! Client libraries send these by themselves. They are answered so that libraries work, and tell no more than that.

use std::fmt::Write;

use hyper::StatusCode;

use super::failure::{Failure, shown};
use super::frame::Command;
use super::job::{Job, Shown};
use super::reply::{Reply, Version};
use super::session::{Flow, Session, text};

/// The version of Redis whose commands for connections are understood. Libraries choose by it what they send.
const REDIS_VERSION: &str = "7.2.0";
/// How many databases can be selected, as many as Redis has by default. All of them are the same.
const DATABASES: u32 = 16;
/// The longest name of a client.
const NAME_LEN_MAX: usize = 64;

/// What a client asks for with `HELLO`, once it is known.
#[derive(Debug)]
pub(super) struct Hello {
    pub(super) version: Option<Version>,
    pub(super) name: Option<Box<str>>,
}

/// `HELLO [version [AUTH user token] [SETNAME name]]`
pub(super) fn hello(
    session: &mut Session<'_>,
    command: Command<'_>,
    reply: &mut Reply<'_>,
) -> Result<Flow, Failure> {
    let version = match command.part(1) {
        b"" if command.len() == 1 => None,
        b"2" => Some(Version::Resp2),
        b"3" => Some(Version::Resp3),
        _ => {
            let text = "unsupported protocol version; keymill speaks 2 and 3";
            return Err(Failure::new("NOPROTO", StatusCode::BAD_REQUEST, text));
        }
    };
    let (mut token, mut name) = (None, None);
    let mut parts = command.parts_from(2);
    while let Some(option) = parts.next() {
        if option.eq_ignore_ascii_case(b"AUTH")
            && let (Some(user), Some(text)) = (parts.next(), parts.next())
        {
            token = Some(Shown::new(user, text));
        } else if option.eq_ignore_ascii_case(b"SETNAME")
            && let Some(text) = parts.next()
        {
            name = Some(checked_name(text)?);
        } else {
            let problem = format!("syntax error in HELLO option '{}'", shown(option));
            return Err(Failure::wrong(problem));
        }
    }
    let hello = Hello { version, name };
    if let Some(token) = token {
        return Ok(Flow::Wait(Box::new(Job::hello(token, hello))));
    }
    session.admit(None)?;
    session.greet(hello, reply);
    Ok(Flow::Done)
}

/// Describes the server and the connection: the answer to `HELLO`.
pub(super) fn describe(session: &Session<'_>, reply: &mut Reply<'_>) {
    reply.map(7);
    let mut pair = |name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    pair("server", "keymill");
    pair("version", REDIS_VERSION);
    pair("mode", "standalone");
    pair("role", "master");
    reply.bulk(b"proto");
    reply.integer(session.version.number());
    reply.bulk(b"id");
    reply.integer(session.redis.id);
    reply.bulk(b"modules");
    reply.array(0);
}

/// `SELECT database`
pub(super) fn select(command: Command<'_>, reply: &mut Reply<'_>) -> Result<(), Failure> {
    let database = text(command.part(1)).parse::<u32>();
    if !database.is_ok_and(|database| database < DATABASES) {
        return Err(Failure::wrong("DB index is out of range"));
    }
    reply.ok();
    Ok(())
}

/// `CLIENT …`
pub(super) fn client(
    session: &mut Session<'_>,
    command: Command<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let is_switch =
        || [&b"on"[..], b"off"].contains(&command.part(2).to_ascii_lowercase().as_slice());
    match (command.part(1).to_ascii_lowercase().as_slice(), command.len()) {
        (b"setname", 3) => {
            session.name = checked_name(command.part(2))?;
            reply.ok();
        }
        (b"getname", 2) if session.name.is_empty() => reply.null(),
        (b"getname", 2) => reply.bulk(session.name.as_bytes()),
        (b"id", 2) => reply.integer(session.redis.id),
        (b"info", 2) | (b"list", _) => reply.bulk(line_of(session).as_bytes()),
        // What a library calls itself is not kept.
        (b"setinfo", 4) => reply.ok(),
        (b"no-evict" | b"no-touch", 3) if is_switch() => reply.ok(),
        (b"reply", 3) if command.part(2).eq_ignore_ascii_case(b"on") => reply.ok(),
        _ => {
            let known =
                "GETNAME, ID, INFO, LIST, NO-EVICT, NO-TOUCH, REPLY ON, SETINFO and SETNAME";
            return Err(Failure::subcommand(command, known));
        }
    }
    Ok(())
}

/// `CONFIG GET …`: redis-benchmark asks how Redis would save what it has.
pub(super) fn config(command: Command<'_>, reply: &mut Reply<'_>) -> Result<(), Failure> {
    if !command.part(1).eq_ignore_ascii_case(b"GET") {
        return Err(Failure::subcommand(command, "GET; its settings are in keymill.toml"));
    }
    let value_of = |name: &[u8]| match name.to_ascii_lowercase().as_slice() {
        b"save" => Some(("save", "")),
        b"appendonly" => Some(("appendonly", "no")),
        _ => None,
    };
    let found: Vec<(&str, &str)> = command.parts_from(2).filter_map(value_of).collect();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// `INFO`: what libraries look for, and nothing about keyspaces.
pub(super) fn info(reply: &mut Reply<'_>) {
    let text = format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\nserver_name:keymill\r\n\
         keymill_version:{}\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n\
         connected_slaves:0\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n",
        env!("CARGO_PKG_VERSION")
    );
    reply.bulk(text.as_bytes());
}

/// The connection in one line, as Redis describes it.
fn line_of(session: &Session<'_>) -> String {
    let redis = session.redis;
    let mut line = format!("id={} addr={} name={} db=0", redis.id, redis.client, session.name);
    let version = session.version.number();
    writeln!(line, " resp={version} user={}", session.caller().token_name().unwrap_or("default"))
        .expect("writing to a String cannot fail");
    line
}

/// The name of a client, which is recorded as its caller: short, and of one word.
fn checked_name(name: &[u8]) -> Result<Box<str>, Failure> {
    if name.len() > NAME_LEN_MAX || !name.iter().all(u8::is_ascii_graphic) {
        return Err(Failure::wrong(format!(
            "client names have at most {NAME_LEN_MAX} characters, and no spaces, newlines or special characters"
        )));
    }
    Ok(text(name).into())
}
