//! The settings of a client, as given and checked.

use std::path::PathBuf;
use std::time::Duration;

use hyper::header::HeaderValue;

use crate::calls::Limits;
use crate::client::Client;
use crate::error::Error;
use crate::transport::{Address, Dialer, TlsFiles, connector, shown};

/// What a token begins with, and how many letters and digits follow.
const TOKEN_PREFIX: &str = "km_";
const TOKEN_REST_LEN: usize = 44;

/// Makes a [`Client`]. What is wrong with a setting is reported by [`build`](Builder::build).
///
/// ```no_run
/// # fn run() -> Result<(), keymill_client::Error> {
/// let client = keymill_client::Client::builder()
///     .servers(["https://keys-a.internal:8080", "https://keys-b.internal:8080"])
///     .token_from_env()
///     .ca_file("/etc/ssl/internal-ca.pem")
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Builder {
    servers: Vec<String>,
    token: Option<String>,
    deadline: Duration,
    attempt_time_max: Duration,
    connect_time_max: Duration,
    is_repeating: bool,
    tls: TlsFiles,
    #[cfg(feature = "grpc")]
    is_grpc: bool,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            servers: Vec::new(),
            token: None,
            deadline: Duration::from_secs(10),
            // A server waits two seconds for its store by default, before it says that it has no keys.
            attempt_time_max: Duration::from_secs(4),
            connect_time_max: Duration::from_secs(2),
            is_repeating: true,
            tls: TlsFiles::default(),
            #[cfg(feature = "grpc")]
            is_grpc: false,
        }
    }

    /// The servers, as `http://host:port`, `https://host:port` or `unix:/path`. All of them must serve the same store:
    /// calls go to each in turn, and past those that do not answer.
    pub fn servers<S: Into<String>>(mut self, servers: impl IntoIterator<Item = S>) -> Builder {
        self.servers.extend(servers.into_iter().map(Into::into));
        self
    }

    /// The token to send with every request. Without TLS, the network can read it.
    pub fn token(mut self, token: impl Into<String>) -> Builder {
        self.token = Some(token.into());
        self
    }

    /// Uses the token in `KEYMILL_TOKEN`, if there is one.
    pub fn token_from_env(mut self) -> Builder {
        let found = std::env::var("KEYMILL_TOKEN").ok().filter(|token| !token.is_empty());
        self.token = found.or(self.token);
        self
    }

    /// How long a call may take with all its attempts; ten seconds by default.
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = deadline;
        self
    }

    /// How long one attempt at one server may take; four seconds by default.
    pub fn attempt_timeout(mut self, time_max: Duration) -> Builder {
        self.attempt_time_max = time_max;
        self
    }

    /// How long a connection may take to open; two seconds by default.
    pub fn connect_timeout(mut self, time_max: Duration) -> Builder {
        self.connect_time_max = time_max;
        self
    }

    /// Tries each call once, so that whoever measures servers sees every failure.
    #[doc(hidden)]
    pub fn single_attempt(mut self) -> Builder {
        self.is_repeating = false;
        self
    }

    /// A file with the certificates of the authorities that servers are trusted by, in PEM, instead of those that the
    /// system trusts.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Builder {
        self.tls.ca = Some(path.into());
        self
    }

    /// The files of the certificate that the client shows, followed by those between it and its authority, and of its
    /// private key, both in PEM.
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Builder {
        self.tls.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Asks for keys, digests, aliases and explanations over gRPC instead of HTTP, on the same port. Keyspaces are still
    /// created and shown over HTTP.
    #[cfg(feature = "grpc")]
    pub fn grpc(mut self) -> Builder {
        self.is_grpc = true;
        self
    }

    /// Checks the settings and reads the files. Nothing is sent: a server that is not there shows with the first call.
    pub fn build(self) -> Result<Client, Error> {
        let addresses = self.servers.iter().map(|server| Address::parse(server.trim()));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            let detail = "there is no server to ask; name at least one with `servers`";
            return Err(Error::bad_settings(detail.to_owned()));
        }
        for (name, time) in [
            ("deadline", self.deadline),
            ("attempt_timeout", self.attempt_time_max),
            ("connect_timeout", self.connect_time_max),
        ] {
            if time.is_zero() || time > Duration::from_secs(24 * 3_600) {
                let detail =
                    format!("`{name}` must be more than zero and at most a day, not {time:?}");
                return Err(Error::bad_settings(detail));
            }
        }
        let authorization = self.token.as_deref().map(bearer).transpose()?;
        if authorization.is_some()
            && addresses.iter().any(Address::is_tls)
            && let Some(plain) = addresses.iter().find(|address| address.is_readable())
        {
            let detail = format!(
                "some servers are asked with TLS, and {} is not, so the network could read the token; use \
                 https:// for all of them",
                plain.name
            );
            return Err(Error::bad_settings(detail));
        }
        let tls = match addresses.iter().any(Address::is_tls) {
            true => Some(connector(&self.tls)?),
            false => {
                // Files that cannot be used are a mistake, whatever the servers speak.
                if self.tls.ca.is_some() || self.tls.identity.is_some() {
                    connector(&self.tls)?;
                }
                None
            }
        };
        let dialer = Dialer { tls, time_max: self.connect_time_max };
        let (call, attempt) = (self.deadline, self.attempt_time_max);
        let limits = Limits { call, attempt, is_repeating: self.is_repeating };
        Ok(Client::new(
            addresses,
            dialer,
            authorization,
            limits,
            #[cfg(feature = "grpc")]
            self.is_grpc,
        ))
    }
}

