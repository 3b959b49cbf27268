//! `keymill secret export`: moves the secret out of the store.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use keymill_engine::operations::ServiceError;
use keymill_engine::store::Opening;
use zeroize::Zeroizing;

use super::args::SecretCommand;
use super::{WrongUsage, open_store};
use crate::config::Config;

pub(super) async fn run(config: Config, command: SecretCommand) -> anyhow::Result<ExitCode> {
    let SecretCommand::Export { file, forget } = command;
    let to_stdout = file == Path::new("-");
    if forget && to_stdout {
        let problem = "--forget needs a file: what goes to standard output may be lost";
        return Err(WrongUsage(problem.to_owned()).into());
    }
    let opening = Opening { allow_unsafe: true, ..Opening::default() };
    let store = open_store(&config, opening).await?;
    let Some(text) =
        store.admin.secret(None).await.map_err(ServiceError::from)?.map(Zeroizing::new)
    else {
        bail!(
            "the store keeps no secret: it was given by KEYMILL_SECRET or secret_file, or exported before"
        );
    };
    if to_stdout {
        println!("{}", *text);
        return Ok(ExitCode::SUCCESS);
    }
    write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    note!("keymill: wrote the secret to {}; set `secret_file` to it", file.display());
    if forget {
        store.admin.forget_secret().await.map_err(ServiceError::from)?;
        note!(
            "keymill: removed the secret from the store: without that file, keyspaces cannot be served"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a new file that only its owner can read, and has it on disk before it returns.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
