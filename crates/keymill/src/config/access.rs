//! Checks the settings of who may do what: tokens, what callers without one may do, browsers.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::num::NonZeroU32;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use jiff::Timestamp;
use keymill_engine::operations::{TokenRecord, TokenSecret};
use serde::Deserialize;

use super::limits::seconds;
use super::secrets::Source;
use super::settings::{Settings, TokenSettings};
use crate::access::issue::canonical;
use crate::access::limits::AddressLimits;
use crate::access::rights::Grants;
use crate::access::secret_text;
use crate::access::{AccessSettings, check_name};
use crate::front::http::BrowserRules;

/// The name of the token that a variable, a file or a credential holds.
pub(crate) const ADMIN: &str = "admin";

/// A file of tokens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensFile {
    tokens: BTreeMap<String, TokenSettings>,
}

impl Settings {
    /// Who may do what.
    pub(super) fn access(&self, admin_token: Option<&Source>) -> anyhow::Result<AccessSettings> {
        let anonymous = Grants::parse(self.anonymous_allow.iter().map(String::as_str));
        let rate = NonZeroU32::new(self.limits.anonymous_requests_per_second);
        Ok(AccessSettings {
            anonymous: anonymous.map_err(anyhow::Error::msg).context("anonymous_allow")?,
            tokens: self.token_records(admin_token)?,
            tokens_max_age: seconds("tokens_max_age_seconds", self.tokens_max_age_seconds)?,
            address_limits: rate.map(|rate| Arc::new(AddressLimits::new(rate))),
        })
    }

    /// Names of the server, and pages that may use it.
    pub(super) fn browser_rules(&self) -> anyhow::Result<BrowserRules> {
        let allowed_hosts = self.allowed_hosts.iter().map(|host| {
            host_name(host).with_context(|| {
                format!(
                    "allowed_hosts: `{host}` is not a host name; write it without scheme and port"
                )
            })
        });
        for origin in &self.allowed_origins {
            let host = origin.split_once("://").map(|(_, host)| host).unwrap_or_default();
            if host.is_empty() || host.contains('/') {
                bail!("allowed_origins: `{origin}` is not an origin such as https://shop.example");
            }
        }
        Ok(BrowserRules {
            allowed_hosts: allowed_hosts.collect::<anyhow::Result<_>>()?,
            allowed_origins: self.allowed_origins.clone(),
        })
    }

    fn token_records(&self, admin_token: Option<&Source>) -> anyhow::Result<Vec<TokenRecord>> {
        let mut records = Vec::new();
        for (name, token) in &self.tokens {
            records.push(record(name, token).with_context(|| format!("[tokens.{name}]"))?);
        }
        if let Some(path) = &self.tokens_file {
            let shown = path.display();
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the tokens in {shown}"))?;
            let file: TokensFile = toml::from_str(&text)
                .map_err(|error| anyhow!("the tokens in {shown}: {}", mistake(&text, &error)))?;
            for (name, token) in &file.tokens {
                records.push(
                    record(name, token).with_context(|| format!("{shown}: [tokens.{name}]"))?,
                );
            }
        }
        records.extend(admin_token.map(admin_record).transpose()?);
        let mut names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("the token `{}` is set twice; give one of them another name", twice[0]);
        }
        Ok(records)
    }
}

/// Where a file of tokens is wrong. What is there is not quoted: it may be a token instead of its hash.
fn mistake(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.bytes().take(start).filter(|byte| *byte == b'\n').count();
    format!(
        "line {} is not valid; write each token as a section such as [tokens.shop], with sha256 = \"…\" and \
         allow = [\"take:links\"]",
        before + 1
    )
}

/// A host as requests are compared with it: in lower case, an IPv6 address without brackets.
fn host_name(host: &str) -> Option<String> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_address = inner.parse::<Ipv6Addr>().is_ok();
    let is_name = !host.is_empty() && !host.contains(['/', ' ', ':', '[', ']']);
    (is_address || is_name).then(|| inner.to_ascii_lowercase())
}

fn record(name: &str, token: &TokenSettings) -> anyhow::Result<TokenRecord> {
    // As wrong settings, not as a wrong command line.
    check_name(name).map_err(|error| anyhow!("{error}"))?;
    if secret_text::parse_hash(&token.sha256).is_none() {
        bail!("sha256 must be the SHA-256 of the token, as 64 hexadecimal digits");
    }
    let grants = Grants::parse(token.allow.iter().map(String::as_str));
    grants.map_err(anyhow::Error::msg).context("allow")?;
    if token.rate == Some(0) || token.quota == Some(0) {
        bail!("rate and quota must be at least 1; leave them out for no limit");
    }
    Ok(TokenRecord {
        name: name.to_owned(),
        secrets: vec![TokenSecret { sha256: token.sha256.to_ascii_lowercase(), until: None }],
        allow: token.allow.clone(),
        expires_at: token.expires_at,
        rate: token.rate,
        quota: token.quota,
        certificate: token.certificate.as_deref().map(canonical),
        created_at: Timestamp::UNIX_EPOCH,
        created_by: "settings".to_owned(),
    })
}

/// The first token: it may do everything.
fn admin_record(source: &Source) -> anyhow::Result<TokenRecord> {
    let Some(hash) = secret_text::hash(source.read()?.trim().as_bytes()) else {
        bail!(
            "{} is not a token: it must be km_ and 44 characters, as `keymill token generate` prints it",
            source.label()
        );
    };
    let token = TokenSettings {
        sha256: hex::encode(hash),
        allow: vec!["admin:*".to_owned()],
        expires_at: None,
        rate: None,
        quota: None,
        certificate: None,
    };
    record(ADMIN, &token)
}
