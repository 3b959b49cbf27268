//! A take, as a caller does it. HTTP is here; another protocol is another [`Take`].

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::client::{Answer, Client};

/// A caller's connection to one server.
///
/// It never repeats a take, because a repeated take is another take. A closure that takes a count and says
/// what came of it is one too.
pub trait Take: Send {
    /// Connects, unless it is connected already; `false` where nobody listens.
    fn connect(&mut self) -> bool {
        true
    }

    /// Takes so many keys.
    fn take(&mut self, count: u32) -> Taken;
}

/// What came of a take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The answer is complete: these keys.
    Keys(Vec<String>),
    /// A refusal, by its class: status and code, as in `503 no_keys_ready`.
    Refused(String),
    /// The connection broke, or no answer came in time.
    Interrupted {
        /// What was wrong.
        error: String,
        /// The keys that had arrived complete: somebody may have used them.
        keys: Vec<String>,
    },
}

/// Takes over HTTP, on one kept-alive connection.
#[derive(Debug)]
pub struct HttpTake {
    client: Client,
    space: String,
    gets_single_keys: bool,
}

impl HttpTake {
    /// Takes of a space, with `POST`.
    pub fn new(address: SocketAddr, space: &str) -> HttpTake {
        HttpTake { client: Client::new(address), space: space.to_owned(), gets_single_keys: false }
    }

    /// The same with another bound on every wait.
    pub fn time_max(mut self, time_max: Duration) -> HttpTake {
        self.client = self.client.time_max(time_max);
        self
    }

    /// The same, but a single key is taken with `GET /get-key`.
    pub fn gets_single_keys(self) -> HttpTake {
        HttpTake { gets_single_keys: true, ..self }
    }
}

impl Take for HttpTake {
    fn connect(&mut self) -> bool {
        self.client.connect().is_ok()
    }

    fn take(&mut self, count: u32) -> Taken {
        let answer = if count == 1 && self.gets_single_keys {
            self.client.get(&format!("/get-key?space={}", self.space))
        } else {
            self.client.take(&self.space, count)
        };
        Taken::over_http(answer, &self.client)
    }
}

impl<F: FnMut(u32) -> Taken + Send> Take for F {
    fn take(&mut self, count: u32) -> Taken {
        self(count)
    }
}

impl Taken {
    /// What came of a take over HTTP, of one key a line.
    pub fn over_http(answer: io::Result<Answer>, client: &Client) -> Taken {
        match answer {
            Ok(answer) => Taken::from(&answer),
            Err(error) => {
                // The last line may be cut short, so it is not a key.
                let lines = client.partial().split_inclusive(|&byte| byte == b'\n');
                let keys = lines.filter_map(|line| line.strip_suffix(b"\n"));
                let keys = keys.map(|key| String::from_utf8_lossy(key).into_owned());
                Taken::Interrupted { error: error.to_string(), keys: keys.collect() }
            }
        }
    }

    /// Whether it gave keys.
    pub fn is_keys(&self) -> bool {
        matches!(self, Taken::Keys(_))
    }

    /// Whether it was refused for this: a class such as `409 exhausted`, or the beginning of one.
    pub fn is_refused(&self, class: &str) -> bool {
        matches!(self, Taken::Refused(found) if found.starts_with(class))
    }
}

impl From<&Answer> for Taken {
    fn from(answer: &Answer) -> Taken {
        match answer.status {
            200 => Taken::Keys(answer.lines().map(str::to_owned).collect()),
            status => Taken::Refused(format!("{status} {}", answer.code())),
        }
    }
}
