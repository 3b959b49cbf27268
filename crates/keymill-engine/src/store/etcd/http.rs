//! Plain HTTP to a member: it answers on the port of its clients too, and tells there what its API
//! does not: the time (`clock`), and how large its database may become (`findings`).

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a member may take to answer.
const TIME_MAX: Duration = Duration::from_secs(1);
/// The most that is read of an answer.
const ANSWER_MAX: usize = 1 << 20;
/// What the head of an answer ends with.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// How much of an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Its head; more may come with it.
    Head,
    /// All of it.
    Whole,
}

/// What a member answers to `GET path`; `None` where it does not answer in time.
pub(super) async fn get(member: &str, path: &str, part: Part) -> Option<String> {
    timeout(TIME_MAX, ask(member, path, part)).await.ok()?.ok()
}

async fn ask(member: &str, path: &str, part: Part) -> io::Result<String> {
    let stream = TcpStream::connect(member).await?;
    // By HTTP/1.0 an answer comes in one piece, and the connection ends with it.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {member}\r\n\r\n");
    let mut unsent = request.as_bytes();
    while !unsent.is_empty() {
        stream.writable().await?;
        match stream.try_write(unsent) {
            Ok(count) => unsent = &unsent[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let (mut answer, mut piece): (Vec<u8>, Vec<u8>) = (Vec::new(), vec![0; 16 << 10]);
    let is_enough = |answer: &[u8]| {
        part == Part::Head && answer.windows(HEAD_END.len()).any(|end| end == HEAD_END)
    };
    while answer.len() < ANSWER_MAX && !is_enough(&answer) {
        stream.readable().await?;
        match stream.try_read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
