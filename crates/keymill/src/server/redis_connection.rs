//! One connection of the Redis protocol, perhaps over TLS, served until it ends or is told to end.
//!
//! A worker runs one task of these for each connection. It reads, has a [`Session`] answer all complete commands that it
//! has read, and sends their answers in one piece. There are no timers in it: `sweep` looks at what it does and gives
//! it orders.
//!
//! # Invariants
//!
//! - Nothing more is read while an answer is not sent, but for looking whether a client that waits is still there: who
//!   sends without reading is stopped by the sockets' buffers, and cut off by the time limit for unread answers.
//! - Input and output are bounded by [`INPUT_MAX`] and by what a session writes before it wants to send.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use keymill_engine::operations::turn::turn;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::activity::{Activity, Order};
use super::connection::{BoxError, OtherStream, Secured, Served, shake_hands};
use super::stream::Counted;
use super::tls::Tls;
use crate::front::http::ClientCertificate;
use crate::front::redis::{COMMAND_LEN_MAX, Next, Redis, Session};
use crate::metrics::tls::TlsFigures;

/// How much is read at once, at first and where a client sends more than that.
const INPUT_MIN: usize = 4 << 10;
const INPUT_MAX: usize = 16 << 10;
/// How much room for answers a connection keeps.
const OUTPUT_KEPT: usize = 16 << 10;

// A command that is not complete leaves room to read the rest of it.
const _: () = assert!(INPUT_MAX > COMMAND_LEN_MAX + 64);

impl Secured for Redis {
    fn tls_figures(&self) -> &TlsFigures {
        Redis::tls_figures(self)
    }

    fn sender(&self) -> Option<IpAddr> {
        Some(self.client())
    }

    fn set_secured(&self, certificate: Option<ClientCertificate>) {
        if let Some(certificate) = certificate {
            self.set_certificate(certificate);
        }
    }
}

/// Serves a connection over TLS to its end.
pub(super) async fn serve_tls(
    stream: TcpStream,
    tls: Arc<Tls>,
    served: Arc<Served<Redis>>,
) -> Result<(), BoxError> {
    let stream: Box<dyn OtherStream> = shake_hands(stream, &tls, &served).await?;
    serve(stream, served).await
}

/// Serves a connection to its end.
pub(super) async fn serve<S>(stream: S, served: Arc<Served<Redis>>) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = &served.activity;
    let connection = Connection {
        stream: Counted::new(stream, served.clone()),
        activity,
        input: Input::default(),
        output: Vec::new(),
        sent: 0,
        is_flushed: true,
        has_waited: false,
    };
    let mut serving = pin!(connection.run(Session::new(&served.front)));
    poll_fn(|context| {
        activity.obeyed_by(context.waker());
        if activity.order() == Order::Cut {
            return Poll::Ready(Err("a time limit has passed".into()));
        }
        serving.as_mut().poll(context)
    })
    .await
}

