//! `keymill take`: keys with no server.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::bail;

use super::{check_safety, open_service};
use crate::config::Config;
use crate::service::ServiceError;
use crate::space::check_name;

pub(super) async fn run(
    config: Config,
    space: Option<String>,
    count: u64,
    caller: String,
) -> anyhow::Result<ExitCode> {
    let name = space.unwrap_or_else(|| config.default_space.clone());
    let wanted = config.wanted_space(&name);
    let allow_unsafe_store = config.allow_unsafe_store;
    let service = open_service(&config, allow_unsafe_store).await?;
    check_safety(service.store(), allow_unsafe_store).await?;
    if let Some(wanted) = wanted {
        // The default keyspace, or one of the settings file: made where it is missing.
        if service.ensure_space(&name, &wanted).await?.made {
            eprintln!("keymill: made the keyspace `{name}`");
        }
    }
    let space = match service.space(&name).await {
        Err(ServiceError::UnknownSpace(_)) if check_name(&name).is_ok() => {
            bail!("there is no keyspace `{name}`; make it with `keymill space create {name}`");
        }
        space => space?,
    };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    let mut written = Ok(());
    let taken = service
        .take_exactly(&space, count, &caller, |key| {
            written = out.write_all(key).and_then(|()| out.write_all(b"\n"));
            written.is_ok()
        })
        .await;
    service.leave().await;
    let taken = taken?;
    written.and_then(|()| out.flush())?;
    if taken < count {
        eprintln!("keymill: the keyspace `{name}` ended after {taken} of {count} keys");
        return Ok(ExitCode::from(4));
    }
    Ok(ExitCode::SUCCESS)
}
