//! `keymill token`: create, list, show, rotate and revoke tokens, beside the store; and make those of the settings.

pub(super) mod generate;
mod show;
mod values;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::generate::GenerateArgs;
use self::values::{duration, expiry, per};
use super::site::refusal::unknown_space;
use super::site::{Site, Via};
use super::usage;
use crate::access::issue::TokenAsk;

/// How many keyspaces of a new token are looked up.
const LOOKED_UP_MAX: usize = 20;

/// Who creates tokens at the command line, for the record.
pub(super) const HERE: &str = "command line";

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
        #[command(flatten)]
        limits: LimitArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a new token and the lines for the settings file that it needs; no store is opened
    #[command(
        after_help = "The first line is the token. The settings have only its hash. Without a name, NAME and\nthe rights are left to you; the token alone can be used as KEYMILL_ADMIN_TOKEN.\n\nExamples:\n  keymill token generate shop --allow take:links,coupons --expires 2027-01-01\n  keymill token generate"
    )]
    Generate(GenerateArgs),
    /// List tokens: those of the store and those of the settings
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

/// Tells of keyspaces that a token is for and that do not exist: their names may be mistyped.
async fn note_missing(site: &Site, allow: &[String]) {
    let names = allow
        .iter()
        .filter_map(|text| text.split_once(':'))
        .flat_map(|(_, names)| names.split(','));
    let names: BTreeSet<&str> =
        names.filter(|name| !name.contains('*')).take(LOOKED_UP_MAX).collect();
    for name in names {
        if let Err(error) = site.space(name).await
            && unknown_space(&error).is_some()
        {
            note!("keymill: the keyspace `{name}` does not exist yet");
        }
    }
}

/// Until when, how much, and for whom a token is, for the commands that make one.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(super) struct LimitArgs {
    /// When it expires: after 90d, 12h or 30m, on a date such as 2027-01-01 (midnight UTC), or at a time such as
    /// 2027-01-01T12:00:00Z
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
}

impl LimitArgs {
    /// The token to make.
    fn ask(self, name: String, allow: Vec<String>) -> anyhow::Result<TokenAsk> {
        Ok(TokenAsk {
            name,
            allow,
            expires_at: self.expires.as_deref().map(expiry).transpose()?,
            rate: self.rate.as_deref().map(|text| usage(per(text, "/s"))).transpose()?,
            quota: self.quota.as_deref().map(|text| usage(per(text, "/d"))).transpose()?,
            certificate: self.certificate,
        })
    }
}

pub(super) async fn run(via: &Via, command: TokenCommand) -> anyhow::Result<ExitCode> {
    let site = via.open().await?;
    let ran = run_on(via, &site, command).await;
    site.leave().await;
    ran.map(|()| ExitCode::SUCCESS)
}

async fn run_on(via: &Via, site: &Site, command: TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create { name, allow, limits, json } => {
            let ask = limits.ask(name, allow)?;
            let is_first = !site.tokens(via).await?.required;
            let (token, text) = site.create_token(via, ask).await?;
            let name = token.record.name.clone();
            note!("keymill: created the token `{name}`; this is the only time it is shown");
            if is_first {
                note!(
                    "keymill: it is the first token: every caller needs one from now on, at running instances \
                     within a heartbeat (except for what `anonymous_allow` lists)"
                );
            }
            show::print_made(&token, &text, json)?;
            note_missing(site, &token.record.allow).await;
            site.record_act(&format!("token create {name}")).await
        }
        TokenCommand::Rotate { name, overlap, json } => {
            let lasts = usage(duration(&overlap))?;
            let (token, text) = site.rotate_token(via, &name, lasts).await?;
            note!("keymill: rotated `{name}`; the old text is valid for {overlap} more");
            show::print_made(&token, &text, json)?;
            site.record_act(&format!("token rotate {name}")).await
        }
        TokenCommand::Revoke { name } => {
            site.revoke_token(via, &name).await?;
            note!("keymill: revoked `{name}`");
            site.record_act(&format!("token revoke {name}")).await
        }
        TokenCommand::List { json } => show::list(site.tokens(via).await?, json),
        TokenCommand::Show { name, json } => show::show(&site.token(via, &name).await?, json),
        TokenCommand::Generate(_) => unreachable!("it needs no store"),
    }
}
