//! The greeting of a server: that it is up, where, and with which keyspaces.
//!
//! `serve` prints it, or logs it if the log is for programs. The first address stands alone on its line, so
//! that scripts can read it.

use std::fmt::Write;
use std::io;

use keymill_engine::operations::{Service, SpaceRecord};
use keymill_engine::space::secret::Master;

use super::log;
use super::space::show::in_words;
use crate::server::{Endpoint, Listeners};

/// How many keyspaces the greeting names.
const GREETED_MAX: usize = 8;

/// Where a server can be reached.
pub(super) struct Reached {
    public: Vec<Endpoint>,
    admin: Option<Endpoint>,
    is_tls: bool,
    /// Whether callers need a token.
    needs_token: bool,
}

impl Reached {
    pub(super) fn new(listeners: &Listeners, needs_token: bool) -> io::Result<Reached> {
        let (public, admin) = (listeners.public()?, listeners.admin()?);
        Ok(Reached { public, admin, is_tls: listeners.is_tls(), needs_token })
    }

    /// The address that the instance is known by.
    pub(super) fn address(&self) -> String {
        self.public.first().map(ToString::to_string).unwrap_or_default()
    }

    fn url(&self, endpoint: &Endpoint) -> String {
        match endpoint {
            Endpoint::Tcp(address) if self.is_tls => format!("https://{address}"),
            Endpoint::Tcp(address) => format!("http://{address}"),
            Endpoint::Unix(_) => endpoint.to_string(),
        }
    }

    fn urls(&self) -> Vec<String> {
        self.public.iter().map(|endpoint| self.url(endpoint)).collect()
    }

    fn admin_url(&self) -> Option<String> {
        self.admin.as_ref().map(|endpoint| self.url(endpoint))
    }

    /// Where the documentation is; a Unix socket has no URL.
    fn docs(&self) -> Option<String> {
        let mut endpoints = match &self.admin {
            Some(admin) => std::slice::from_ref(admin).iter(),
            None => self.public.iter(),
        };
        let found = endpoints.find(|endpoint| matches!(endpoint, Endpoint::Tcp(_)))?;
        Some(format!("{}/docs", self.url(found)))
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
        let token =
            if self.needs_token { "-H \"Authorization: Bearer $KEYMILL_TOKEN\" " } else { "" };
        format!("curl {token}{options}{quote}{url}{path}{quote}")
    }
}

/// Prints or logs that the server is up, and where.
pub(super) fn greet(
    service: &Service,
    records: &[SpaceRecord],
    default_space: &str,
    reached: &Reached,
) {
    if log::is_text() {
        note!("{}", greeting(service, records, default_space, reached));
        return;
    }
    let (place, urls) = (service.place(), reached.urls());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        store = place.location,
        kind = %place.kind,
        created = place.created,
        keyspaces = records.len(),
        url = urls.first(),
        urls = (urls.len() > 1).then(|| urls.join(" ")),
        admin_url = reached.admin_url(),
        "listening"
    );
}

fn greeting(
    service: &Service,
    records: &[SpaceRecord],
    default_space: &str,
    reached: &Reached,
) -> String {
    let place = service.place();
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
    if service.master().is_some_and(Master::is_made_up) {
        line(
            "secret",
            "created at the first start, kept in the store; see `keymill secret export`".to_owned(),
        );
    }
    for url in reached.urls() {
        line("listening", url);
    }
    if let Some(url) = reached.admin_url() {
        line("admin", url);
    }
    if let Some(docs) = reached.docs() {
        line("docs", docs);
    }
    let other = records.first().filter(|_| !records.iter().any(|it| it.name == default_space));
    let query = other.map(|record| format!("space={}", record.name));
    let curl = reached.curl(query.as_deref());
    write!(text, "\n  {curl}\n").expect("writing to a String cannot fail");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_greeted_with_can_be_typed() {
        let tcp = || Endpoint::Tcp(([127, 0, 0, 1], 80).into());
        let unix = || Endpoint::Unix("/run/k".into());
        let reached = |public, admin, is_tls| Reached { public, admin, is_tls, needs_token: false };
        let plain = reached(vec![unix(), tcp()], None, false);
        assert_eq!(plain.urls(), ["unix:/run/k", "http://127.0.0.1:80"]);
        assert_eq!(plain.docs().unwrap(), "http://127.0.0.1:80/docs");
        assert_eq!(plain.curl(None), "curl http://127.0.0.1:80/get-key");
        assert_eq!(plain.curl(Some("space=a")), "curl 'http://127.0.0.1:80/get-key?space=a'");
        let socket = reached(vec![unix()], Some(tcp()), true);
        assert_eq!(socket.curl(None), "curl --unix-socket /run/k http://localhost/get-key");
        assert_eq!(socket.docs().unwrap(), "https://127.0.0.1:80/docs");
        assert_eq!(reached(vec![tcp()], Some(unix()), false).docs(), None);
    }
    #[test]
    fn whoever_needs_a_token_is_shown_where_it_goes() {
        let public = vec![Endpoint::Tcp(([127, 0, 0, 1], 80).into())];
        let reached = Reached { public, admin: None, is_tls: false, needs_token: true };
        let expected =
            "curl -H \"Authorization: Bearer $KEYMILL_TOKEN\" http://127.0.0.1:80/get-key";
        assert_eq!(reached.curl(None), expected);
    }
}
