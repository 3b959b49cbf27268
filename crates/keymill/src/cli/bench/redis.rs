//! The Redis protocol on a connection of our own: `SPOP`, many at a time if wanted.

use keymill_client::raw::RawStream;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::fault::Fault;
use super::target::Server;
use super::told::{Asked, Told};

/// How much is read at once.
const READ: usize = 1 << 14;
/// The longest line, and the longest string, that an answer may have.
const LINE_MAX: usize = 1 << 12;

/// A connection to a server.
#[derive(Debug)]
pub(super) struct RedisLink {
    stream: RawStream,
    buffer: Vec<u8>,
    /// How much of the buffer was read.
    at: usize,
    /// The commands of the last round, which the next one probably sends again.
    commands: (Option<Asked>, Vec<u8>),
    /// The keys of an answer, one per line.
    lines: Vec<u8>,
    is_open: bool,
}

impl RedisLink {
    pub(super) async fn connect(server: &Server, token: Option<&str>) -> Result<RedisLink, Fault> {
        let stream = server.dial(b"").await.map_err(Fault::refused)?;
        let (buffer, lines) = (Vec::with_capacity(READ), Vec::new());
        let commands = (None, Vec::new());
        let mut link = RedisLink { stream, buffer, at: 0, commands, lines, is_open: true };
        if let Some(token) = token {
            link.send(&command(&["AUTH", token])).await?;
            let answer = link.line().await?;
            if answer != b"+OK" {
                return Err(refusal(answer));
            }
        }
        Ok(link)
    }

    /// Whether another command can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Sends commands together, and reads the answer to each.
    pub(super) async fn round(
        &mut self,
        space: &str,
        asked: Asked,
        told: &mut Told<'_>,
    ) -> Result<(), Fault> {
        if self.commands.0 != Some(asked) {
            let count = asked.count.to_string();
            let one = match asked.count {
                1 => command(&["SPOP", space]),
                _ => command(&["SPOP", space, &count]),
            };
            self.commands = (Some(asked), one.repeat(asked.requests as usize));
        }
        let commands = std::mem::take(&mut self.commands.1);
        let sent = self.send(&commands).await;
        self.commands.1 = commands;
        sent?;
        for _ in 0..asked.requests {
            self.answer(asked.count, told).await?;
        }
        match self.at == self.buffer.len() {
            true => Ok(()),
            false => Err(Fault::bad_answer("the server sent more answers than it was asked for")),
        }
    }

    /// Reads the answer to one command.
    async fn answer(&mut self, count: u32, told: &mut Told<'_>) -> Result<(), Fault> {
        self.lines.clear();
        let first = self.line().await?;
        match first {
            [b'$' | b'*', b'-', b'1'] | [b'_'] | [b'*', b'0'] => {
                told.refused(refusal(b"-ERR exhausted: the keyspace has no more keys"));
                return Ok(());
            }
            [b'-', ..] => {
                let fault = refusal(first);
                // After this one, servers close the connection.
                self.is_open = !fault.detail.starts_with("Protocol error");
                told.refused(fault);
                return Ok(());
            }
            [b'$', len @ ..] => {
                let len = length(len)?;
                self.string(len).await?;
            }
            [b'*' | b'~', len @ ..] => {
                for _ in 0..length(len)? {
                    let len = match self.line().await? {
                        [b'$', len @ ..] => length(len)?,
                        other => return Err(odd(other)),
                    };
                    self.string(len).await?;
                }
            }
            other => return Err(odd(other)),
        }
        told.keys(&self.lines, count)
    }

    /// Reads a string of this length, and adds it to the lines.
    async fn string(&mut self, len: usize) -> Result<(), Fault> {
        while self.buffer.len() < self.at + len + 2 {
            self.read_some().await?;
        }
        let (text, end) = self.buffer[self.at..self.at + len + 2].split_at(len);
        if end != b"\r\n" {
            return Err(odd(end));
        }
        self.lines.extend_from_slice(text);
        self.lines.push(b'\n');
        self.at += len + 2;
        Ok(())
    }

