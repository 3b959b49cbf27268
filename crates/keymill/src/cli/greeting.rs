//! The greeting of a server: that it is up, where, with which keyspaces, and who may do what.
//!
//! `serve` prints it, or logs it if the log is for programs. The first address stands alone on its line, so
//! that scripts can read it.

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use keymill_engine::operations::{Service, SpaceRecord};
use keymill_engine::space::secret::Master;

use super::space::show::in_words;
use super::{access, log};
use crate::access::AccessSummary;
use crate::server::{Endpoint, Listeners};

/// How many keyspaces the greeting names.
const GREETED_MAX: usize = 8;

/// Where a server can be reached.
pub(super) struct Reached {
    public: Vec<Endpoint>,
    admin: Option<Endpoint>,
    redis: Vec<Endpoint>,
    is_tls: bool,
    /// Who may do what.
    access: AccessSummary,
}

impl Reached {
    pub(super) fn new(listeners: &Listeners, access: AccessSummary) -> io::Result<Reached> {
        let (public, admin, redis) = (listeners.public()?, listeners.admin()?, listeners.redis()?);
        Ok(Reached { public, admin, redis, is_tls: listeners.is_tls(), access })
    }

    /// The address that the instance is known by.
    pub(super) fn address(&self) -> String {
        self.public.first().map(ToString::to_string).unwrap_or_default()
    }

    /// A URL that can be opened on this machine; a Unix socket has none.
    fn url(&self, endpoint: &Endpoint) -> String {
        self.url_of(if self.is_tls { "https" } else { "http" }, endpoint)
    }

    fn url_of(&self, scheme: &str, endpoint: &Endpoint) -> String {
        match endpoint {
            Endpoint::Tcp(address) => format!("{scheme}://{}", openable(*address)),
            Endpoint::Unix(_) => endpoint.to_string(),
        }
    }

    /// Where it speaks the Redis protocol.
    fn redis_urls(&self) -> Vec<String> {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        self.redis.iter().map(|endpoint| self.url_of(scheme, endpoint)).collect()
    }

    /// Who may do what, in words.
    fn access_in_words(&self) -> String {
        let others = self.admin.iter().chain(&self.redis);
        let is_local = self.public.iter().chain(others).all(Endpoint::is_local);
        access::in_words(&self.access, is_local)
    }

    fn urls(&self) -> Vec<String> {
        self.public.iter().map(|endpoint| self.url(endpoint)).collect()
    }

    fn admin_url(&self) -> Option<String> {
        self.admin.as_ref().map(|endpoint| self.url(endpoint))
    }

    /// Where a page is; a Unix socket has no URL.
    fn page(&self, path: &str) -> Option<String> {
        let mut endpoints = match &self.admin {
            Some(admin) => std::slice::from_ref(admin).iter(),
            None => self.public.iter(),
        };
        let found = endpoints.find(|endpoint| matches!(endpoint, Endpoint::Tcp(_)))?;
        Some(format!("{}{path}", self.url(found)))
    }

    /// A command that takes a key; the path has a query where one is given.
    fn curl(&self, query: Option<&str>) -> String {
        let path = query.map_or("/get-key".to_owned(), |query| format!("/get-key?{query}"));
        let tcp = self.public.iter().find(|endpoint| matches!(endpoint, Endpoint::Tcp(_)));
        let (options, url) = match (tcp, self.public.first()) {
            (None, Some(Endpoint::Unix(socket))) => {
                (format!("--unix-socket {} ", socket.display()), "http://localhost".to_owned())
            }
            (Some(endpoint), _) | (None, Some(endpoint)) => (String::new(), self.url(endpoint)),
            (None, None) => (String::new(), String::new()),
        };
        let quote = if query.is_some() { "'" } else { "" };
        // In a file, because others on the machine can read a command line.
        let token = if self.access.is_on { "-H @token.header " } else { "" };
        format!("curl {token}{options}{quote}{url}{path}{quote}")
    }
}

/// Prints or logs that the server is up, and where.
pub(super) fn greet(
    service: &Service,
    records: &[SpaceRecord],
    default_space: &str,
    secret: Option<&str>,
    reached: &Reached,
) {
    if log::is_text() {
        note!("{}", greeting(service, records, default_space, secret, reached));
        return;
    }
    let (place, urls) = (service.describe_store(), reached.urls());
    let redis_urls = reached.redis_urls();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        store = place.location,
        kind = %place.kind,
        created = place.created,
        keyspaces = records.len(),
        url = urls.first(),
        urls = (urls.len() > 1).then(|| urls.join(" ")),
        admin_url = reached.admin_url(),
        redis_urls = (!redis_urls.is_empty()).then(|| redis_urls.join(" ")),
        access = reached.access_in_words(),
        "listening"
    );
}

