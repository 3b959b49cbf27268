//! A connection that its caller speaks on without this crate: for `keymill bench`, which measures servers and not
//! clients.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::Client;
use crate::error::Error;
use crate::transport::StreamBytes;

/// An open connection, with or without TLS.
pub struct RawStream(Box<dyn StreamBytes>);

impl Client {
    /// Opens a connection to the first server. `protocol` is what TLS calls the protocol that will be spoken; an empty
    /// one is not named.
    pub async fn dial_raw(&self, protocol: &[u8]) -> Result<RawStream, Error> {
        let address = self.first_address();
        match self.dialer().open(address, protocol).await {
            Ok(stream) => Ok(RawStream(stream.into_inner())),
            Err(problem) => {
                let name = &address.name;
                Err(Error::unreachable(format!("{name} {problem}")).with_server(name))
            }
        }
    }

    /// The value of the `Host` header for the first server, and what every path begins with there.
    pub fn raw_origin(&self) -> (&str, &str) {
        let address = self.first_address();
        (address.host.to_str().expect("it was made of text"), &address.prefix)
    }
}

impl AsyncRead for RawStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(context, into)
    }
}

impl AsyncWrite for RawStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}

impl std::fmt::Debug for RawStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawStream").finish_non_exhaustive()
    }
}
