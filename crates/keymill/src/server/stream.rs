//! A client's stream, which notes what passes and closes so that nothing sent is lost.
//!
//! hyper and `redis_connection` read and write through it. It never decides anything; that is for `sweep`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Served;

/// Up to this length, the header and the body of an answer are put together here: `send` is a shorter way
/// through the system than `writev`, by more than it takes to copy so few bytes.
const JOINED_MAX: usize = 512;

/// How much of what a client still sends is read and thrown away at the end.
const DISCARDED_MAX: usize = 256 << 10;

/// A stream whose traffic is counted.
pub(super) struct Counted<S, F> {
    stream: S,
    served: Arc<Served<F>>,
    /// The client has closed its end.
    is_at_end: bool,
    /// This end is closed.
    is_shut: bool,
    /// What was written is still here, because the client takes no more. Only TLS keeps what is written.
    is_flush_blocked: bool,
    discarded: usize,
}

impl<S, F> Counted<S, F> {
    pub(super) fn new(stream: S, served: Arc<Served<F>>) -> Counted<S, F> {
        Counted {
            stream,
            served,
            is_at_end: false,
            is_shut: false,
            is_flush_blocked: false,
            discarded: 0,
        }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => self.served.activity.wrote(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.served.activity.write_blocked(),
        }
        written
    }
}

impl<S: AsyncRead + Unpin, F> AsyncRead for Counted<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        match &buffer.filled()[before..] {
            [] => self.is_at_end = true,
            bytes => self.served.activity.read(bytes),
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, F> AsyncWrite for Counted<S, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = slices.iter().map(|slice| slice.len()).sum();
        if len <= JOINED_MAX {
            let (mut joined, mut at) = ([0; JOINED_MAX], 0);
            for slice in slices {
                joined[at..at + slice.len()].copy_from_slice(slice);
                at += slice.len();
            }
            return self.poll_write(context, &joined[..len]);
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_pending() {
            self.is_flush_blocked = true;
            self.served.activity.write_blocked();
        } else if self.is_flush_blocked {
            self.is_flush_blocked = false;
            self.served.activity.wrote(0);
        }
        flushed
    }

    /// Closes this end, then reads until the client closes the other. A socket that is closed
    /// with bytes unread resets the connection, and that takes the last answer with it.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.is_shut {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            this.is_shut = true;
            this.served.activity.lingers();
        }
        let mut bytes = [0; 4096];
        while !this.is_at_end && this.discarded < DISCARDED_MAX {
            let mut buffer = ReadBuf::new(&mut bytes);
            if ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer)).is_err() {
                break;
            }
            this.discarded += buffer.filled().len();
            this.is_at_end = buffer.filled().is_empty();
        }
        Poll::Ready(Ok(()))
    }
}
