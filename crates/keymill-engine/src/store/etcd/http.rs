//! Plain HTTP to a member: it answers on the port of its clients too, and tells there what its API
//! does not: the time (`clock`), and how large its database may become (`safety`).

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a member may take to answer.
const TIME_MAX: Duration = Duration::from_secs(1);
/// The most that is read of an answer.
const ANSWER_MAX: u64 = 1 << 20;

/// What a member answers to `GET path`; `None` where it does not answer in time.
pub(super) async fn get(member: &str, path: &str) -> Option<String> {
    timeout(TIME_MAX, ask(member, path)).await.ok()?.ok()
}

async fn ask(member: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(member).await?;
    // By HTTP/1.0 an answer comes in one piece, and the connection ends with it.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {member}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
