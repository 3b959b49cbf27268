//! `keymill take`: keys without a server.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use keymill_engine::operations::{Service, ServiceError};
use keymill_engine::space::check_name;

use super::figures::grouped;
use super::output::Data;
use super::{WrongUsage, check_safety, open_service, unknown};
use crate::config::Config;

/// How many bytes of keys are buffered; they are lost if the reader is gone.
const BUFFER: usize = 1 << 14;

pub(super) async fn run(
    config: Config,
    space: Option<String>,
    count: u64,
    caller: String,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let name = space.unwrap_or_else(|| config.default_space.clone());
    let wanted = config.wanted_space(&name);
    let is_default = name == config.default_space;
    let allow_unsafe_store = config.allow_unsafe_store;
    let service = open_service(&config, allow_unsafe_store).await?;
    check_safety(&service.check().await?, allow_unsafe_store)?;
    if let Some(wanted) = wanted {
        // The default keyspace, or one in the settings file, is created if it is missing.
        if service.ensure_space(&name, &wanted).await?.made {
            note!("keymill: created the keyspace `{name}`");
        }
    }
    let space = match service.space(&name).await {
        Err(ServiceError::UnknownSpace(_)) if is_default => {
            anyhow::bail!("{}", config.why_no_default());
        }
        Err(ServiceError::UnknownSpace(_)) if check_name(&name).is_ok() => {
            return Err(refuse_unknown(&service, &name).await);
        }
        space => unknown::advised(&service, async { Ok(space?) }).await?,
    };
    let to = BufWriter::with_capacity(BUFFER, Data);
    let mut out = Keys { to, json: json.then(|| name.clone()), begun: false };
    let each = |key: &[u8]| out.key(key).is_ok();
    let taken = service.take_exactly(&space, count, &caller, each).await;
    service.leave().await;
    let written = out.end();
    let taken = taken?;
    written?;
    if taken < count {
        let (taken, count) = (grouped(taken), grouped(count));
        eprintln!("keymill: the keyspace `{name}` has no more keys; took {taken} of {count}");
        return Ok(ExitCode::from(4));
    }
    Ok(ExitCode::SUCCESS)
}

/// The error for a keyspace that does not exist. If its name is a number, that was probably meant as a count.
async fn refuse_unknown(service: &Service, name: &str) -> anyhow::Error {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        let problem = format!(
            "there is no keyspace `{name}`; to take {name} keys, run `keymill take -n {name}`"
        );
        return WrongUsage(problem).into();
    }
    let create = format!("create it with `keymill space create {name}`");
    match unknown::similar(service, name).await {
        Some(similar) => anyhow::anyhow!(
            "there is no keyspace `{name}`; did you mean `{similar}`? If not, {create}"
        ),
        None => anyhow::anyhow!(
            "there is no keyspace `{name}`; {create}, or list all keyspaces with `keymill space list`"
        ),
    }
}

/// Keys on their way to standard output: one per line, or one JSON object of them all.
struct Keys {
    to: BufWriter<Data>,
    /// The keyspace, if JSON is wanted.
    json: Option<String>,
    /// Whether the JSON object has been opened.
    begun: bool,
}

impl Keys {
    fn key(&mut self, key: &[u8]) -> io::Result<()> {
        let Some(space) = &self.json else {
            self.to.write_all(key)?;
            return self.to.write_all(b"\n");
        };
        if self.begun {
            self.to.write_all(b",")?;
        } else {
            write!(self.to, "{{\"space\":{},\"keys\":[", serde_json::to_string(space)?)?;
            self.begun = true;
        }
        serde_json::to_writer(&mut self.to, &String::from_utf8_lossy(key))?;
        Ok(())
    }

    /// Writes what is buffered. An object that has been opened is closed even if the take failed, because
    /// the keys in it are taken.
    fn end(&mut self) -> io::Result<()> {
        if self.begun {
            self.to.write_all(b"]}\n")?;
        }
        self.to.flush()
    }
}
