//! Checks where to listen, and the files for TLS.

use std::net::ToSocketAddrs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Settings;
use crate::server::{Endpoint, TlsFiles};

/// What the name of a Unix socket begins with.
const UNIX: &str = "unix:";

impl Settings {
    /// Where to listen for everybody.
    pub(super) fn endpoints(&self) -> anyhow::Result<Vec<Endpoint>> {
        ensure!(!self.listen.is_empty(), "name at least one address, such as 127.0.0.1:8080");
        self.listen.iter().map(|text| parse(text)).collect()
    }

    /// Where to listen for admins.
    pub(super) fn admin_endpoint(&self) -> anyhow::Result<Option<Endpoint>> {
        self.admin_listen.as_deref().map(parse).transpose()
    }

    /// Where to speak the Redis protocol.
    pub(super) fn redis_endpoints(&self) -> anyhow::Result<Vec<Endpoint>> {
        self.redis_listen.iter().map(|text| parse(text)).collect()
    }

    /// The files for TLS, if it is used, with the one that its key is in. They are read when the server starts:
    /// only that needs the key.
    pub(super) fn tls_files(&self, key: Option<&Path>) -> anyhow::Result<Option<TlsFiles>> {
        let client_ca = self.tls_client_ca.clone();
        match (self.tls_certificate.clone(), key.map(Path::to_owned)) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key, client_ca })),
            (Some(_), None) => bail!("tls_certificate is set, but tls_key is not; set both"),
            (None, Some(_)) => bail!("tls_key is set, but tls_certificate is not; set both"),
            (None, None) if client_ca.is_some() => bail!(
                "tls_client_ca is set, but TLS is not used; set tls_certificate and tls_key, too"
            ),
            (None, None) => Ok(None),
        }
    }

    /// Replaces the port of all addresses. Without an address, it is one of loopback.
    pub(super) fn set_port(&mut self, port: u16) {
        let mut has_address = false;
        for listen in self.listen.iter_mut().filter(|listen| !listen.starts_with(UNIX)) {
            let host = listen.rsplit_once(':').map_or(listen.as_str(), |(host, _)| host);
            *listen = format!("{host}:{port}");
            has_address = true;
        }
        if !has_address {
            self.listen.push(format!("127.0.0.1:{port}"));
        }
        // Some may have differed in their port alone.
        let mut kept: Vec<String> = Vec::new();
        self.listen.retain(|listen| {
            let is_new = !kept.contains(listen);
            kept.push(listen.clone());
            is_new
        });
    }
}

/// Reads an address, or a list of them.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct OneOrMany;

    impl<'de> Visitor<'de> for OneOrMany {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("text in quotes, or a list of such texts")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, texts: A) -> Result<Vec<String>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(texts))
        }
    }

    from.deserialize_any(OneOrMany)
}

/// Writes them in the same way.
pub(super) fn serialize<S: Serializer>(listen: &[String], to: S) -> Result<S::Ok, S::Error> {
    match listen {
        [one] => one.serialize(to),
        many => many.serialize(to),
    }
}

fn parse(text: &str) -> anyhow::Result<Endpoint> {
    if let Some(path) = text.strip_prefix(UNIX) {
        ensure!(!path.is_empty(), "`{text}` has no path; write unix:/run/keymill.sock");
        return Ok(Endpoint::Unix(path.into()));
    }
    let with_host = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let mut found = with_host.to_socket_addrs().with_context(|| {
        format!(
            "cannot listen on `{text}`: write ADDRESS:PORT, such as 127.0.0.1:8080, or unix:PATH"
        )
    })?;
    let first = found.next().with_context(|| format!("`{text}` does not resolve to an address"))?;
    Ok(Endpoint::Tcp(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_ipv4_or_ipv6_or_a_name_or_a_path() {
        for (text, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            (":9000", "0.0.0.0:9000"),
            ("[::1]:80", "[::1]:80"),
            ("unix:/run/keymill.sock", "unix:/run/keymill.sock"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), expected);
        }
        assert!(parse("localhost:80").unwrap().is_local());
        assert!(parse("unix:x").unwrap().is_local() && !parse(":80").unwrap().is_local());
        for text in ["nonsense", "unix:", "127.0.0.1", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_replaces_the_ports_of_the_addresses_that_are_set() {
        check(&["127.0.0.1:8080"], &["127.0.0.1:9"]);
        check(&["[::1]:80"], &["[::1]:9"]);
        check(&[":80"], &[":9"]);
        check(&["unix:/x:1", "a:1", "b:2", "a:3"], &["unix:/x:1", "a:9", "b:9"]);
        check(&["unix:/x"], &["unix:/x", "127.0.0.1:9"]);
    }

    #[track_caller]
    fn check(listen: &[&str], expected: &[&str]) {
        let listen = listen.iter().map(|text| (*text).to_owned()).collect();
        let mut settings = Settings { listen, ..Settings::default() };
        settings.set_port(9);
        assert_eq!(settings.listen, expected);
    }

    #[test]
    fn addresses_are_one_text_or_a_list() {
        let listen = |text: &str| Settings::parse(text).map(|settings| settings.listen);
        assert_eq!(listen("listen = \"a:1\"").unwrap(), ["a:1"]);
        assert_eq!(listen("listen = [\"a:1\", \"unix:b\"]").unwrap(), ["a:1", "unix:b"]);
        let says = "line 1: listen must be text in quotes, or a list of such texts, not `3`";
        assert_eq!(listen("listen = 3").unwrap_err().to_string(), says);
        let none = Settings { listen: Vec::new(), ..Settings::default() };
        assert!(none.endpoints().unwrap_err().to_string().contains("at least one"));
    }

    #[test]
    fn a_certificate_needs_its_key_and_clients_need_both() {
        let files = |text: &str| {
            let settings = Settings::parse(text).unwrap();
            settings.tls_files(settings.tls_key.as_deref())
        };
        let (certificate, key) = ("tls_certificate = \"c\"\n", "tls_key = \"k\"\n");
        let client_ca = "tls_client_ca = \"a\"\n";
        assert_eq!(files("").unwrap(), None);
        assert!(files(&[certificate, key, client_ca].concat()).unwrap().is_some());
        for (text, says) in [
            (certificate, "tls_key is not"),
            (key, "tls_certificate is not"),
            (client_ca, "TLS is not used"),
        ] {
            let error = files(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
