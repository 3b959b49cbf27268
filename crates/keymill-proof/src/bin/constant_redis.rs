//! `constant_redis`: answers every command of the Redis protocol with the same key of seven characters, and does
//! nothing else. What `redis-benchmark` gets out of it is the most that it can get out of any server.
//!
//!     constant_redis 127.0.0.1:6399

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &[u8] = b"$7\r\nkeykeys\r\n";

// One thread: the client needs the other core.
#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6399".into());
    let listener = TcpListener::bind(&address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut read = vec![0; 64 << 10];
    let mut answers = Vec::new();
    loop {
        let length = stream.read(&mut read).await?;
        if length == 0 {
            return Ok(());
        }
        // Every command is an array, and nothing else in it has the sign of one.
        let commands = read[..length].iter().filter(|it| **it == b'*').count();
        answers.clear();
        answers.extend(std::iter::repeat_n(ANSWER, commands).flatten());
        stream.write_all(&answers).await?;
    }
}
