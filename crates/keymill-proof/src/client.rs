//! A minimal HTTP/1.1 client: one kept-alive connection, blocking, every wait bounded.
//!
//! It never repeats a request, because a repeated take is another take; and after a failure it
//! shows what had arrived of the answer, because a caller may have used that.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The largest answer that is read.
const ANSWER_MAX: usize = 64 << 20;

/// A client of one server. It connects when needed, and again after a failure.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    time_max: Duration,
    stream: Option<TcpStream>,
    /// What was read of the present answer.
    buffer: Vec<u8>,
    /// Where its body begins, once that is known.
    body_start: usize,
    status: u16,
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Names as sent, and values.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Client {
    /// A client that waits at most ten seconds for anything.
    pub fn new(address: SocketAddr) -> Client {
        Client {
            address,
            time_max: Duration::from_secs(10),
            stream: None,
            buffer: Vec::new(),
            body_start: 0,
            status: 0,
        }
    }

    /// The same with another bound on every wait.
    pub fn time_max(mut self, time_max: Duration) -> Client {
        self.time_max = time_max;
        self
    }

    /// The server it talks to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects, unless it is connected already.
    pub fn connect(&mut self) -> io::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.address, self.time_max)?;
            stream.set_read_timeout(Some(self.time_max))?;
            stream.set_write_timeout(Some(self.time_max))?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// `GET path`.
    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.request("GET", path, &[], b"")
    }

    /// Takes `count` keys of a space, one a line.
    pub fn take(&mut self, space: &str, count: u32) -> io::Result<Answer> {
        let path = format!("/v1/spaces/{space}/keys?count={count}");
        self.request("POST", &path, &[("Accept", "text/plain")], b"")
    }

    /// Makes a space, or changes what can be changed of it.
    pub fn put_space(&mut self, space: &str, json: &str) -> io::Result<Answer> {
        let path = format!("/v1/spaces/{space}");
        self.request("PUT", &path, &[("Content-Type", "application/json")], json.as_bytes())
    }

    /// Sends a request and reads the whole answer. After an error the connection is gone.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        self.buffer.clear();
        (self.body_start, self.status) = (0, 0);
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method != "GET" {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        let mut request = text.into_bytes();
        request.extend_from_slice(body);
        self.connect()?;
        let answer = self.exchange(&request, method == "HEAD");
        let closes = |answer: &Answer| answer.header("connection") == Some("close");
        if answer.as_ref().map_or(true, closes) {
            self.stream = None;
        }
        answer
    }

    /// After a failed request: what had arrived of the body of a 200 answer. Nothing where the
    /// body was chunked.
    pub fn partial(&self) -> &[u8] {
        match self.status {
            200 => &self.buffer[self.body_start..],
            _ => &[],
        }
    }

    fn exchange(&mut self, request: &[u8], head_only: bool) -> io::Result<Answer> {
        self.stream().write_all(request)?;
        let head_end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more()?;
        };
        let (status, headers) = parse_head(&self.buffer[..head_end])?;
        let mut answer = Answer { status, headers, body: Vec::new() };
        if head_only || status == 204 || status == 304 {
            return Ok(answer);
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = self.read_chunks(head_end)?;
            return Ok(answer);
        }
        let length = answer.header("content-length").map(str::parse::<usize>);
        let Some(Ok(length)) = length else {
            return Err(malformed("no length"));
        };
        (self.body_start, self.status) = (head_end, status);
        self.read_until(head_end + length)?;
        answer.body = self.buffer[head_end..head_end + length].to_vec();
        Ok(answer)
    }

    fn read_chunks(&mut self, mut at: usize) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line_end = loop {
                if let Some(len) = find(&self.buffer[at..], b"\r\n") {
                    break at + len;
                }
                self.read_more()?;
            };
            let size = String::from_utf8_lossy(&self.buffer[at..line_end]).into_owned();
            let size = usize::from_str_radix(size.split(';').next().unwrap_or("").trim(), 16)
                .map_err(|_| malformed("bad chunk size"))?;
            let start = line_end + 2;
            self.read_until(start + size + 2)?;
            body.extend_from_slice(&self.buffer[start..start + size]);
            at = start + size + 2;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn read_until(&mut self, len: usize) -> io::Result<()> {
        while self.buffer.len() < len {
            self.read_more()?;
        }
        Ok(())
    }

    fn read_more(&mut self) -> io::Result<()> {
        if self.buffer.len() >= ANSWER_MAX {
            return Err(malformed("larger than it may be"));
        }
        let mut bytes = [0; 16 << 10];
        match self.stream().read(&mut bytes)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => {
                self.buffer.extend_from_slice(&bytes[..count]);
                Ok(())
            }
        }
    }

    fn stream(&mut self) -> &mut TcpStream {
        self.stream.as_mut().expect("connected before anything is sent")
    }
}

impl Answer {
    /// The body as text.
    ///
    /// # Panics
    ///
    /// When it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the answer is text")
    }

    /// A header's value; names are compared without case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The stable code of a problem; empty where the body has none.
    pub fn code(&self) -> &str {
        let code = self.text().split_once("\"code\":\"").map(|(_, rest)| rest);
        code.and_then(|code| code.split('"').next()).unwrap_or_default()
    }

    /// The body's lines.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.text().lines()
    }
}

fn parse_head(head: &[u8]) -> io::Result<(u16, Vec<(String, String)>)> {
    let head = std::str::from_utf8(head).map_err(|_| malformed("head is not text"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| malformed("no status"))?;
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    Ok((status, headers.collect()))
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn malformed(problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("a bad answer: {problem}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn answers_on_one_connection_are_told_apart() {
        let mut client = serve(&[
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab\nc",
            b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n",
        ]);
        let first = client.get("/").unwrap();
        assert_eq!((first.status, first.lines().collect::<Vec<_>>()), (200, vec!["ab", "c"]));
        let second = client.get("/").unwrap();
        assert_eq!((second.status, second.text()), (503, "abcd"));
    }

    #[test]
    fn a_broken_answer_is_an_error_that_shows_what_had_arrived() {
        let mut client = serve(&[b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nkey1\nke"]);
        let error = client.get("/").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(client.partial(), b"key1\nke");
    }

    /// A client of a server that gives these answers, one a request, and then hangs up.
    fn serve(answers: &'static [&'static [u8]]) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    request.push(byte[0]);
                }
                stream.write_all(answer).unwrap();
            }
        });
        Client::new(address)
    }
}
