//! Dialing: a new connection to a server.

use std::time::Duration;

use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Address, Place};
use super::body::Body;

/// What makes connections.
#[derive(Clone)]
pub(crate) struct Dialer {
    /// Present where a server needs it.
    pub(crate) tls: Option<TlsConnector>,
    /// How long a connection may take to open, TLS included.
    pub(crate) time_max: Duration,
}

/// A connection of any kind.
pub(crate) type Stream = TokioIo<Box<dyn Bytes>>;

pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

impl Dialer {
    /// Opens a connection that speaks HTTP/1.1. What went wrong is for people. The connection is driven by a task of its
    /// own, and ends with its sender.
    pub(crate) async fn dial(&self, address: &Address) -> Result<SendRequest<Body>, String> {
        let stream = self.open(address, b"http/1.1").await?;
        let (sender, connection) =
            handshake(stream).await.map_err(|error| format!("does not speak HTTP: {error}"))?;
        tokio::spawn(async move {
            // Whoever waits for an answer is told what went wrong.
            let _ = connection.await;
        });
        Ok(sender)
    }

    /// Opens a connection that will speak `protocol`, as TLS names it; an empty one is not named.
    pub(crate) async fn open(&self, address: &Address, protocol: &[u8]) -> Result<Stream, String> {
        match timeout(self.time_max, self.connect(address, protocol)).await {
            Ok(opened) => opened.map(TokioIo::new),
            Err(_) => Err(format!("did not accept a connection within {:?}", self.time_max)),
        }
    }

    async fn connect(&self, address: &Address, protocol: &[u8]) -> Result<Box<dyn Bytes>, String> {
        let (host, port, is_tls) = match &address.place {
            Place::Tcp { host, port, is_tls } => (host, *port, *is_tls),
            #[cfg(unix)]
            Place::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await;
                return Ok(Box::new(stream.map_err(|error| unreachable(&error))?));
            }
            #[cfg(not(unix))]
            Place::Unix(_) => return Err(unreachable(&"this system has no Unix sockets")),
        };
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|error| unreachable(&error))?;
        // Requests are written whole: waiting for more of one only delays it.
        let _ = stream.set_nodelay(true);
        if !is_tls {
            return Ok(Box::new(stream));
        }
        let tls = self.tls.as_ref().expect("it was made together with the addresses");
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|error| format!("has no name for TLS: {error}"))?;
        let protocols = if protocol.is_empty() { Vec::new() } else { vec![protocol.to_vec()] };
        let stream = tls.with_alpn(protocols).connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| tls_problem(&error))?))
    }
}

/// Why there is no TLS, and what to do about it.
fn tls_problem(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidMessage(_)) => "does not speak TLS; use http://".to_owned(),
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "has a certificate of an authority that is not trusted here; name the file of that authority with \
             `ca_file`"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after,
            ..
        })) => {
            let seconds = i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX);
            match Timestamp::from_second(seconds) {
                Ok(end) => format!("has a certificate that expired on {end}"),
                Err(_) => format!("has a certificate that has expired: {error}"),
            }
        }
        _ => format!("cannot be reached over TLS: {error}"),
    }
}

fn unreachable(problem: &dyn std::fmt::Display) -> String {
    format!("cannot be reached: {problem}")
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("time_max", &self.time_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustls::InvalidMessage;
    use rustls::pki_types::UnixTime;

    use super::*;

    #[test]
    fn what_is_wrong_with_tls_is_told_with_what_to_do() {
        let wrong = rustls::Error::InvalidCertificate;
        let [time, not_after] = [1_800_000_000, 1_700_000_000]
            .map(|it| UnixTime::since_unix_epoch(Duration::from_secs(it)));
        for (error, says) in [
            (rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType), "use http://"),
            (wrong(CertificateError::UnknownIssuer), "with `ca_file`"),
            (
                wrong(CertificateError::ExpiredContext { time, not_after }),
                "a certificate that expired on 2023-11-14T22:13:20Z",
            ),
            (wrong(CertificateError::BadSignature), "cannot be reached over TLS: "),
        ] {
            let problem = tls_problem(&io::Error::new(io::ErrorKind::InvalidData, error));
            assert!(problem.contains(says), "{problem}");
        }
    }
}
