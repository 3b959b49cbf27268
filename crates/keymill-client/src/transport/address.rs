//! The address of a server: `http://host:port`, `https://host:port`, or `unix:/path`.

use std::path::PathBuf;
use std::sync::Arc;

use hyper::Uri;
use hyper::header::HeaderValue;

use crate::error::Error;

/// Where a server is.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// As it was given, for people.
    pub(crate) name: Arc<str>,
    pub(crate) place: Place,
    /// The value of the `Host` header.
    pub(crate) host: HeaderValue,
    /// What every path begins with, for a server behind a proxy; usually empty.
    pub(crate) prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp { host: String, port: u16, is_tls: bool },
    Unix(PathBuf),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Address, Error> {
        let wrong = |problem: &str| {
            let server =
                shown(text).map_or("the server".to_owned(), |it| format!("the server `{it}`"));
            Error::bad_settings(format!(
                "{server} {problem}; give it as http://host:port, https://host:port or unix:/path"
            ))
        };
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(wrong("has no absolute path"));
            }
            return Ok(Address {
                name: text.into(),
                place: Place::Unix(path.into()),
                host: HeaderValue::from_static("localhost"),
                prefix: String::new(),
            });
        }
        // Wherever it stands: a password that is not encoded may look like a host, and like a path.
        if text.contains('@') {
            return Err(wrong("contains a user name: pass a token instead"));
        }
        // The fragment of a URL is not part of what is sent, so it would go unnoticed.
        if text.contains('#') {
            return Err(wrong("contains a fragment"));
        }
        let uri: Uri = text.parse().map_err(|_| wrong("is not a URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("has an unknown scheme")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
        if uri.query().is_some() {
            return Err(wrong("contains a query"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("has no host"));
        }
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Address {
            name: text.into(),
            place: Place::Tcp { host, port, is_tls },
            host: HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("is not a URL"))?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.place, Place::Tcp { is_tls: true, .. })
    }

    /// Whether what is sent there can be read on the way.
    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.place, Place::Tcp { is_tls: false, .. })
    }
}

/// What may be shown of a text that should be an address: scheme, host and port. A user name, a query, or whatever was
/// pasted in its place may be a secret, and so may everything around an `@` that stands where none may be.
pub(crate) fn shown(text: &str) -> Option<String> {
    if text.starts_with("unix:") {
        return Some(text.escape_debug().to_string());
    }
    let is_plain = |host: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        host.bytes().all(fits) && host.len() <= 253
    };
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let is_scheme = scheme.len() <= 10 && scheme.bytes().all(|it| it.is_ascii_lowercase());
            let host = match rest.rsplit_once('@') {
                // The login ends at the first `@`, or at the last: what is between may be either.
                Some((login, _)) if login.contains(['@', '/', '?', '#']) => "",
                Some((_, host)) => host,
                None => rest,
            };
            let host = host.split(['/', '?', '#']).next().unwrap_or_default();
            let host = if is_plain(host) { host } else { "" };
            is_scheme.then(|| format!("{scheme}://{host}"))
        }
        // A scheme is what is forgotten most often.
        None => {
            let (host, port) = text.rsplit_once(':')?;
            (is_plain(host) && port.parse::<u16>().is_ok()).then(|| text.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn addresses_are_read_with_their_defaults() {
        for (text, host, port, is_tls, header, prefix) in [
            ("http://a:8080", "a", 8080, false, "a:8080", ""),
            ("https://keys.example/", "keys.example", 443, true, "keys.example", ""),
            ("http://[::1]:81", "::1", 81, false, "[::1]:81", ""),
            ("https://proxy/keymill/", "proxy", 443, true, "proxy", "/keymill"),
        ] {
            let address = Address::parse(text).unwrap();
            let place = Place::Tcp { host: host.to_owned(), port, is_tls };
            assert_eq!((&address.place, address.host.to_str().unwrap()), (&place, header));
            assert_eq!((address.prefix.as_str(), address.is_tls()), (prefix, is_tls));
        }
        let address = Address::parse("unix:/run/keymill.sock").unwrap();
        assert_eq!(address.place, Place::Unix("/run/keymill.sock".into()));
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_one_looks_like() {
        for text in [
            "",
            "a:8080",
            "ftp://a",
            "http://",
            "http://a?b",
            "unix:run",
            "http://me@a",
            "http://a b",
        ] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadSettings, "{text}");
            assert!(error.detail().contains("https://host:port"), "{error}");
        }
    }

    #[test]
    fn a_secret_in_a_wrong_address_is_not_repeated() {
        for (text, says) in [
            ("https://u:S3cret@h", "`https://h`"),
            ("https://S3cret@h:81/path", "`https://h:81`"),
            ("https://h?token=S3cret", "`https://h`"),
            ("https://h/S3cret?x", "`https://h`"),
            ("https://h/#S3cret", "`https://h`"),
            ("https://u:S3@cret@h", "`https://`"),
            ("https://u:S3/cret@h", "`https://`"),
            ("https://u:a/S3cret@S3cret@h", "`https://`"),
            ("km_S3cret", "the server "),
            ("S3cret S3cret", "the server is not a URL"),
            ("u:S3cret", "the server "),
            ("localhost:8080", "`localhost:8080`"),
            ("ftp://files", "`ftp://files`"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
            let is_hidden = !["S3", "cret"].iter().any(|it| error.contains(it));
            assert!(is_hidden, "{text}: {error}");
        }
    }
}
