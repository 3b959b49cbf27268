//! `keymill token`: create, list, show, rotate and revoke tokens, beside the store.

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use comfy_table::{ContentArrangement, Table, presets};
use jiff::{SignedDuration, Timestamp};
use keymill_engine::operations::{Service, ServiceError, TokenRecord};
use serde::Serialize;

use super::{open_service, usage};
use crate::access::issue::{self, TokenAsk};
use crate::config::Config;

/// Who creates tokens at the command line, for the record.
const HERE: &str = "command line";

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Create a token and print it; it is not stored and cannot be shown again
    #[command(
        after_help = "Examples:\n  keymill token create admin --allow 'admin:*'\n  keymill token create shop --allow take:links,coupons --allow read:links --expires 90d --rate 5000/s --quota 1000000/d\n\nRights: take (keys), name (aliases, digests, retiring), read (explain, lists), admin (all).\nKeyspaces: by name, by a beginning such as 'shop-*', or '*' for all."
    )]
    Create {
        /// Its name, which is also recorded as the caller of its takes
        name: String,
        /// A right and its keyspaces, such as take:links,coupons; can be repeated
        #[arg(long, value_name = "RIGHT:KEYSPACES", required = true)]
        allow: Vec<String>,
        /// When it expires: after 90d, 12h or 30m, or at a time such as 2027-01-01T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Keys that it may take a second, and at once, such as 5000/s; each instance counts for itself
        #[arg(long, value_name = "N/s")]
        rate: Option<String>,
        /// Keys that it may take a day, such as 1000000/d; each instance counts for itself
        #[arg(long, value_name = "N/d")]
        quota: Option<String>,
        /// A name in a client certificate that may be used instead of the token
        #[arg(long, value_name = "NAME")]
        certificate: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List tokens
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a token; not its text, which is not stored
    Show {
        /// Its name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a token a new text and print it; the old one stays valid for a while
    #[command(after_help = "Example:\n  keymill token rotate shop --overlap 24h")]
    Rotate {
        /// Its name
        name: String,
        /// How long the old text stays valid: 0s, 30m, 24h, 7d
        #[arg(long, value_name = "TIME", default_value = "24h")]
        overlap: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token: running instances refuse it within a heartbeat
    Revoke {
        /// Its name
        name: String,
    },
}

/// A token as programs read it.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    name: &'a str,
    allow: &'a [String],
    expires_at: Option<Timestamp>,
    rate: Option<u32>,
    quota: Option<u64>,
    certificate: Option<&'a str>,
    created_at: Timestamp,
    created_by: &'a str,
}

pub(super) async fn run(config: Config, command: TokenCommand) -> anyhow::Result<ExitCode> {
    let service = open_service(&config, true).await?;
    let ran = match command {
        TokenCommand::Create { name, allow, expires, rate, quota, certificate, json } => {
            let ask = TokenAsk {
                name,
                allow,
                expires_at: expires.as_deref().map(expiry).transpose()?,
                rate: rate.as_deref().map(|text| usage(per(text, "/s"))).transpose()?,
                quota: quota.as_deref().map(|text| usage(per(text, "/d"))).transpose()?,
                certificate,
            };
            let taken: Vec<String> =
                config.access.tokens.iter().map(|token| token.name.clone()).collect();
            let is_first = !service.tokens().await?.ever && taken.is_empty();
            let (record, text) = issue::create(&service, &ask, HERE, &taken).await?;
            note!(
                "keymill: created the token `{}`; this is the only time it is shown",
                record.name
            );
            if is_first {
                note!(
                    "keymill: it is the first token: from now on every caller needs one (except for what \
                     `anonymous_allow` lists)"
                );
            }
            print_made(&record, &text, json)?;
            record_act(&service, &format!("token create {}", record.name)).await
        }
        TokenCommand::Rotate { name, overlap, json } => {
            let (record, text) = issue::rotate(&service, &name, usage(duration(&overlap))?).await?;
            note!("keymill: rotated `{name}`; the old text is valid for {overlap} more");
            print_made(&record, &text, json)?;
            record_act(&service, &format!("token rotate {name}")).await
        }
        TokenCommand::Revoke { name } => {
            issue::revoke(&service, &name).await?;
            note!("keymill: revoked `{name}`");
            record_act(&service, &format!("token revoke {name}")).await
        }
        TokenCommand::List { json } => list(&service, json).await,
        TokenCommand::Show { name, json } => show(&service, &name, json).await,
    };
    service.leave().await;
    ran.map(|()| ExitCode::SUCCESS)
}

async fn list(service: &Service, json: bool) -> anyhow::Result<()> {
    let known = service.tokens().await?;
    if known.rolled_back {
        eprintln!(
            "keymill: the list of tokens was rolled back: tokens that were revoked since may be valid again; \
             revoke them again"
        );
    }
    let mut tokens = known.tokens;
    tokens.sort_by(|one, other| one.name.cmp(&other.name));
    if json {
        let shown: Vec<Shown<'_>> = tokens.iter().map(|token| shown(token, None)).collect();
        println!("{}", serde_json::to_string_pretty(&shown)?);
        return Ok(());
    }
    if tokens.is_empty() {
        let still = if known.ever { ", and callers still need one" } else { "" };
        note!("keymill: there are no tokens{still}; create one with `keymill token create`");
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["NAME", "ALLOWS", "EXPIRES", "CREATED"]);
    for token in tokens {
        let expires = token.expires_at.map_or("never".to_owned(), |end| end.to_string());
        let created = format!("{:.0}", token.created_at);
        table.add_row([token.name, token.allow.join(" "), expires, created]);
    }
    println!("{table}");
    Ok(())
}

async fn show(service: &Service, name: &str, json: bool) -> anyhow::Result<()> {
    let tokens = service.tokens().await?.tokens;
    let found = tokens.iter().find(|token| token.name == name);
    let token = found.ok_or_else(|| ServiceError::UnknownToken { name: name.to_owned() })?;
    if json {
        println!("{}", serde_json::to_string_pretty(&shown(token, None))?);
        return Ok(());
    }
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    println!("name         {}", token.name);
    println!("allows       {}", token.allow.join(" "));
    println!("expires      {}", token.expires_at.map_or("never".to_owned(), |it| it.to_string()));
    println!("rate         {}", or_none(token.rate.map(|rate| format!("{rate} keys a second"))));
    println!("quota        {}", or_none(token.quota.map(|quota| format!("{quota} keys a day"))));
    println!("certificate  {}", or_none(token.certificate.clone()));
    println!("created      {} by {}", token.created_at, token.created_by);
    Ok(())
}

fn print_made(record: &TokenRecord, text: &str, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(&shown(record, Some(text)))?);
    } else {
        println!("{text}");
    }
    Ok(())
}

