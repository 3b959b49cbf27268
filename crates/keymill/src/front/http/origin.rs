//! Where requests come from: the connection, the client behind it, and the name of each request.
//!
//! `server` makes an [`Origin`] for each connection. A name costs a request one small allocation:
//! what is random was made when the process started, and the rest is counted.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use jiff::Timestamp;

use super::listeners::Listener;
use crate::front::addresses::{AddressRules, ClientAddress};

/// The header that names a request, in both directions.
pub(in crate::front) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The longest name that a client may give a request.
const ID_LEN_MAX: usize = 128;

/// One connection, as the requests on it see it.
#[derive(Debug)]
pub(in crate::front) struct Origin {
    /// Its other end; for a proxy that named one, the client.
    sender: Option<IpAddr>,
    /// Which listener it came through.
    pub(in crate::front) listener: Listener,
    /// Set once there was a TLS handshake: the certificate of the client, if it has shown one that is valid.
    handshake: OnceLock<Option<ClientCertificate>>,
    /// Whether it was accepted beyond the limit, for health checks and metrics only.
    pub(super) is_reserved: bool,
    /// What the names of its requests begin with.
    prefix: String,
    requests: AtomicU64,
}

/// What the certificate of a client says.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    /// The names that it is for: DNS names in lower case, URIs and email addresses.
    pub(crate) names: Vec<String>,
    /// The last moment at which it is valid. Connections may last longer.
    pub(crate) not_after: Timestamp,
}

/// What makes the connections of one process differ.
#[derive(Debug)]
pub(super) struct Origins {
    process: u64,
    connections: AtomicU64,
}

impl Origins {
    /// Those of a process that starts now.
    pub(super) fn new() -> Origins {
        // Names need not be secret; without randomness they are those of another process at worst.
        let process = getrandom::u64().unwrap_or_else(|_| std::process::id().into());
        Origins { process, connections: AtomicU64::new(0) }
    }

    /// A new connection.
    pub(super) fn connection(
        &self,
        sender: Option<IpAddr>,
        listener: Listener,
        is_reserved: bool,
    ) -> Origin {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{:016x}-{number:x}-", self.process);
        let (handshake, requests) = (OnceLock::new(), AtomicU64::new(0));
        Origin { sender, listener, handshake, is_reserved, prefix, requests }
    }
}

impl Origin {
    /// The name of a request: the client's own, where it is one that can stand in a log and an answer,
    /// otherwise a new one.
    pub(in crate::front) fn request_id(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(&REQUEST_ID);
        if let Some(given) = given.filter(|given| is_sane(given.as_bytes())) {
            return given.clone();
        }
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        // In a vector without room to spare: to share any other takes a second allocation.
        let id = hex(number, |digits| [self.prefix.as_bytes(), digits].concat());
        HeaderValue::from_maybe_shared(bytes::Bytes::from(id)).expect("hexadecimal digits and `-`")
    }

    /// The names in the certificate of the client. None where it has shown no certificate, the certificate has
    /// ended since, or the connection is not over TLS.
    pub(in crate::front) fn certificate_names(&self) -> &[String] {
        match self.handshake.get() {
            Some(Some(certificate)) if Timestamp::now() <= certificate.not_after => {
                &certificate.names
            }
            _ => &[],
        }
    }

    /// Notes that the connection is over TLS, and the certificate of the client, before its first request.
    pub(super) fn set_secured(&self, certificate: Option<ClientCertificate>) {
        // A connection has one handshake.
        let _ = self.handshake.set(certificate);
    }

    /// Whether the client uses TLS: with this server, or with a trusted proxy that says so. Of several proxies, the first
    /// has spoken with the client.
    pub(super) fn is_secure(&self, headers: &HeaderMap, rules: &AddressRules) -> bool {
        if self.handshake.get().is_some() {
            return true;
        }
        let told = headers.get(&FORWARDED_PROTO).and_then(|told| told.to_str().ok());
        let first = told.and_then(|told| told.split(',').next());
        first.is_some_and(|first| first.trim().eq_ignore_ascii_case("https"))
            && self.sender.is_some_and(|sender| rules.is_trusted(sender))
    }

