//! Tokens as people and programs read them: `keymill token list`, `token show`, and what a command has made.

use comfy_table::{ContentArrangement, Table, presets};
use jiff::Timestamp;
use serde::Serialize;

use crate::access::listed::{ListedToken, TokenSource};
use crate::cli::figures::grouped;
use crate::cli::site::KnownTokens;

/// A token as programs read it.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    name: &'a str,
    /// `store` or `settings`.
    source: &'static str,
    allow: &'a [String],
    expires_at: Option<Timestamp>,
    expired: bool,
    rate: Option<u32>,
    quota: Option<u64>,
    certificate: Option<&'a str>,
    created_at: Option<Timestamp>,
    created_by: &'a str,
    /// After a rotation: until when an old text is valid.
    old_text_until: Option<Timestamp>,
}

pub(super) fn list(known: KnownTokens, json: bool) -> anyhow::Result<()> {
    if known.rolled_back {
        eprintln!(
            "keymill: the list of tokens was rolled back: tokens that were revoked since may be valid again; \
             revoke them again"
        );
    }
    let tokens = known.tokens;
    if json {
        let shown: Vec<Shown<'_>> = tokens.iter().map(|token| shown(token, None)).collect();
        println!("{}", serde_json::to_string_pretty(&shown)?);
        return Ok(());
    }
    if tokens.is_empty() {
        let still = if known.required { ", and callers still need one" } else { "" };
        note!("keymill: there are no tokens{still}; create one with `keymill token create`");
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["NAME", "ALLOWS", "RATE", "QUOTA", "EXPIRES", "CREATED", "SOURCE"]);
    let mut rotated = Vec::new();
    for token in tokens {
        let (expires, created, source) = (expiry(&token), created(&token), token.source.name());
        if let Some(end) = token.old_text_until() {
            rotated
                .push(format!("the old text of `{}` is valid until {end:.0}", token.record.name));
        }
        let record = token.record;
        let rate = record.rate.map(|rate| format!("{}/s", grouped(rate.into())));
        let quota = record.quota.map(|quota| format!("{}/d", grouped(quota)));
        let [rate, quota] = [rate, quota].map(|limit| limit.unwrap_or_else(|| "none".to_owned()));
        let allows = record.allow.join(" ");
        table.add_row([record.name, allows, rate, quota, expires, created, source.to_owned()]);
    }
    println!("{table}");
    rotated.iter().for_each(|line| println!("{line}"));
    Ok(())
}

pub(super) fn show(found: &ListedToken, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(&shown(found, None))?);
        return Ok(());
    }
    let token = &found.record;
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    println!("name         {}", token.name);
    println!("allows       {}", token.allow.join(" "));
    println!("expires      {}", expiry(found));
    println!("rate         {}", or_none(token.rate.map(|rate| format!("{rate} keys a second"))));
    println!("quota        {}", or_none(token.quota.map(|quota| format!("{quota} keys a day"))));
    println!("certificate  {}", or_none(token.certificate.clone()));
    if let Some(end) = found.old_text_until() {
        println!("old text     valid until {end:.0}");
    }
    println!("source       {}", found.source.name());
    if found.source == TokenSource::Store {
        println!("created      {:.3} by {}", token.created_at, token.created_by);
    }
    Ok(())
}

/// Prints a token that was made.
pub(super) fn print_made(made: &ListedToken, text: &str, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(&shown(made, Some(text)))?);
    } else {
        println!("{text}");
    }
    Ok(())
}

fn shown<'a>(token: &'a ListedToken, text: Option<&'a str>) -> Shown<'a> {
    let record = &token.record;
    Shown {
        token: text,
        name: &record.name,
        source: token.source.name(),
        allow: &record.allow,
        expires_at: record.expires_at,
        expired: token.is_expired(),
        rate: record.rate,
        quota: record.quota,
        certificate: record.certificate.as_deref(),
        created_at: token.created_at(),
        created_by: &record.created_by,
        old_text_until: token.old_text_until(),
    }
}

fn expiry(token: &ListedToken) -> String {
    match token.record.expires_at {
        None => "never".to_owned(),
        Some(end) if token.is_expired() => format!("{end:.0} (expired)"),
        Some(end) => format!("{end:.0}"),
    }
}

fn created(token: &ListedToken) -> String {
    token.created_at().map_or("-".to_owned(), |at| format!("{at:.0}"))
}