fn shown<'a>(record: &'a TokenRecord, text: Option<&'a str>) -> Shown<'a> {
    Shown {
        token: text,
        name: &record.name,
        allow: &record.allow,
        expires_at: record.expires_at,
        rate: record.rate,
        quota: record.quota,
        certificate: record.certificate.as_deref(),
        created_at: record.created_at,
        created_by: &record.created_by,
    }
}

async fn record_act(service: &Service, what: &str) -> anyhow::Result<()> {
    let host = &service.instance().host;
    service.record_act(HERE, host, what).await.context("the act was done, but not recorded")
}

/// A number of something: `5000/s`, or without its unit.
fn per<T: std::str::FromStr>(text: &str, unit: &str) -> Result<T, String> {
    let number = text.strip_suffix(unit).unwrap_or(text);
    number.parse().map_err(|_| format!("`{text}` must be a whole number such as 5000{unit}"))
}

/// A time from now on, or a moment.
fn expiry(text: &str) -> anyhow::Result<Timestamp> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let after = duration(text).map_err(|_| {
        format!("`{text}` must be a time from now such as 90d or 12h, or 2027-01-01T00:00:00Z")
    });
    let end = Timestamp::now().checked_add(usage(after)?);
    usage(end.map_err(|_| format!("`{text}` is too far in the future")))
}

/// `90d`, `12h`, `30m`, `0s`.
fn duration(text: &str) -> Result<SignedDuration, String> {
    let refusal = || format!("`{text}` must be a time such as 90d, 12h, 30m or 10s");
    let unit = text.chars().last().ok_or_else(refusal)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(refusal()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| refusal())?;
    Ok(SignedDuration::from_secs(i64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        for (text, seconds) in [("0s", 0), ("30m", 1_800), ("24h", 86_400), ("90d", 7_776_000)] {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "d", "5", "-1d", "1.5h", "1w", "1 d", "ä"] {
            assert!(duration(text).unwrap_err().contains("such as 90d"), "{text}");
        }
    }

    #[test]
    fn rates_may_name_their_unit() {
        assert_eq!(per::<u32>("5000/s", "/s"), Ok(5_000));
        assert_eq!(per::<u64>("1000000", "/d"), Ok(1_000_000));
        assert!(per::<u32>("5000/d", "/s").unwrap_err().contains("5000/s"));
        assert!(per::<u32>("many", "/s").is_err());
    }
}
