//! HTTP/1.1 on a connection of our own: one request, written once, sent again and again.
//!
//! A client library does more for each request than the server does for a key. So only what an answer needs is read
//! here: its status, the length of its body, and whether the connection stays open.

mod answer;

use keymill_client::raw::RawStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::answer::{Body, Head, dechunk};
use super::fault::Fault;
use super::target::Server;
use super::told::{Asked, Told};

/// The largest answer that is read.
const ANSWER_MAX: usize = 64 << 20;
/// The largest head of an answer.
const HEAD_MAX: usize = 1 << 16;
/// How much is read at once, where the length is not known.
const READ: usize = 1 << 12;

/// A connection to a server.
#[derive(Debug)]
pub(super) struct HttpLink {
    stream: RawStream,
    buffer: Vec<u8>,
    is_open: bool,
}

/// The requests of a server: for as many keys as are usually asked for.
pub(super) struct Requests {
    count: u32,
    usual: Vec<u8>,
    /// What precedes and follows the number of keys.
    parts: [String; 2],
}

impl Requests {
    /// `origin` is the `Host` header and what paths begin with; `space` needs no encoding.
    pub(super) fn new(
        origin: (&str, &str),
        space: &str,
        count: u32,
        token: Option<&str>,
    ) -> Requests {
        let (host, prefix) = origin;
        let authorization =
            token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let parts = [
            format!("POST {prefix}/v1/spaces/{space}/keys"),
            format!(
                " HTTP/1.1\r\nHost: {host}\r\nUser-Agent: keymill-bench\r\nAccept: text/plain\r\n\
                 {authorization}Content-Length: 0\r\n\r\n"
            ),
        ];
        let usual = request(&parts, count);
        Requests { count, usual, parts }
    }
}

/// A request for so many keys. One key is asked for in the form that servers answer fastest.
fn request([begin, end]: &[String; 2], count: u32) -> Vec<u8> {
    let query = if count == 1 { String::new() } else { format!("?count={count}") };
    format!("{begin}{query}{end}").into_bytes()
}

impl HttpLink {
    pub(super) async fn connect(server: &Server) -> Result<HttpLink, Fault> {
        let stream = server.dial(b"http/1.1").await.map_err(Fault::refused)?;
        Ok(HttpLink { stream, buffer: Vec::with_capacity(READ), is_open: true })
    }

    /// Whether another request can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Sends one request and reads its answer.
    pub(super) async fn round(
        &mut self,
        server: &Server,
        asked: Asked,
        told: &mut Told<'_>,
    ) -> Result<(), Fault> {
        debug_assert_eq!(asked.requests, 1, "requests are not pipelined");
        if asked.count == server.requests.count {
            self.send(&server.requests.usual).await?;
        } else {
            self.send(&request(&server.requests.parts, asked.count)).await?;
        }
        self.buffer.clear();
        let head = self.read_head().await?;
        self.is_open = !head.closes;
        let chunked = match head.body {
            Body::Length(len) => {
                self.read_to(head.end.saturating_add(len)).await?;
                None
            }
            Body::Chunked => Some(self.read_chunks(head.end).await?),
        };
        let body = chunked.as_deref().unwrap_or(&self.buffer[head.end..]);
        match head.status {
            200 => told.keys(body, asked.count),
            status => {
                told.refused(Fault::of_answer(status, body));
                Ok(())
            }
        }
    }

    async fn send(&mut self, request: &[u8]) -> Result<(), Fault> {
        self.stream.write_all(request).await.map_err(|error| Fault::lost(&error))?;
        // TLS keeps what was written until then.
        self.stream.flush().await.map_err(|error| Fault::lost(&error))
    }

    async fn read_head(&mut self) -> Result<Head, Fault> {
        loop {
            self.read_some(READ).await?;
            match Head::read(&self.buffer).map_err(Fault::bad_answer)? {
                // It announces the true answer, such as 100 Continue.
                Some(head) if head.status < 200 => drop(self.buffer.drain(..head.end)),
                Some(head) => return Ok(head),
                None => {}
            }
            if self.buffer.len() > HEAD_MAX {
                return Err(Fault::bad_answer("the head of the answer has no end"));
            }
        }
    }

    /// Reads until there are exactly so many bytes.
    async fn read_to(&mut self, len: usize) -> Result<(), Fault> {
        if len > ANSWER_MAX {
            return Err(Fault::bad_answer(format!("an answer of {len} bytes is too large")));
        }
        while self.buffer.len() < len {
            self.read_some(len - self.buffer.len()).await?;
        }
        match self.buffer.len() == len {
            true => Ok(()),
            false => Err(Fault::bad_answer("the answer is longer than it says")),
        }
    }

    /// Reads a body whose parts have their lengths in front of them.
    async fn read_chunks(&mut self, begin: usize) -> Result<Vec<u8>, Fault> {
        loop {
            let body = dechunk(&self.buffer[begin..]).map_err(Fault::bad_answer)?;
            match body {
                Some(body) => return Ok(body),
                None if self.buffer.len() > ANSWER_MAX => {
                    return Err(Fault::bad_answer("the answer is too large"));
                }
                None => self.read_some(READ.max(self.buffer.len())).await?,
            }
        }
    }

    /// Reads what has arrived, with room for so many bytes.
    async fn read_some(&mut self, room: usize) -> Result<(), Fault> {
        self.buffer.reserve(room);
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) => Err(Fault::closed()),
            Ok(_) => Ok(()),
            Err(error) => Err(Fault::lost(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_is_asked_for_without_a_query() {
        let text = |count| {
            let requests = Requests::new(("a:1", "/x"), "links", count, Some("km_1"));
            String::from_utf8(requests.usual).unwrap()
        };
        assert!(text(1).starts_with("POST /x/v1/spaces/links/keys HTTP/1.1\r\nHost: a:1\r\n"));
        assert!(text(5).starts_with("POST /x/v1/spaces/links/keys?count=5 HTTP/1.1\r\n"));
        assert!(text(1).contains("\r\nAuthorization: Bearer km_1\r\n"));
        assert!(text(1).ends_with("\r\n\r\n"));
    }
}
