//! Commands as clients send them: arrays of bulk strings, read where they lie and never copied.
//!
//! `session` asks for one command after the other. Answers are written by `reply`; nothing here decides anything
//! about a command.
//!
//! # Invariants
//!
//! - What is incomplete is never longer than [`COMMAND_LEN_MAX`] and a few bytes: anything that could not end within
//!   it is refused as soon as that shows.
//! - Reading allocates nothing once the largest command of a connection has been read.

use std::ops::Range;

/// The most parts of a command, its name among them.
pub(super) const PARTS_MAX: usize = 64;
/// The longest part. A key has at most 255 bytes, a token 47.
pub(super) const PART_LEN_MAX: usize = 4 << 10;
/// The longest command, with the lengths of its parts.
pub(crate) const COMMAND_LEN_MAX: usize = 8 << 10;
/// How many digits are read of a length. One that has more is too large for anything.
const DIGITS_MAX: usize = 4;

/// The one command that is also understood as a bare line, for people and health checks.
const INLINE: &[u8] = b"PING";
/// What HTTP begins with. A web page can make a browser send it to any port.
const HTTP: [&[u8]; 11] = [
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"OPTIONS ",
    b"DELETE ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PRI ",
    b"HOST:",
];

/// Where the parts of a command are. It is reused, so that they need no memory of their own.
#[derive(Debug, Default)]
pub(super) struct Frame {
    parts: Vec<Range<usize>>,
}

/// A command that is complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command<'a> {
    /// All of it, as it was sent.
    pub(super) bytes: &'a [u8],
    /// What was read behind it.
    rest: &'a [u8],
    parts: &'a [Range<usize>],
}

/// Why bytes are not commands. The connection ends: where the next one would begin is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error(
        "this address speaks the Redis protocol and not HTTP, which is at the addresses that `listen` names"
    )]
    Http,
    #[error(
        "a command must be an array of bulk strings; the only one that may be sent as a line is PING"
    )]
    Inline,
    #[error("an array must have from 1 to {PARTS_MAX} parts")]
    Parts,
    #[error("a part of a command must be a bulk string of at most {PART_LEN_MAX} bytes")]
    Part,
    #[error("a command must have at most {COMMAND_LEN_MAX} bytes")]
    Long,
    #[error("a length must be a whole number, and every line must end with CR LF")]
    Line,
}

impl Frame {
    /// Reads the command at the beginning of some bytes; `None` where it is not complete.
    pub(super) fn read<'a>(
        &'a mut self,
        bytes: &'a [u8],
    ) -> Result<Option<Command<'a>>, Malformed> {
        self.parts.clear();
        let len = match bytes.first() {
            None => None,
            Some(b'\r') if bytes.len() == 1 => None,
            Some(b'*') => self.read_array(bytes)?,
            Some(_) => self.read_inline(bytes)?,
        };
        Ok(len.map(|len| {
            let (bytes, rest) = bytes.split_at(len);
            Command { bytes, rest, parts: &self.parts }
        }))
    }

    fn read_array(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some((count, mut at)) = read_len(bytes, 1)? else { return Ok(None) };
        if !(1..=PARTS_MAX).contains(&count) {
            return Err(Malformed::Parts);
        }
        for _ in 0..count {
            match bytes.get(at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(_) => return Err(Malformed::Part),
            }
            let Some((len, start)) = read_len(bytes, at + 1)? else { return Ok(None) };
            if len > PART_LEN_MAX {
                return Err(Malformed::Part);
            }
            let end = start + len;
            at = end + 2;
            if at > COMMAND_LEN_MAX {
                return Err(Malformed::Long);
            }
            match bytes.get(end..at) {
                Some(b"\r\n") => self.parts.push(start..end),
                Some(_) => return Err(Malformed::Line),
                None if matches!(bytes.get(end), None | Some(b'\r')) => return Ok(None),
                None => return Err(Malformed::Line),
            }
        }
        Ok(Some(at))
    }

    /// A line that is no array.
    fn read_inline(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let word = &bytes[..bytes.len().min(INLINE.len())];
        if !word.eq_ignore_ascii_case(&INLINE[..word.len()]) {
            return Err(if looks_like_http(bytes) { Malformed::Http } else { Malformed::Inline });
        }
        self.parts.push(0..word.len());
        match &bytes[word.len()..] {
            [b'\r', b'\n', ..] => Ok(Some(INLINE.len() + 2)),
            [b'\n', ..] => Ok(Some(INLINE.len() + 1)),
            [] | [b'\r'] => Ok(None),
            _ => Err(Malformed::Inline),
        }
    }
}

/// How long the blank line at the beginning of some bytes is. Between commands they mean nothing; redis-cli sends one.
#[inline]
pub(super) fn blank_len(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\r\n") { 2 } else { 0 }
}

impl<'a> Command<'a> {
    /// Its name, in whatever case.
    pub(super) fn name(&self) -> &'a [u8] {
        &self.bytes[self.parts[0].clone()]
    }

    /// How many parts it has, its name among them.
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// One of its parts; the name is the first. Nothing where there are not so many.
    pub(super) fn part(&self, place: usize) -> &'a [u8] {
        self.parts.get(place).map_or(b"", |part| &self.bytes[part.clone()])
    }

    /// How many copies of it were read right behind it, up to so many.
    #[inline]
    pub(super) fn copies(&self, max: usize) -> usize {
        let copies = self.rest.chunks_exact(self.bytes.len());
        copies.take(max).take_while(|copy| *copy == self.bytes).count()
    }

    /// Its parts from one on.
    pub(super) fn parts_from(&self, place: usize) -> impl Iterator<Item = &'a [u8]> {
        let bytes = self.bytes;
        self.parts.iter().skip(place).map(move |part| &bytes[part.clone()])
    }
}

/// Reads a length and the end of its line, and gives it with where the next line begins; `None` where it is not
/// complete.
fn read_len(bytes: &[u8], start: usize) -> Result<Option<(usize, usize)>, Malformed> {
    let (mut len, mut at) = (0, start);
    loop {
        match bytes.get(at) {
            None => return Ok(None),
            Some(b'0'..=b'9') if at == start + DIGITS_MAX => return Ok(Some((usize::MAX, at))),
            Some(digit @ b'0'..=b'9') => {
                len = len * 10 + usize::from(digit - b'0');
                at += 1;
            }
            Some(b'\r') if at > start => break,
            Some(_) => return Err(Malformed::Line),
        }
    }
    if bytes[start] == b'0' && at > start + 1 {
        // One spelling for each length.
        return Err(Malformed::Line);
    }
    match bytes.get(at + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((len, at + 2))),
        Some(_) => Err(Malformed::Line),
    }
}

/// Whether bytes may be the beginning of HTTP.
fn looks_like_http(bytes: &[u8]) -> bool {
    HTTP.iter().any(|start| {
        let len = bytes.len().min(start.len());
        bytes[..len].eq_ignore_ascii_case(&start[..len])
    })
}

#[cfg(test)]
mod tests;
