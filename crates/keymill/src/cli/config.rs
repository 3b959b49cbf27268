//! `keymill config …`: the settings, checked and shown.

use std::process::ExitCode;

use super::args::ConfigCommand;
use crate::config::{Config, DEFAULT_FILE, Flags};

pub(super) fn run(command: &ConfigCommand, flags: &Flags) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Check => {
            Config::load(flags)?;
            eprintln!("keymill: the settings are good");
        }
        ConfigCommand::Show { default: true } => print!("{DEFAULT_FILE}"),
        ConfigCommand::Show { default: false } => {
            print!("{}", toml::to_string(&Config::load(flags)?.shown)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}
