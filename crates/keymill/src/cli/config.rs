//! `keymill config …`: the settings, checked and shown with where they come from.

use std::process::ExitCode;

use super::args::ConfigCommand;
use crate::config::{Config, DEFAULT_FILE, Flags};

pub(super) fn run(command: &ConfigCommand, flags: &Flags) -> anyhow::Result<ExitCode> {
    let text = match command {
        ConfigCommand::Check => {
            let config = Config::load(flags)?;
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
