//! A connection in memory, and what is sent over it in pieces.

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, duplex, split};
use tokio::task::yield_now;
use tokio::time::sleep;

/// How much a stream holds before its writer has to wait, as the buffer of a socket does.
const BUFFER: usize = 16 << 10;
/// How long a client waits for answers that take the store, where nothing tells it that there are no more.
const PATIENCE: Duration = Duration::from_millis(3);

/// What a client sends over a connection.
pub struct Sent<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// The lengths of its pieces, over and over; each is one more than it says. All at once where there are none.
    pub lengths: &'a [u8],
    /// How long the client waits for the server to close the connection, before it closes its own side.
    pub patience: Duration,
}

impl<'a> Sent<'a> {
    /// What the bytes of an input mean: the lengths of four pieces, and what is sent in them. A client is impatient if
    /// the first length is even; the second also says which way in it takes (`World::entrance`).
    pub fn read(input: &'a [u8]) -> Option<Sent<'a>> {
        let (lengths, bytes) = input.split_at_checked(4)?;
        let patience = if lengths[0] % 2 == 0 { Duration::ZERO } else { PATIENCE };
        Some(Sent { bytes, lengths, patience })
    }

    /// The byte that says which way in the client takes.
    pub fn entrance(&self) -> u8 {
        self.lengths.get(1).copied().unwrap_or_default()
    }
}

/// A connection: the end of the server, and that of the client.
pub fn connection() -> (DuplexStream, DuplexStream) {
    duplex(BUFFER)
}

/// Sends something, and reads until the server closes the connection. What is answered goes to `read`, which is told
/// what has arrived and says how much of it is used up. Gives what was not.
pub async fn talk(
    stream: DuplexStream,
    sent: Sent<'_>,
    read: impl FnMut(&[u8]) -> usize,
) -> Vec<u8> {
    let (answers, mut sending) = split(stream);
    let send = async move {
        let (mut rest, mut lengths) = (sent.bytes, sent.lengths.iter().cycle());
        while !rest.is_empty() {
            let len = lengths.next().map_or(rest.len(), |len| usize::from(*len) + 1);
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            // The server may have closed it.
            if sending.write_all(piece).await.is_err() {
                break;
            }
            yield_now().await;
            rest = behind;
        }
        if !sent.patience.is_zero() {
            sleep(sent.patience).await;
        }
        let _ = sending.shutdown().await;
    };
    let mut received = pin!(receive(answers, read));
    tokio::select! {
        unread = &mut received => return unread,
        () = send => {}
    }
    received.await
}

async fn receive(
    mut answers: ReadHalf<DuplexStream>,
    mut read: impl FnMut(&[u8]) -> usize,
) -> Vec<u8> {
    let mut unread = Vec::new();
    loop {
        let len = answers.read_buf(&mut unread).await.expect("a stream in memory does not fail");
        if len == 0 {
            return unread;
        }
        let used = read(&unread);
        unread.drain(..used);
    }
}
