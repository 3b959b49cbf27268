//! `keymill take`: keys with no server.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::open_service;
use crate::config::Config;
use crate::service::ServiceError;

pub(super) async fn run(
    config: Config,
    space: Option<String>,
    count: u64,
) -> anyhow::Result<ExitCode> {
    let name = space.unwrap_or_else(|| config.default_space.clone());
    let wanted = config.wanted_space(&name);
    let service = open_service(config).await?;
    if let Some(wanted) = wanted {
        // The default keyspace, or one of the settings file: made where it is missing.
        service.ensure_space(&name, &wanted).await?;
    }
    let space = match service.space(&name).await {
        Err(error @ ServiceError::UnknownSpace(_)) => {
            return Err(error).context(format!("make it with `keymill space create {name}`"));
        }
        space => space?,
    };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    let mut written = Ok(());
    let taken = service
        .take_exactly(&space, count, |key| {
            if written.is_ok() {
                written = out.write_all(key).and_then(|()| out.write_all(b"\n"));
            }
        })
        .await?;
    written?;
    out.flush()?;
    if taken < count {
        eprintln!("keymill: the keyspace `{name}` ended after {taken} of {count} keys");
        return Ok(ExitCode::from(4));
    }
    Ok(ExitCode::SUCCESS)
}