    /// Its other end; for a proxy that named one, the client.
    pub(super) fn sender(&self) -> Option<IpAddr> {
        self.sender
    }

    /// The client that a request comes from.
    pub(in crate::front) fn client(
        &self,
        headers: &HeaderMap,
        rules: &AddressRules,
    ) -> Option<ClientAddress> {
        let sender = self.sender?;
        if !rules.is_trusted(sender) {
            return Some(ClientAddress(sender));
        }
        let lines = headers.get_all(&FORWARDED_FOR).iter().rev();
        // A line that is no text ends the search, like any other word that is no address.
        Some(rules.client(sender, lines.map(|line| line.to_str().unwrap_or("?"))))
    }
}

/// Whether a name is short, and made of characters that need no quoting anywhere.
fn is_sane(id: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@~".contains(byte);
    (1..=ID_LEN_MAX).contains(&id.len()) && id.iter().all(fits)
}

/// Writes a number in hexadecimal without the machinery of `format!`.
fn hex<T>(number: u64, written: impl FnOnce(&[u8]) -> T) -> T {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'0'; 16];
    for (pair, byte) in text.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]);
    }
    let zeros = text.iter().take(15).take_while(|digit| **digit == b'0').count();
    written(&text[zeros..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sane_name_is_kept_and_any_other_replaced() {
        let origin = Origins::new().connection(None, Listener::Public, false);
        let named = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(&REQUEST_ID, HeaderValue::from_bytes(id.as_bytes()).unwrap());
            origin.request_id(&headers).to_str().unwrap().to_owned()
        };
        for id in ["a", "01J-x_y.z:1/2+3=@~", &"x".repeat(128)] {
            assert_eq!(named(id), id);
        }
        for id in ["", "a b", "a\"b", "a,b", "{}", "<b>", "\u{e4}", &"x".repeat(129)] {
            let made = named(id);
            assert!(made != id && is_sane(made.as_bytes()), "{id}: {made}");
        }
    }

    #[test]
    fn a_certificate_counts_until_it_ends() {
        for (seconds, counts) in [(60, true), (-1, false)] {
            let origin = Origins::new().connection(None, Listener::Public, false);
            assert!(origin.certificate_names().is_empty());
            let not_after = Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
            let names = vec!["shop.example".to_owned()];
            origin.set_secured(Some(ClientCertificate { names, not_after }));
            assert_eq!(!origin.certificate_names().is_empty(), counts, "{seconds}");
        }
    }

    #[test]
    fn tls_is_that_of_the_connection_or_of_a_trusted_proxy() {
        let proxy: IpAddr = "10.0.0.1".parse().unwrap();
        let other: IpAddr = "203.0.113.1".parse().unwrap();
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let rules = AddressRules { trusted_proxies, ..AddressRules::default() };
        for (sender, told, is_secure) in [
            (Some(proxy), None, false),
            (Some(proxy), Some("https"), true),
            (Some(proxy), Some("HTTPS, http"), true),
            (Some(proxy), Some("http"), false),
            (Some(proxy), Some("http, https"), false),
            (Some(other), Some("https"), false),
            (None, Some("https"), false),
        ] {
            let origin = Origins::new().connection(sender, Listener::Public, false);
            let mut headers = HeaderMap::new();
            told.map(|told| headers.insert(&FORWARDED_PROTO, HeaderValue::from_static(told)));
            assert_eq!(origin.is_secure(&headers, &rules), is_secure, "{sender:?} {told:?}");
            origin.set_secured(None);
            assert!(origin.is_secure(&headers, &rules));
        }
    }

    #[test]
    fn names_that_are_made_differ() {
        let origins = Origins::new();
        let connection = || origins.connection(None, Listener::Public, false);
        let (one, other) = (connection(), connection());
        let mut ids: Vec<HeaderValue> = (0..300)
            .flat_map(|_| [&one, &other].map(|origin| origin.request_id(&HeaderMap::new())))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 600);
        assert!(ids.iter().any(|id| id.to_str().unwrap().ends_with("-0-12b")), "300 is 12c");
    }
}
