//! `keymill config …`: the settings, checked and shown with where they come from.

use std::process::ExitCode;

use clap::Subcommand;

use crate::config::{Config, DEFAULT_FILE, Flags};
use crate::server::Tls;

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the settings and report what is wrong with them
    #[command(after_help = "Example:\n  keymill config check --config /etc/keymill/keymill.toml")]
    Check,
    /// Show the settings in force and where each of them comes from
    #[command(
        after_help = "The output can be used as a settings file. Passwords and the secret are not shown.\n\nExamples:\n  keymill config show\n  keymill config show --json\n  keymill config show --default > keymill.toml"
    )]
    Show {
        /// Print the annotated file of all defaults instead
        #[arg(long)]
        default: bool,
        /// Print JSON
        #[arg(long, conflicts_with = "default")]
        json: bool,
    },
}

pub(super) fn run(command: &ConfigCommand, flags: &Flags) -> anyhow::Result<ExitCode> {
    let text = match command {
        ConfigCommand::Check => {
            let config = Config::load(flags)?;
            let tls = config.tls.clone().map(Tls::load).transpose()?;
            if let Some(expiry) = tls.and_then(|tls| tls.expiry()) {
                eprintln!("keymill: warning: {expiry}");
            }
            if !config.access.anonymous.is_empty() && config.access.tokens.is_empty() {
                eprintln!(
                    "keymill: warning: `anonymous_allow` restricts nothing unless there are tokens: the settings \
                     have none, and the store was not asked (see `keymill token list`)"
                );
            }
            match config.origins.file() {
                Some(file) => {
                    eprintln!("keymill: the settings are valid; read {}", file.display());
                }
                None => eprintln!("keymill: the settings are valid; there is no settings file"),
            }
            return Ok(ExitCode::SUCCESS);
        }
        ConfigCommand::Show { default: true, .. } => DEFAULT_FILE.to_owned(),
        ConfigCommand::Show { json: true, .. } => {
            format!("{}\n", serde_json::to_string_pretty(&Config::load(flags)?.to_json()?)?)
        }
        ConfigCommand::Show { .. } => Config::load(flags)?.to_toml()?,
    };
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}
