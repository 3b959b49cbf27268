//! Browsers: requests that a web page of another origin may have sent.
//!
//! A page can make the operator's browser send requests to this server, on loopback too. So a caller without
//! a token must address the server by a name of its own, and may take or change something only from a page of
//! the server itself, or from a program that is no browser. A token needs no such check, because no browser
//! adds it by itself. The cookie of a session does, and only pages of the server itself may use it.
//!
//! Nothing here does I/O.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What browsers say of a request that they send in advance: those of today, and older ones.
static SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");
static PURPOSE: HeaderName = HeaderName::from_static("purpose");

/// Names that the server may be addressed by, and pages that may use it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrowserRules {
    /// Hosts besides those of loopback, without port and in lower case.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may send requests, such as `https://shop.example`.
    pub allowed_origins: Vec<String>,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foreign {
    /// It addresses the server by a name that is not its own.
    Host,
    /// It may come from a page of another origin.
    Origin,
    /// A browser sends it in advance, for an answer that nobody may ever see.
    Prefetch,
}

impl BrowserRules {
    /// Whether the server may be addressed by a host, perhaps with a port. This ends attacks by names that are
    /// made to resolve to this machine.
    pub fn check_host(&self, host: Option<&str>) -> Result<(), Foreign> {
        // Browsers always send one.
        let Some(host) = host else { return Ok(()) };
        let name = without_port(host);
        if is_loopback(name) || self.allowed_hosts.iter().any(|it| it.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        Err(Foreign::Host)
    }

    /// Whether a request that takes or changes something may be sent by who sends it. What a browser says of
    /// the site decides; where it says nothing, its `Origin` does.
    pub fn check_origin(&self, headers: &HeaderMap, host: Option<&str>) -> Result<(), Foreign> {
        let (site, origin) = (headers.get(&SEC_FETCH_SITE), headers.get(header::ORIGIN));
        if site.is_none() && origin.is_none() {
            // Over plain HTTP, browsers name neither for an image of another page, but always themselves.
            let agent = headers.get(header::USER_AGENT);
            let is_browser = agent.is_some_and(|it| it.as_bytes().starts_with(b"Mozilla/"));
            return if is_browser { Err(Foreign::Origin) } else { Ok(()) };
        }
        let origin = origin.map(|origin| origin.to_str().unwrap_or_default());
        if origin.is_some_and(|origin| self.is_allowed(origin)) {
            return Ok(());
        }
        let is_own = match site.map(HeaderValue::as_bytes) {
            Some(site) => matches!(site, b"same-origin" | b"none"),
            None => origin.is_some_and(|origin| is_same(origin, host)),
        };
        if is_own { Ok(()) } else { Err(Foreign::Origin) }
    }

    /// Whether the pages of an origin may send requests and read their answers.
    pub fn is_allowed(&self, origin: &str) -> bool {
        self.allowed_origins.iter().any(|allowed| allowed == origin)
    }
}

/// Whether a request comes from a page of this server, as a cookie must: browsers add cookies by themselves, and send
/// them to every port of a host. Pages of `allowed_origins` are not this server's, and neither is what somebody typed.
///
/// Where a browser says nothing of the site (over plain HTTP, or because it is old), what changes something must have
/// the server's own `Origin`. What only reads may have none: a page of another origin could send such a request, but
/// not see the answer.
pub(super) fn is_own_page(
    headers: &HeaderMap,
    host: Option<&str>,
    changes: bool,
    is_secure: bool,
) -> bool {
    if let Some(site) = headers.get(&SEC_FETCH_SITE) {
        return site == "same-origin";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return !changes };
    let origin = origin.to_str().unwrap_or_default();
    is_same(origin, host) && (!is_secure || origin.starts_with("https://"))
}

/// Refuses what a browser asks for in advance.
pub(super) fn check_purpose(headers: &HeaderMap) -> Result<(), Foreign> {
    let is_in_advance = |value: &HeaderValue| {
        let text = value.as_bytes().to_ascii_lowercase();
        let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
        has(b"prefetch") || has(b"prerender")
    };
    let mut values = headers.get_all(&SEC_PURPOSE).iter().chain(headers.get_all(&PURPOSE));
    if values.any(is_in_advance) { Err(Foreign::Prefetch) } else { Ok(()) }
}

/// Whether an origin is that of the host which a request was sent to.
fn is_same(origin: &str, host: Option<&str>) -> bool {
    let named = origin.split_once("://").map(|(_, host)| host);
    named.is_some_and(|named| host.is_some_and(|host| named.eq_ignore_ascii_case(host)))
}

/// A host without its port: `localhost:8080`, `[::1]:8080`.
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((address, "")) => address,
            Some((address, port)) if port.strip_prefix(':').is_some_and(is_number) => address,
            _ => host,
        };
    }
    match host.rsplit_once(':') {
        Some((name, port)) if is_number(port) => name,
        _ => host,
    }
}

