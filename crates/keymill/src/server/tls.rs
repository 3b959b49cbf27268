//! TLS: the certificate of the server, replaced while it runs, and the names in those of clients.
//!
//! `cli` loads it and reloads it at SIGHUP; [`Tls::watch`] looks for new files; `connection` shakes hands, on
//! the thread that serves the connection. A client's certificate is asked for where there is an authority to
//! verify it, and never required: what its names may do is not decided here.
//!
//! # Invariants
//!
//! - There is always a certificate with the key that belongs to it: what cannot be used replaces nothing.
//! - A connection keeps the certificate it began with.
//! - A client's certificate is given only where it is valid now, also where a session is resumed.

mod certificate;

use std::fmt;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ProducesTickets, WebPkiClientVerifier};
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use zeroize::Zeroizing;

use self::certificate::{names_in, not_after};
use super::warning::Warning;
use crate::front::http::{ClientCertificate, Http};
use crate::metrics::tls::{TlsFigures, expiry};

/// How often the files are looked at. New ones are used once they were the same twice, because a certificate
/// and its key are seldom replaced at the same moment.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// About the most that is kept of an answer, encrypted, for a client that does not read.
const UNSENT_MAX: usize = 16 << 10;

/// What is spoken over TLS, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files that TLS is made of, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of client certificates; without them, none is asked for.
    pub client_ca: Option<PathBuf>,
}

/// Why files cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// What a server uses for TLS at present.
pub struct Tls {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    /// Kept when certificates are replaced, so that sessions can still be resumed.
    tickets: Arc<dyn ProducesTickets>,
    current: ArcSwap<Current>,
    looks: Mutex<Looks>,
    hasher: RandomState,
    refused: Mutex<Warning>,
}

/// What new connections use.
struct Current {
    config: Arc<ServerConfig>,
    /// Who verifies certificates of clients.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The end of the certificate.
    not_after: Option<Timestamp>,
}

/// What was seen of the files. Only hashes: nothing keeps a second copy of a key.
#[derive(Debug)]
struct Looks {
    /// What was used last, or found unusable.
    tried: u64,
    /// What was there at the last look.
    last: u64,
}

/// What the files hold.
struct Contents {
    certificate: Read,
    key: Read,
    client_ca: Option<Read>,
}