fn greeting(
    service: &Service,
    records: &[SpaceRecord],
    default_space: &str,
    secret: Option<&str>,
    reached: &Reached,
) -> String {
    let place = service.describe_store();
    let how = if place.created { "created" } else { "opened" };
    let mut text = format!("keymill {}\n", env!("CARGO_PKG_VERSION"));
    let mut line = |name: &str, value: String| {
        writeln!(text, "  {name:<10} {value}").expect("writing to a String cannot fail");
    };
    line("store", format!("{} ({}, {how})", place.location, place.kind));
    for record in records.iter().take(GREETED_MAX) {
        line("keyspace", in_words(record));
    }
    if records.len() > GREETED_MAX {
        line("", format!("and {} more; see `keymill space list`", records.len() - GREETED_MAX));
    }
    if let Some(origin) = secret {
        line("secret", format!("{origin}; keep it as long as its keys are in use"));
    } else if service.master().is_some_and(Master::is_made_up) {
        line(
            "secret",
            "created at the first start, kept in the store; see `keymill secret export`".to_owned(),
        );
    }
    for endpoint in &reached.public {
        line("listening", reached.url(endpoint));
        is_unspecified(endpoint).then(|| line("", everywhere(endpoint)));
    }
    if let Some(endpoint) = &reached.admin {
        line("admin", reached.url(endpoint));
        is_unspecified(endpoint).then(|| line("", everywhere(endpoint)));
    }
    for (endpoint, url) in reached.redis.iter().zip(reached.redis_urls()) {
        line("redis", url);
        is_unspecified(endpoint).then(|| line("", everywhere(endpoint)));
    }
    for (name, path) in [("page", "/"), ("docs", "/docs")] {
        reached.page(path).into_iter().for_each(|url| line(name, url));
    }
    line("access", reached.access_in_words());
    let other = records.first().filter(|_| !records.iter().any(|it| it.name == default_space));
    let query = other.map(|record| format!("space={}", record.name));
    let curl = reached.curl(query.as_deref());
    let header = match reached.access.is_on {
        true => {
            "  # token.header, for its owner alone, has the line: Authorization: Bearer TOKEN\n"
        }
        false => "",
    };
    write!(text, "\n{header}  {curl}\n").expect("writing to a String cannot fail");
    text
}

fn everywhere(endpoint: &Endpoint) -> String {
    format!("on every address of this machine ({endpoint})")
}

/// The address to connect to: one that listens everywhere is reached by loopback.
pub(super) fn openable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn is_unspecified(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Tcp(address) if address.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_greeted_with_can_be_typed() {
        let tcp = || Endpoint::Tcp(([127, 0, 0, 1], 80).into());
        let unix = || Endpoint::Unix("/run/k".into());
        let reached = |public, admin, is_tls| Reached {
            redis: vec![tcp(), unix()],
            ..reached(public, admin, is_tls, who(false))
        };
        let plain = reached(vec![unix(), tcp()], None, false);
        assert_eq!(plain.urls(), ["unix:/run/k", "http://127.0.0.1:80"]);
        assert_eq!(plain.page("/docs").unwrap(), "http://127.0.0.1:80/docs");
        assert_eq!(plain.redis_urls(), ["redis://127.0.0.1:80", "unix:/run/k"]);
        assert_eq!(plain.curl(None), "curl http://127.0.0.1:80/get-key");
        assert_eq!(plain.curl(Some("space=a")), "curl 'http://127.0.0.1:80/get-key?space=a'");
        let socket = reached(vec![unix()], Some(tcp()), true);
        assert_eq!(socket.curl(None), "curl --unix-socket /run/k http://localhost/get-key");
        assert_eq!(socket.page("/docs").unwrap(), "https://127.0.0.1:80/docs");
        assert_eq!(socket.redis_urls()[0], "rediss://127.0.0.1:80");
        assert_eq!(reached(vec![tcp()], Some(unix()), false).page("/docs"), None);
    }

    #[test]
    fn whoever_needs_a_token_is_shown_where_it_goes() {
        let public = vec![Endpoint::Tcp(([127, 0, 0, 1], 80).into())];
        let reached = reached(public, None, false, who(true));
        assert_eq!(reached.curl(None), "curl -H @token.header http://127.0.0.1:80/get-key");
    }

    #[test]
    fn an_address_that_listens_everywhere_is_shown_as_one_that_can_be_opened() {
        for (listens, opens) in [
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("[::]:8080", "http://[::1]:8080"),
            ("192.0.2.1:80", "http://192.0.2.1:80"),
        ] {
            let public = vec![Endpoint::Tcp(listens.parse().unwrap())];
            let reached = reached(public, None, false, who(true));
            assert_eq!(reached.urls(), [opens]);
            assert_eq!(reached.page("/docs").unwrap(), format!("{opens}/docs"));
            assert!(reached.curl(None).ends_with(&format!(" {opens}/get-key")));
            // Other instances are told where it listens.
            assert_eq!(reached.address(), listens);
        }
    }

    fn reached(
        public: Vec<Endpoint>,
        admin: Option<Endpoint>,
        is_tls: bool,
        access: AccessSummary,
    ) -> Reached {
        Reached { public, admin, redis: Vec::new(), is_tls, access }
    }

    fn who(is_on: bool) -> AccessSummary {
        AccessSummary { is_on, tokens: 0, anonymous: Vec::new() }
    }
}