fn is_number(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_loopback(name: &str) -> bool {
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback(),
        Ok(IpAddr::V6(address)) => address == Ipv6Addr::LOCALHOST,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_addressed_by_loopback_or_a_name_of_its_own() {
        let rules =
            BrowserRules { allowed_hosts: vec!["keys.example".to_owned()], ..Default::default() };
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1",
            "127.9.9.9:1",
            "[::1]",
            "[::1]:8080",
            "keys.example",
            "Keys.Example:443",
        ] {
            assert_eq!(rules.check_host(Some(host)), Ok(()), "{host}");
        }
        assert_eq!(rules.check_host(None), Ok(()));
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
            "[::1].evil.example",
            "[::1]:evil",
            "localhost:x",
            "",
            ":8080",
            "[::1",
            "xkeys.example",
        ] {
            assert_eq!(rules.check_host(Some(host)), Err(Foreign::Host), "{host}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_told_from_the_own_one_and_from_programs() {
        let rules = BrowserRules {
            allowed_origins: vec!["https://shop.example".to_owned()],
            ..Default::default()
        };
        for (site, origin, fits) in [
            (None, None, true),
            (Some("same-origin"), None, true),
            (Some("none"), None, true),
            (Some("cross-site"), None, false),
            (Some("same-site"), Some("http://localhost:8080"), false),
            (Some("weird"), None, false),
            (Some("cross-site"), Some("https://shop.example"), true),
            (None, Some("http://localhost:8080"), true),
            (None, Some("http://LOCALHOST:8080"), true),
            (None, Some("http://localhost:9090"), false),
            (None, Some("https://evil.example"), false),
            (None, Some("null"), false),
            (None, Some(""), false),
            (None, Some("https://shop.example"), true),
            (None, Some("https://shop.example.evil.example"), false),
        ] {
            let mut headers = HeaderMap::new();
            let mut add = |name: HeaderName, value: Option<&'static str>| {
                value.map(|value| headers.insert(name, HeaderValue::from_static(value)));
            };
            add(SEC_FETCH_SITE.clone(), site);
            add(header::ORIGIN, origin);
            let found = rules.check_origin(&headers, Some("localhost:8080"));
            assert_eq!(found.is_ok(), fits, "{site:?} {origin:?}");
        }
    }

    #[test]
    fn only_pages_of_the_server_itself_may_use_a_cookie() {
        const OWN: &str = "http://localhost:8080";
        for (site, origin, reads, changes) in [
            (Some("same-origin"), None, true, true),
            (Some("same-origin"), Some(OWN), true, true),
            (Some("none"), None, false, false),
            (Some("same-site"), None, false, false),
            (Some("same-site"), Some(OWN), false, false),
            (Some("cross-site"), None, false, false),
            (Some(""), None, false, false),
            (Some("same-origin, cross-site"), None, false, false),
            (None, None, true, false),
            (None, Some(OWN), true, true),
            (None, Some("http://localhost:9090"), false, false),
            (None, Some("http://localhost"), false, false),
            (None, Some("https://shop.example"), false, false),
            (None, Some("null"), false, false),
            (None, Some(""), false, false),
        ] {
            let mut headers = HeaderMap::new();
            site.map(|site| headers.insert(&SEC_FETCH_SITE, HeaderValue::from_static(site)));
            origin.map(|origin| headers.insert(header::ORIGIN, HeaderValue::from_static(origin)));
            let found = |changes| is_own_page(&headers, Some("localhost:8080"), changes, false);
            assert_eq!((found(false), found(true)), (reads, changes), "{site:?} {origin:?}");
        }
        let mut headers = HeaderMap::new();
        for (origin, is_secure, is_own) in [
            ("https://keys.example", true, true),
            ("http://keys.example", true, false),
            ("http://keys.example", false, true),
            // Behind a proxy that does not tell of its TLS.
            ("https://keys.example", false, true),
        ] {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            let found = is_own_page(&headers, Some("keys.example"), true, is_secure);
            assert_eq!(found, is_own, "{origin}");
        }
    }

    #[test]
    fn what_is_asked_for_in_advance_is_told_from_what_somebody_wants() {
        for (name, value, is_wanted) in [
            (&SEC_PURPOSE, "prefetch", false),
            (&SEC_PURPOSE, "prefetch;prerender", false),
            (&SEC_PURPOSE, "Prefetch;anonymous-client-ip", false),
            (&PURPOSE, "prefetch", false),
            (&PURPOSE, "prerender", false),
            (&SEC_PURPOSE, "something-else", true),
            (&PURPOSE, "", true),
            (&SEC_FETCH_SITE, "prefetch", true),
        ] {
            let mut headers = HeaderMap::new();
            assert_eq!(check_purpose(&headers), Ok(()));
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(check_purpose(&headers).is_ok(), is_wanted, "{name}: {value}");
        }
    }

    #[test]
    fn a_browser_that_names_no_page_is_taken_for_one_of_another() {
        let rules = BrowserRules::default();
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static("curl/8.5.0"));
        assert_eq!(rules.check_origin(&headers, Some("localhost")), Ok(()));
        let agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36";
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        assert_eq!(rules.check_origin(&headers, Some("localhost")), Err(Foreign::Origin));
        headers.insert(&SEC_FETCH_SITE, HeaderValue::from_static("same-origin"));
        assert_eq!(rules.check_origin(&headers, Some("localhost")), Ok(()));
    }
}
