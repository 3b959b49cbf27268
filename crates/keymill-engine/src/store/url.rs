//! A store's URL, the same form for every store on the network:
//! `kind://user:password@host:port,host:port/name?setting=value`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::StoreError;

/// A URL in its parts, each decoded.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct StoreUrl {
    pub(super) scheme: String,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// At least one.
    pub(super) hosts: Vec<Host>,
    /// What stands between the hosts and the settings, without its first slash.
    pub(super) path: String,
    settings: BTreeMap<String, String>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// A name, an address, or the folder of a socket.
    pub(super) name: String,
    pub(super) port: Option<u16>,
}

/// A wish for an encrypted connection to a server that can prove who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// Who vouches for the server; the system's authorities where it is not set.
    pub(super) ca: Option<PathBuf>,
}

impl StoreUrl {
    /// Takes a URL apart; `known` are the settings that the store has besides `tls` and `tls_ca`.
    pub(super) fn parse(url: &str, known: &[&str]) -> Result<StoreUrl, StoreError> {
        let refuse = |problem: &str| {
            let shown = "kind://user:password@host:port/name?setting=value";
            Err(StoreError::Broken(format!("the store's URL {problem}; its form is {shown}")))
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return refuse("has no `://`");
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A part of the password would be taken for the host, and shown as such.
        if path.contains('@') {
            return refuse(
                "has a `/` before an `@`: write it as %2F in a password, and the `@` as %40",
            );
        }
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let (user, password) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            Some((user, password)) => (Some(decode(user)), Some(decode(password))),
            None => (None, None),
        };
        let hosts: Option<Vec<Host>> = hosts.split(',').map(Host::parse).collect();
        let Some(hosts) = hosts else {
            return refuse("needs a host, and a port must be a number");
        };
        let mut settings = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) && !["tls", "tls_ca"].contains(&name) {
                let known = [known, &["tls", "tls_ca"]].concat().join(", ");
                // What has other characters may be the rest of a password.
                let is_name = name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
                let name = if is_name { format!(" `{name}`") } else { String::new() };
                return refuse(&format!("has a setting{name} that is not one of {known}"));
            }
            settings.insert(name.to_owned(), decode(value));
        }
        Ok(StoreUrl {
            scheme: scheme.to_owned(),
            user: user.filter(|user| !user.is_empty()),
            password: password.filter(|password| !password.is_empty()),
            hosts,
            path: decode(path.trim_end_matches('/')),
            settings,
        })
    }

    /// A setting, where it is given.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Whether to encrypt: `tls=true`, or an authority that is named.
    pub(super) fn tls(&self) -> Result<Option<Tls>, StoreError> {
        let ca = self.setting("tls_ca").map(PathBuf::from);
        match self.setting("tls") {
            Some("true") => Ok(Some(Tls { ca })),
            None => Ok(ca.map(|ca| Tls { ca: Some(ca) })),
            Some("false") if ca.is_none() => Ok(None),
            Some(other) => Err(StoreError::Broken(format!(
                "the store's URL has tls={other}; it is tls=true (the server is verified) or \
                 tls=false without tls_ca"
            ))),
        }
    }

    /// For people: without password and settings.
    pub(super) fn shown(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        let slash = if self.path.is_empty() { "" } else { "/" };
        format!("{}://{user}{}{slash}{}", self.scheme, hosts.join(","), self.path)
    }
}

/// Shows no password.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Host {
    fn parse(text: &str) -> Option<Host> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, port) = rest.split_once(']')?;
                (name, port.strip_prefix(':'))
            }
            None => match text.rsplit_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map(str::parse).transpose().ok()?;
        let name = decode(name);
        (!name.is_empty()).then_some(Host { name, port })
    }

    pub(super) fn port_or(&self, default: u16) -> u16 {
        self.port.unwrap_or(default)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v6 = self.name.contains(':');
        let (open, close) = if v6 { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}", self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Whether a name can stand in a statement as it is: letters, digits, _ and -, at most 63.
#[cfg_attr(not(any(feature = "mysql", feature = "postgres")), allow(dead_code))]
pub(super) fn is_plain_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=63).contains(&name.len()) && name.bytes().all(fits)
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_comes_apart() {
        let url = "postgres://me:p%40ss@one:5433,[::1]:2,two/keys?schema=a%20b&tls_ca=/ca.pem";
        let url = StoreUrl::parse(url, &["schema"]).unwrap();
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("me"), Some("p@ss")));
        let host = |name: &str, port| Host { name: name.to_owned(), port };
        assert_eq!(url.hosts, [host("one", Some(5433)), host("::1", Some(2)), host("two", None)]);
        assert_eq!((url.path.as_str(), url.setting("schema")), ("keys", Some("a b")));
        assert_eq!(url.tls().unwrap(), Some(Tls { ca: Some("/ca.pem".into()) }));
        assert_eq!(format!("{url:?}"), "postgres://me@one:5433,[::1]:2,two/keys");
    }

    #[test]
    fn a_socket_is_a_host() {
        let url = StoreUrl::parse("postgres://%2Frun%2Fpg/keys", &[]).unwrap();
        assert_eq!(url.hosts[0].name, "/run/pg");
        assert_eq!((url.user, url.password), (None, None));
    }

    #[test]
    fn a_bad_url_is_refused_and_its_password_not_shown() {
        for (bad, said) in [
            ("postgres:host", "no `://`"),
            ("postgres://me:pass@/keys", "needs a host"),
            ("postgres://me:pass@host:port/keys", "port must be a number"),
            ("postgres://me:pass@host/keys?shema=x", "`shema` that is not one of schema"),
            ("postgres://me:pa@ss/word@host/keys", "%2F in a password"),
            ("postgres://me:pass/word@host/keys", "%2F in a password"),
        ] {
            let error = StoreUrl::parse(bad, &["schema"]).unwrap_err().to_string();
            let is_hidden = !["pass@", "ss/word", "me:pa"].iter().any(|part| error.contains(part));
            assert!(error.contains(said) && is_hidden, "{error}");
        }
        let tls = StoreUrl::parse("redis://host?tls=maybe", &[]).unwrap().tls();
        assert!(tls.unwrap_err().to_string().contains("tls=maybe"));
    }
}
