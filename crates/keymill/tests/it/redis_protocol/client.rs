//! A client of the Redis protocol, written for these tests: it sends what it is told, and reads any answer.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Long enough for anything that is not stuck.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A connection.
pub(super) struct Client<S = TcpStream> {
    pub(super) stream: S,
    read: Vec<u8>,
}

/// An answer, in the types of version 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Word(String),
    Error(String),
    Integer(i64),
    Bulk(String),
    Null,
    Array(Vec<Value>),
    Set(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn new(stream: S) -> Client<S> {
        Client { stream, read: Vec::new() }
    }

    /// Sends bytes as they are.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        timeout(PATIENCE, self.stream.write_all(bytes)).await.expect("it reads").unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends a command and reads its answer.
    pub(super) async fn ask(&mut self, parts: &[&str]) -> Value {
        self.send(&command(parts)).await;
        self.next().await
    }

    /// The same until the answer is not that keys are on their way: a first take may take longer than it waits.
    pub(super) async fn settled(&mut self, parts: &[&str]) -> Value {
        loop {
            match self.ask(parts).await {
                Value::Error(error) if error.starts_with("TRYAGAIN no_keys_ready") => {}
                answer => return answer,
            }
        }
    }

    /// The next answer.
    pub(super) async fn next(&mut self) -> Value {
        self.next_or_end().await.expect("an answer comes before the end")
    }

    /// The next answer; `None` at the end of the connection.
    pub(super) async fn next_or_end(&mut self) -> Option<Value> {
        loop {
            if let Some((value, len)) = decode(&self.read) {
                self.read.drain(..len);
                return Some(value);
            }
            let mut bytes = [0; 16 << 10];
            let read = timeout(PATIENCE, self.stream.read(&mut bytes)).await;
            // A reset is an end, too.
            let count = read.expect("an answer, or the end").unwrap_or(0);
            if count == 0 {
                assert!(self.read.is_empty(), "half an answer: {}", self.read.escape_ascii());
                return None;
            }
            self.read.extend_from_slice(&bytes[..count]);
        }
    }

    /// All answers until the server ends the connection.
    pub(super) async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(value) = self.next_or_end().await {
            all.push(value);
        }
        all
    }
}

impl Value {
    pub(super) fn word(word: &str) -> Value {
        Value::Word(word.to_owned())
    }

    pub(super) fn bulk(text: &str) -> Value {
        Value::Bulk(text.to_owned())
    }

    /// The keys of a take, whatever it was answered as.
    #[track_caller]
    pub(super) fn keys(&self) -> Vec<String> {
        match self {
            Value::Bulk(key) => vec![key.clone()],
            Value::Integer(key) => vec![key.to_string()],
            Value::Array(keys) | Value::Set(keys) => keys.iter().flat_map(Value::keys).collect(),
            other => panic!("{other:?} has no keys"),
        }
    }

    /// Asserts that this is an error that begins like this.
    #[track_caller]
    pub(super) fn is_error(&self, start: &str) {
        assert!(
            matches!(self, Value::Error(error) if error.starts_with(start)),
            "{self:?} is not an error `{start}`"
        );
    }
}

/// A command as it is sent.
pub(super) fn command(parts: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", parts.len());
    for part in parts {
        bytes += &format!("${}\r\n{part}\r\n", part.len());
    }
    bytes.into_bytes()
}

/// The answer at the beginning of some bytes, and how long it is; `None` where it is not complete.
fn decode(bytes: &[u8]) -> Option<(Value, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = std::str::from_utf8(&bytes[1..end]).expect("lines are text").to_owned();
    let at = end + 2;
    let number = || line.parse::<i64>().unwrap_or_else(|_| panic!("`{line}` is no number"));
    let many = |factor: usize| {
        let count = factor * usize::try_from(number()).unwrap();
        let (mut values, mut at) = (Vec::new(), at);
        for _ in 0..count {
            let (value, len) = decode(&bytes[at..])?;
            values.push(value);
            at += len;
        }
        Some((values, at))
    };
    Some(match bytes[0] {
        b'+' => (Value::Word(line), at),
        b'-' => (Value::Error(line), at),
        b':' => (Value::Integer(number()), at),
        b'_' => (Value::Null, at),
        b'$' | b'*' if line == "-1" => (Value::Null, at),
        b'$' => {
            let len = usize::try_from(number()).unwrap();
            let text = bytes.get(at..at + len + 2)?;
            assert!(text.ends_with(b"\r\n"), "{}", text.escape_ascii());
            (Value::Bulk(String::from_utf8(text[..len].to_vec()).unwrap()), at + len + 2)
        }
        b'*' => many(1).map(|(values, at)| (Value::Array(values), at))?,
        b'~' => many(1).map(|(values, at)| (Value::Set(values), at))?,
        b'%' => {
            let (values, at) = many(2)?;
            let pairs = values.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()));
            (Value::Map(pairs.collect()), at)
        }
        other => panic!("an answer does not begin with {other:?}"),
    })
}