/// The header for a token. What is wrong with one does not repeat it.
fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let token = token.trim();
    // What is no token may be another secret, which a server must not see.
    let is_token = token.strip_prefix(TOKEN_PREFIX).is_some_and(|rest| {
        rest.len() == TOKEN_REST_LEN && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let (true, Ok(mut header)) = (is_token, header) else {
        let detail = "what was given as the token is none: a token is km_… with 47 characters";
        return Err(Error::bad_settings(detail.to_owned()));
    };
    header.set_sensitive(true);
    Ok(header)
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        let servers: Vec<_> = self.servers.iter().map(|server| shown(server)).collect();
        let mut it = f.debug_struct("Builder");
        it.field("servers", &servers).field("token", &token).field("deadline", &self.deadline);
        it.field("tls", &self.tls).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn settings_that_cannot_work_are_refused_and_a_token_is_never_shown() {
        let one = || Client::builder().servers(["http://a:1"]);
        let token = format!("km_{}", "x".repeat(TOKEN_REST_LEN));
        assert!(one().token(&token).build().is_ok());
        let local = one().servers(["unix:/run/keymill.sock"]);
        assert!(local.token(&token).build().is_ok());
        let mixed = || one().servers(["https://b"]);
        let secret = "km_\u{fc}secret";
        for (builder, about) in [
            (Client::builder(), "no server"),
            (one().servers(["a:1"]), "http://host:port"),
            (one().deadline(Duration::ZERO), "`deadline`"),
            (one().token(secret), "km_…"),
            (one().token(" "), "km_…"),
            // Another secret, such as the master secret of a server.
            (one().token("secret".repeat(8)), "km_…"),
            (one().token("km_secret"), "km_…"),
            (mixed().token(&token), "http://a:1"),
            (one().servers(["https://u:secret@h"]), "user name"),
            (one().servers(["https://b"]).ca_file("/no/such/file"), "/no/such/file"),
            (one().ca_file("/no/such/file"), "/no/such/file"),
        ] {
            assert!(!format!("{builder:?}").contains("secret"), "{builder:?}");
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadSettings);
            assert!(error.detail().contains(about), "{error}");
            assert!(!format!("{error:?} {error}").contains("secret"), "{error}");
        }
        let secret = format!("km_secret{}", "x".repeat(TOKEN_REST_LEN - 6));
        let client = one().token(secret).build().unwrap();
        assert!(!format!("{client:?}").contains("secret"), "{client:?}");
    }
}