struct Connection<'a, S> {
    stream: Counted<S, Redis>,
    activity: &'a Activity,
    input: Input,
    /// Answers, of which so many bytes are sent.
    output: Vec<u8>,
    sent: usize,
    /// Whether what was written has left. Only TLS keeps what is written.
    is_flushed: bool,
    /// Whether the last read had to wait, so that others had their turn.
    has_waited: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    async fn run(mut self, mut session: Session<'_>) -> Result<(), BoxError> {
        self.activity.waits_for_commands(false, session.may_stay());
        while self.receive().await? {
            if std::mem::take(&mut self.has_waited) {
                session.rest();
            }
            if !self.answer(&mut session).await? {
                break;
            }
            self.send().await?;
            // Redis has no word for the last answer. Whoever was answered since the order was given connects to another
            // instance; a command that has begun to arrive is answered first.
            if self.activity.order() >= Order::Close && self.input.unread().is_empty() {
                break;
            }
        }
        let close = poll_fn(|context| Pin::new(&mut self.stream).poll_shutdown(context));
        Ok(close.await?)
    }

    /// Answers all complete commands that were read; `false` where the connection is to be closed behind them.
    async fn answer(&mut self, session: &mut Session<'_>) -> Result<bool, BoxError> {
        loop {
            let (used, next) = session.answer(self.input.unread(), &mut self.output);
            self.input.start += used;
            match next {
                Next::Read => {
                    let is_within_command = !self.input.unread().is_empty();
                    self.activity.waits_for_commands(is_within_command, session.may_stay());
                    self.note_progress();
                    return Ok(true);
                }
                Next::Send => self.send().await?,
                Next::Turn => {
                    self.send().await?;
                    self.note_progress();
                    turn().await;
                }
                Next::Wait(job) => {
                    self.activity.request_started(false);
                    // On the heap, so that a connection does not keep the room of its waits.
                    let answer = self.wait(Box::pin(session.work(*job))).await?;
                    self.activity.request_answered();
                    self.activity.request_finished();
                    self.output.extend_from_slice(&answer);
                }
                Next::Close => {
                    self.send().await?;
                    return Ok(false);
                }
                Next::Cut => return Err("the rest of an answer was withdrawn".into()),
            }
        }
    }

    /// Notes that commands were answered.
    fn note_progress(&self) {
        self.activity.request_started(false);
        self.activity.request_answered();
        self.activity.request_finished();
    }

    /// Waits for something while what was answered before it is sent. Ends where the client does: what was taken for
    /// it then comes back.
    async fn wait<T>(&mut self, mut work: Pin<Box<impl Future<Output = T>>>) -> io::Result<T> {
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            if let Poll::Ready(Err(error)) = self.poll_send(context) {
                return Poll::Ready(Err(error));
            }
            while !self.input.room().is_empty() {
                if ready!(self.poll_receive(context))? == 0 {
                    let gone = "the client has gone while it waited";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, gone)));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Reads some more; `false` at the end, or where the connection is told to end.
    async fn receive(&mut self) -> io::Result<bool> {
        poll_fn(|context| match self.poll_receive(context) {
            Poll::Ready(read) => Poll::Ready(read.map(|count| count > 0)),
            Poll::Pending if self.activity.order() >= Order::End => Poll::Ready(Ok(false)),
            Poll::Pending => {
                self.has_waited = true;
                Poll::Pending
            }
        })
        .await
    }

    /// Sends all answers.
    async fn send(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_send(context)).await
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(self.input.room());
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        let count = buffer.filled().len();
        self.input.end += count;
        Poll::Ready(Ok(count))
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            self.is_flushed = false;
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        self.sent = 0;
        self.output.clear();
        self.output.shrink_to(OUTPUT_KEPT);
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// What was read and not yet used.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Where to read to; empty where everything is full of what was not used.
    fn room(&mut self) -> &mut [u8] {
        let was_filled = self.end == self.bytes.len();
        if was_filled && self.bytes.len() < INPUT_MAX {
            // At its first use, and where a client sends more at once than there is room for.
            self.bytes.resize((self.bytes.len() * 2).clamp(INPUT_MIN, INPUT_MAX), 0);
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if was_filled && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_until_it_is_full_of_what_was_not_used() {
        let mut input = Input::default();
        assert_eq!(input.room().len(), INPUT_MIN);
        // A client that fills it gets more at once.
        for expected in [INPUT_MIN, 2 * INPUT_MIN, INPUT_MAX] {
            assert_eq!(input.room().len(), expected);
            input.end += expected;
            input.start = input.end;
        }
        assert_eq!(input.room().len(), INPUT_MAX);
        input.room()[..7].copy_from_slice(b"abcdefg");
        (input.start, input.end) = (3, INPUT_MAX);
        assert_eq!(input.room().len(), 3, "what is left moves to the beginning");
        assert_eq!(&input.unread()[..4], b"defg");
        input.end = INPUT_MAX;
        assert!(input.room().is_empty());
    }
}
