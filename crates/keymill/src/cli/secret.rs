//! `keymill secret export`: moves the secret out of the store.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Subcommand;
use keymill_engine::operations::Opening;
use zeroize::Zeroizing;

use super::{WrongUsage, open_store};
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum SecretCommand {
    /// Write the secret that was created at the first start to a file; with --forget, also remove it
    /// from the store
    #[command(
        after_help = "Examples:\n  keymill secret export /etc/keymill/secret\n  keymill secret export /etc/keymill/secret --forget    and remove it from the store"
    )]
    Export {
        /// The file to create; - for standard output
        file: PathBuf,
        /// Then remove the secret from the store: from then on `secret_file` must name the file
        #[arg(long)]
        forget: bool,
    },
}

pub(super) async fn run(config: &Config, command: SecretCommand) -> anyhow::Result<ExitCode> {
    let SecretCommand::Export { file, forget } = command;
    let to_stdout = file == Path::new("-");
    if forget && to_stdout {
        let problem = "--forget needs a file, because standard output may be lost";
        return Err(WrongUsage(problem.to_owned()).into());
    }
    let opening = Opening { allow_unsafe: true, ..Opening::default() };
    let store = open_store(config, opening).await?;
    let Some(text) = store.secret().await?.map(Zeroizing::new) else {
        bail!(
            "the store holds no secret: it comes from KEYMILL_SECRET or secret_file, or was exported with --forget"
        );
    };
    if to_stdout {
        println!("{}", *text);
        return Ok(ExitCode::SUCCESS);
    }
    write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    note!("keymill: wrote the secret to {}; set `secret_file` to it", file.display());
    if forget {
        store.forget_secret().await?;
        note!(
            "keymill: removed the secret from the store: without that file, keyspaces cannot be served"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a new file that only its owner can read, and syncs it to disk.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