type Read = Result<Zeroizing<Vec<u8>>, io::Error>;

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Tls, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let tickets = ring::Ticketer::new()
            .map_err(|error| TlsError(format!("cannot make keys for TLS sessions: {error}")))?;
        let (contents, hasher) = (Contents::read(&files), RandomState::new());
        let seen = contents.hash(&hasher);
        let current = Current::new(&files, &contents, &provider, &tickets)?;
        Ok(Tls {
            files,
            provider,
            tickets,
            current: ArcSwap::from_pointee(current),
            looks: Mutex::new(Looks { tried: seen, last: seen }),
            hasher,
            refused: Mutex::default(),
        })
    }

    /// What is wrong with the certificate, if it has ended or ends soon.
    pub fn expiry(&self) -> Option<String> {
        let end = self.current.load().not_after?;
        expiry(end, Timestamp::now()).map(|(_, detail)| detail)
    }

    /// Has readiness and metrics tell of the certificate in use, and warns of its end.
    pub(super) fn announce(&self, http: &Http) {
        http.tls_figures().note_loaded(self.current.load().not_after);
        if let Some(detail) = self.expiry() {
            tracing::warn!(certificate = %self.files.certificate.display(), "{detail}");
        }
    }

    /// Reads the files again now; whether they have changed and are in use. Where they cannot be used, the old
    /// certificate stays in use, and that is logged and counted.
    pub async fn reload(self: &Arc<Tls>, http: &Http) -> bool {
        let contents = self.contents().await;
        let seen = contents.hash(&self.hasher);
        let before = {
            let mut looks = self.looks();
            looks.last = seen;
            std::mem::replace(&mut looks.tried, seen)
        };
        match Current::new(&self.files, &contents, &self.provider, &self.tickets) {
            Ok(current) => {
                self.current.store(Arc::new(current));
                self.announce(http);
                if before != seen {
                    tracing::info!("the TLS certificate was reloaded");
                }
                before != seen
            }
            Err(error) => {
                http.tls_figures().note_reload_failure();
                tracing::error!(
                    "the TLS certificate was not reloaded; the old one stays in use: {error}"
                );
                false
            }
        }
    }

    /// Reloads the files whenever they have changed, for as long as it is polled.
    pub async fn watch(self: Arc<Tls>, http: Http) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let seen = self.contents().await.hash(&self.hasher);
            let is_news = {
                let mut looks = self.looks();
                let is_settled = std::mem::replace(&mut looks.last, seen) == seen;
                is_settled && looks.tried != seen
            };
            if is_news {
                self.reload(&http).await;
            }
        }
    }

    /// Shakes hands with a client. Gives its certificate, where it has shown one that is valid.
    pub(super) async fn shake_hands(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Option<ClientCertificate>)> {
        let current = self.current.load_full();
        let acceptor = TlsAcceptor::from(current.config.clone());
        let limit = |session: &mut ServerConnection| session.set_buffer_limit(Some(UNSENT_MAX));
        let stream = acceptor.accept_with(stream, limit).await?;
        let certificate = current.client_certificate(stream.get_ref().1);
        Ok((stream, certificate))
    }

    /// Counts a handshake that has failed, and says so now and then.
    pub(super) fn note_refused(
        &self,
        figures: &TlsFigures,
        client: Option<IpAddr>,
        error: &io::Error,
    ) {
        figures.count_refused();
        let noted = self.refused.lock().expect("nothing panics while it is held").note();
        if let Some(count) = noted {
            let client = client.map(tracing::field::display);
            tracing::warn!(count, client, "a TLS handshake failed: {error}");
        }
    }

    async fn contents(self: &Arc<Tls>) -> Contents {
        let tls = self.clone();
        // A file may be on a disk that does not answer.
        let read = tokio::task::spawn_blocking(move || Contents::read(&tls.files));
        read.await.expect("reading does not panic")
    }

    fn looks(&self) -> std::sync::MutexGuard<'_, Looks> {
        self.looks.lock().expect("nothing panics while it is held")
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Current {
    fn new(
        files: &TlsFiles,
        contents: &Contents,
        provider: &Arc<CryptoProvider>,
        tickets: &Arc<dyn ProducesTickets>,
    ) -> Result<Current, TlsError> {
        let chain = certificates("tls_certificate", &files.certificate, &contents.certificate)?;
        let not_after = chain.first().and_then(not_after);
        let key = private_key(&files.key, &contents.key)?;
        let verifier = match (&files.client_ca, &contents.client_ca) {
            (Some(path), Some(read)) => Some(verifier(path, read, provider)?),
            _ => None,
        };
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(format!("cannot set up TLS: {error}")))?;
        let config = match &verifier {
            Some(verifier) => config.with_client_cert_verifier(verifier.clone()),
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_single_cert(chain, key).map_err(|error| {
            let (key, certificate) = (files.key.display(), files.certificate.display());
            TlsError(match error {
                rustls::Error::InconsistentKeys(_) => {
                    format!("the key in {key} does not belong to the certificate in {certificate}")
                }
                error => format!("cannot use {certificate} with {key}: {error}"),
            })
        })?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        config.ticketer = tickets.clone();
        Ok(Current { config: Arc::new(config), verifier, not_after })
    }

    /// The certificate of a client. It ends with the first of those that lead to its authority.
    fn client_certificate(&self, session: &ServerConnection) -> Option<ClientCertificate> {
        let chain = session.peer_certificates()?;
        let (first, others) = chain.split_first()?;
        let verifier = self.verifier.as_ref()?;
        if session.handshake_kind() == Some(HandshakeKind::Resumed) {
            // It was verified when the session began, perhaps hours ago and for another authority.
            verifier.verify_client_cert(first, others, UnixTime::now()).ok()?;
        }
        let ends: Option<Vec<Timestamp>> = chain.iter().map(not_after).collect();
        let not_after = ends?.into_iter().min()?;
        Some(ClientCertificate { names: names_in(first), not_after })
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Contents {
        let read = |path: &PathBuf| fs::read(path).map(Zeroizing::new);
        Contents {
            certificate: read(&files.certificate),
            key: read(&files.key),
            client_ca: files.client_ca.as_ref().map(read),
        }
    }

    fn hash(&self, hasher: &RandomState) -> u64 {
        fn part(read: &Read) -> Result<&[u8], io::ErrorKind> {
            read.as_ref().map(|bytes| bytes.as_slice()).map_err(io::Error::kind)
        }
        hasher.hash_one((
            part(&self.certificate),
            part(&self.key),
            self.client_ca.as_ref().map(part),
        ))
    }
}

fn certificates(
    setting: &str,
    path: &Path,
    read: &Read,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refuse = |why: String| TlsError(format!("{setting}: {}: {why}", path.display()));
    let bytes = read.as_ref().map_err(|error| refuse(error.to_string()))?;
    let found = CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, PemError>>();
    // The parser's own words may quote a line, which is one of a key where files were mixed up.
    let found = found.map_err(|_| refuse("it is not valid PEM".to_owned()))?;
    if found.is_empty() {
        return Err(refuse("it holds no certificate in PEM format".to_owned()));
    }
    Ok(found)
}

fn private_key(path: &Path, read: &Read) -> Result<PrivateKeyDer<'static>, TlsError> {
    let refuse = |why: String| TlsError(format!("tls_key: {}: {why}", path.display()));
    let bytes = read.as_ref().map_err(|error| refuse(error.to_string()))?;
    PrivateKeyDer::from_pem_slice(bytes).map_err(|_| {
        refuse("it holds no private key in PEM format; an encrypted key cannot be used".to_owned())
    })
}

fn verifier(
    path: &Path,
    read: &Read,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let refuse = |why: String| TlsError(format!("tls_client_ca: {}: {why}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls_client_ca", path, read)? {
        roots.add(certificate).map_err(|error| refuse(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build();
    verifier.map_err(|error| refuse(error.to_string()))
}

#[cfg(test)]
mod tests;
