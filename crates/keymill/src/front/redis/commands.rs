//! The commands: what each is called, how many parts it has, what it needs, and what people are told about it.
//!
//! `session` looks every command up here before it does anything; `COMMAND` shows the table. A test has a row for
//! every entry, so that none is added without a thought about who may use it.

use super::frame::Command;
use super::reply::Reply;

use Needs::{Nothing, Read, Take, Token};

/// A command.
#[derive(Debug)]
pub(super) struct Entry {
    /// What it is called, in lower case.
    pub(super) name: &'static str,
    pub(super) verb: Verb,
    parts_min: usize,
    parts_max: usize,
    pub(super) needs: Needs,
    summary: &'static str,
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Spop,
    Incr,
    IncrBy,
    Scard,
    Sismember,
    Exists,
    Type,
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Client,
    Command,
    Config,
    Info,
    Multi,
    Exec,
    Discard,
    Reset,
    Quit,
}

/// What a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing: it is how a client becomes known, or leaves.
    Nothing,
    /// Any token.
    Token,
    /// The right `take` in the keyspace that it names.
    Take,
    /// The right `read` in every keyspace that it names.
    Read,
}

/// What programs are told that look for a command.
const GROUP: &str = "keymill";

/// All of them, the most frequent first.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Entry] = &[
    entry("spop", Verb::Spop, 2..=3, Take, "Takes a key of a keyspace, or several"),
    entry("incr", Verb::Incr, 2..=2, Take, "Takes a key of a keyspace of integers: unique, not consecutive"),
    entry("incrby", Verb::IncrBy, 3..=3, Take, "With 1, the same as INCR, which some libraries send as this"),
    entry("ping", Verb::Ping, 1..=2, Token, "Answers PONG, or the message"),
    entry("scard", Verb::Scard, 2..=2, Read, "Returns how many keys of a keyspace are left"),
    entry("sismember", Verb::Sismember, 3..=3, Read, "Returns 1 for a key that may still be handed out, otherwise 0"),
    entry("exists", Verb::Exists, 2..=PARTS_MAX, Read, "Returns how many of these keyspaces exist"),
    entry("type", Verb::Type, 2..=2, Read, "Returns `string` for a keyspace of integers, `set` for any other, and `none` if there is none"),
    entry("multi", Verb::Multi, 1..=1, Token, "Begins a batch"),
    entry("exec", Verb::Exec, 1..=1, Token, "Runs the commands of a batch, one after the other"),
    entry("discard", Verb::Discard, 1..=1, Token, "Drops a batch"),
    entry("echo", Verb::Echo, 2..=2, Token, "Returns the message"),
    entry("hello", Verb::Hello, 1..=PARTS_MAX, Nothing, "Chooses the version of the protocol"),
    entry("auth", Verb::Auth, 2..=3, Nothing, "Shows a token"),
    entry("select", Verb::Select, 2..=2, Token, "Does nothing: there are no databases"),
    entry("client", Verb::Client, 2..=PARTS_MAX, Token, "Names the connection, or describes it"),
    entry("command", Verb::Command, 1..=PARTS_MAX, Token, "Describes the commands"),
    entry("config", Verb::Config, 2..=PARTS_MAX, Token, "Answers what redis-benchmark asks; no setting can be read or changed"),
    entry("info", Verb::Info, 1..=PARTS_MAX, Token, "Describes the server"),
    entry("reset", Verb::Reset, 1..=1, Nothing, "Returns the connection to its beginning"),
    entry("quit", Verb::Quit, 1..=1, Nothing, "Ends the connection"),
];

const PARTS_MAX: usize = super::frame::PARTS_MAX;

const fn entry(
    name: &'static str,
    verb: Verb,
    parts: std::ops::RangeInclusive<usize>,
    needs: Needs,
    summary: &'static str,
) -> Entry {
    Entry { name, verb, parts_min: *parts.start(), parts_max: *parts.end(), needs, summary }
}

/// The command of a name, in whatever case.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Entry> {
    COMMANDS.iter().find(|entry| name.eq_ignore_ascii_case(entry.name.as_bytes()))
}

impl Entry {
    /// Whether a command has as many parts as this one may have.
    #[inline]
    pub(super) fn fits(&self, command: Command<'_>) -> bool {
        (self.parts_min..=self.parts_max).contains(&command.len())
    }

    fn is_about_keyspaces(&self) -> bool {
        matches!(self.needs, Take | Read)
    }

    /// Describes it as Redis does, in ten parts; lists that would say more than clients ask for are empty.
    fn describe(&self, reply: &mut Reply<'_>) {
        reply.array(10);
        reply.bulk(self.name.as_bytes());
        // With a minus: at least so many parts.
        let sign = if self.parts_min == self.parts_max { "" } else { "-" };
        reply.digits(format!("{sign}{}", self.parts_min).as_bytes());
        let flags: &[&str] = match self.needs {
            Take => &["write", "fast"],
            Read => &["readonly"],
            Token => &["fast"],
            Nothing => &["fast", "no_auth"],
        };
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.word(flag));
        let [first, last, step] = match self.verb {
            Verb::Exists => ["1", "-1", "1"],
            _ if self.is_about_keyspaces() => ["1", "1", "1"],
            _ => ["0", "0", "0"],
        };
        [first, last, step].iter().for_each(|place| reply.digits(place.as_bytes()));
        reply.set(0);
        (0..3).for_each(|_| reply.array(0));
    }

    fn document(&self, reply: &mut Reply<'_>) {
        reply.bulk(self.name.as_bytes());
        reply.map(3);
        for (name, value) in
            [("summary", self.summary), ("since", env!("CARGO_PKG_VERSION")), ("group", GROUP)]
        {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
}

/// Answers `COMMAND` and what may follow it; `false` where that is unknown.
pub(super) fn answer(command: Command<'_>, reply: &mut Reply<'_>) -> bool {
    let named = || command.parts_from(2).map(find);
    let all = || COMMANDS.iter().map(Some);
    let has_names = command.len() > 2;
    match command.part(1).to_ascii_lowercase().as_slice() {
        b"" => {
            reply.array(COMMANDS.len());
            COMMANDS.iter().for_each(|entry| entry.describe(reply));
        }
        b"count" => reply.integer(COMMANDS.len() as u64),
        b"list" => {
            reply.array(COMMANDS.len());
            COMMANDS.iter().for_each(|entry| reply.bulk(entry.name.as_bytes()));
        }
        b"info" => {
            let entries: Vec<Option<&Entry>> =
                if has_names { named().collect() } else { all().collect() };
            reply.array(entries.len());
            for entry in entries {
                match entry {
                    Some(entry) => entry.describe(reply),
                    None => reply.null(),
                }
            }
        }
        b"docs" => {
            let entries: Vec<&Entry> =
                if has_names { named().flatten().collect() } else { all().flatten().collect() };
            reply.map(entries.len());
            entries.iter().for_each(|entry| entry.document(reply));
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_in_any_case_and_has_one_entry() {
        for (place, entry) in COMMANDS.iter().enumerate() {
            assert_eq!(entry.name, entry.name.to_lowercase());
            for name in [entry.name.to_owned(), entry.name.to_uppercase()] {
                let found = find(name.as_bytes()).unwrap();
                assert!(std::ptr::eq(found, &COMMANDS[place]), "{name} has two entries");
            }
            assert!(entry.parts_min <= entry.parts_max && entry.parts_min > 0);
        }
        assert!(find(b"spo").is_none() && find(b"").is_none() && find(b"spopp").is_none());
    }
}