    /// Reads a line, without its end.
    async fn line(&mut self) -> Result<&[u8], Fault> {
        let mut searched = self.at;
        let end = loop {
            if let Some(len) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                break searched + len;
            }
            searched = self.buffer.len();
            if searched - self.at > LINE_MAX {
                return Err(Fault::bad_answer("a line of the answer has no end"));
            }
            let before = self.at;
            self.read_some().await?;
            // What was read is gone from the front.
            searched -= before - self.at;
        };
        let line = &self.buffer[self.at..end];
        self.at = end + 1;
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    async fn send(&mut self, commands: &[u8]) -> Result<(), Fault> {
        self.stream.write_all(commands).await.map_err(|error| Fault::lost(&error))?;
        self.stream.flush().await.map_err(|error| Fault::lost(&error))
    }

    async fn read_some(&mut self) -> Result<(), Fault> {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.reserve(READ);
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err(Fault::closed()),
            Ok(_) => Ok(()),
            Err(error) => Err(Fault::lost(&error)),
        }
    }
}

fn command(parts: &[&str]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", parts.len());
    for part in parts {
        text += &format!("${}\r\n{part}\r\n", part.len());
    }
    text.into_bytes()
}

fn length(text: &[u8]) -> Result<usize, Fault> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.filter(|number| *number <= 1 << 24).ok_or_else(|| odd(text))
}

fn odd(text: &[u8]) -> Fault {
    let text = text[..text.len().min(40)].escape_ascii();
    Fault::bad_answer(format!("`{text}` is not an answer of the Redis protocol to SPOP"))
}

/// An error of the server, with the code that it has over HTTP.
fn refusal(line: &[u8]) -> Fault {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_start_matches('-');
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (status, code, detail) = match word {
        "NOAUTH" | "WRONGPASS" => (401, "unauthorized", rest),
        "NOPERM" => (403, "forbidden", rest),
        "WRONGTYPE" => (409, "wrong_kind", rest),
        _ => match rest.split_once(": ") {
            Some((code, detail)) if is_code(code) => (status_of(word, code), code, detail),
            _ => return Fault::new("redis_error", rest),
        },
    };
    Fault::of_answer(status, json!({"code": code, "detail": detail}).to_string().as_bytes())
}

fn is_code(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// The status that a code has over HTTP, as far as it matters whether asking again helps.
fn status_of(word: &str, code: &str) -> u16 {
    match (word, code) {
        ("TRYAGAIN", _) | (_, "store_rolled_back") => 503,
        (_, "rate_limited") => 429,
        (_, "unknown_space") => 404,
        (_, "exhausted" | "sealed") => 409,
        (_, "bad_count" | "bad_caller") => 400,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_strings() {
        assert_eq!(command(&["SPOP", "links"]), b"*2\r\n$4\r\nSPOP\r\n$5\r\nlinks\r\n");
    }

    #[test]
    fn errors_have_the_codes_of_http() {
        for (line, code, is_lasting) in [
            ("-ERR unknown_space: there is no keyspace `x`", "unknown_space", true),
            ("-NOAUTH Authentication required", "unauthorized", true),
            ("-WRONGPASS the token is not valid", "unauthorized", true),
            ("-NOPERM the token does not allow this", "forbidden", true),
            ("-WRONGTYPE it has no pool", "wrong_kind", true),
            ("-TRYAGAIN no_keys_ready: none", "no_keys_ready", false),
            ("-ERR rate_limited: more than 5 a second", "rate_limited", false),
            ("-ERR max number of clients reached", "redis_error", false),
            ("-ERR Protocol error: too large", "redis_error", false),
            ("+PONG", "redis_error", false),
        ] {
            let fault = refusal(line.as_bytes());
            assert_eq!((&*fault.code, fault.lasting.is_some()), (code, is_lasting), "{line}");
        }
    }
}
