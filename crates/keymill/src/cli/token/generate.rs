//! `keymill token generate`: a token for the settings. No store is opened, and nothing is kept.

use std::process::ExitCode;

use clap::Args;
use keymill_engine::operations::TokenRecord;

use super::{HERE, LimitArgs};
use crate::access::issue;
use crate::cli::usage;

/// What stands for a name that was not given. No token can have it, so that it must be replaced.
const PLACEHOLDER: &str = "NAME";

#[derive(Debug, Args)]
pub(in crate::cli) struct GenerateArgs {
    /// Its name in the settings
    #[arg(requires = "allow")]
    name: Option<String>,
    /// A right and its keyspaces, such as take:links,coupons; can be repeated
    #[arg(long, value_name = "RIGHT:KEYSPACES", requires = "name")]
    allow: Vec<String>,
    #[command(flatten)]
    limits: LimitArgs,
}

pub(in crate::cli) fn run(args: GenerateArgs) -> anyhow::Result<ExitCode> {
    let GenerateArgs { name, allow, limits } = args;
    let (text, section) = match name {
        Some(name) => {
            let (record, text) = issue::make(&limits.ask(name, allow)?, HERE)?;
            (text, section(&record))
        }
        None if limits != LimitArgs::default() => {
            return usage(Err("name the token and its rights, too: NAME --allow RIGHT:KEYSPACES"));
        }
        None => {
            let (text, secret) = issue::new_secret()?;
            let hash = secret.sha256;
            (text, format!("[tokens.{PLACEHOLDER}]\nsha256 = \"{hash}\"\nallow = []"))
        }
    };
    note!(
        "keymill: the first line is the token, which is kept nowhere; the rest goes into the settings file, or \
         into the file that `tokens_file` names"
    );
    println!("{}\n\n{section}", *text);
    Ok(ExitCode::SUCCESS)
}

/// A token as the settings have it.
fn section(record: &TokenRecord) -> String {
    let text = |text: &str| toml::Value::from(text).to_string();
    // Without quotes, a point would begin another section.
    let is_plain = !record.name.contains('.');
    let name = if is_plain { record.name.clone() } else { text(&record.name) };
    let mut lines = vec![format!("[tokens.{name}]")];
    lines.extend(record.secrets.iter().map(|it| format!("sha256 = {}", text(&it.sha256))));
    let allow: Vec<String> = record.allow.iter().map(|it| text(it)).collect();
    lines.push(format!("allow = [{}]", allow.join(", ")));
    lines.extend(record.expires_at.map(|end| format!("expires_at = {}", text(&end.to_string()))));
    lines.extend(record.rate.map(|rate| format!("rate = {rate}")));
    lines.extend(record.quota.map(|quota| format!("quota = {quota}")));
    lines.extend(record.certificate.as_ref().map(|it| format!("certificate = {}", text(it))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::issue::TokenAsk;
    use crate::config::Settings;

    #[test]
    fn what_is_generated_can_be_read_as_settings() {
        let ask = TokenAsk {
            name: "ci.deploy".to_owned(),
            allow: vec!["take:links,coupons".to_owned(), "read:shop-*".to_owned()],
            expires_at: Some("2127-01-01T00:00:00Z".parse().unwrap()),
            rate: Some(5),
            quota: Some(6),
            certificate: Some("Spiffe://a\"b".to_owned()),
        };
        let (record, text) = issue::make(&ask, HERE).unwrap();
        let written = section(&record);
        assert!(!written.contains(text.as_str()));
        let read = &Settings::parse(&written).unwrap().tokens["ci.deploy"];
        assert_eq!(read.sha256, record.secrets[0].sha256);
        assert_eq!(read.allow, record.allow);
        let rest = (read.expires_at, read.rate, read.quota, &read.certificate);
        assert_eq!(rest, (record.expires_at, Some(5), Some(6), &record.certificate));
    }
}
