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
            let text = text.escape_debug();
            Error::bad_settings(format!(
                "the server `{text}` {problem}; give it as http://host:port, https://host:port or unix:/path"
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
        let uri: Uri = text.parse().map_err(|_| wrong("is not a URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("has an unknown scheme")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("contains a user name: pass a token instead"));
        }
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
}
