//! `keymill take`: keys, one per line.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use keymill_engine::operations::ServiceError;
use keymill_engine::space::check_name;

use super::figures::grouped;
use super::output::Data;
use super::site::refusal::unknown_space;
use super::site::{Site, Via};
use super::{WrongUsage, create_missing, unknown};

/// How many bytes of keys are buffered; they are lost if the reader is gone.
const BUFFER: usize = 1 << 14;

pub(super) async fn run(
    via: &Via,
    space: Option<String>,
    count: u64,
    caller: String,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let name = space.unwrap_or_else(|| via.default_space().to_owned());
    let site = match via.open_safe().await {
        // There may be no store yet, and it is not created for a keyspace that it would not have.
        Err(error)
            if is_count(&name) && matches!(error.downcast_ref(), Some(ServiceError::Broken(_))) =>
        {
            let problem = format!("{error}. To take {name} keys, run `keymill take -n {name}`");
            return Err(WrongUsage(problem).into());
        }
        site => site?,
    };
    if let (Via::Store(config), Site::Store(service)) = (via, &site)
        && create_missing(config, service, &name).await?
    {
        note!("keymill: created the keyspace `{name}`");
    }
    let to = BufWriter::with_capacity(BUFFER, Data);
    let mut out = Keys { to, json: json.then(|| name.clone()), begun: false, count: 0 };
    let each = |key: &[u8]| out.key(key).is_ok();
    let taken = match site.take(&name, count, &caller, each).await {
        Err(error) if unknown_space(&error).is_some() => {
            return Err(explain_unknown(via, &site, &name, error).await);
        }
        taken => taken,
    };
    site.leave().await;
    let written = out.end();
    let taken = match taken {
        Err(error) if out.count > 0 && written.is_ok() => {
            let (printed, count) = (grouped(out.count), grouped(count));
            return Err(error.context(format!("printed {printed} of {count} keys, then failed")));
        }
        taken => taken?,
    };
    written?;
    if taken < count {
        let (taken, count) = (grouped(taken), grouped(count));
        eprintln!("keymill: the keyspace `{name}` has no more keys; took {taken} of {count}");
        return Ok(ExitCode::from(4));
    }
    Ok(ExitCode::SUCCESS)
}

/// The error for a keyspace that does not exist.
async fn explain_unknown(
    via: &Via,
    site: &Site,
    name: &str,
    error: anyhow::Error,
) -> anyhow::Error {
    match via {
        Via::Store(config) if name == config.default_space => {
            anyhow::anyhow!("{}", config.why_no_default())
        }
        _ if check_name(name).is_ok() => refuse_unknown(site, name).await,
        _ => {
            let refused: anyhow::Result<()> = unknown::advised(site, async { Err(error) }).await;
            refused.err().unwrap_or_else(|| anyhow::anyhow!("there is no keyspace `{name}`"))
        }
    }
}

/// The error for a name that a keyspace could have. If it is a number, that was probably meant as a count.
async fn refuse_unknown(site: &Site, name: &str) -> anyhow::Error {
    if is_count(name) {
        let problem = format!(
            "there is no keyspace `{name}`; to take {name} keys, run `keymill take -n {name}`"
        );
        return WrongUsage(problem).into();
    }
    let create = format!("create it with `keymill space create {name}`");
    match unknown::similar(site, name).await {
        Some(similar) => anyhow::anyhow!(
            "there is no keyspace `{name}`; did you mean `{similar}`? If not, {create}"
        ),
        None => anyhow::anyhow!(
            "there is no keyspace `{name}`; {create}, or list all keyspaces with `keymill space list`"
        ),
    }
}

fn is_count(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Keys on their way to standard output: one per line, or one JSON object of them all.
struct Keys {
    to: BufWriter<Data>,
    /// The keyspace, if JSON is wanted.
    json: Option<String>,
    /// Whether the JSON object has been opened.
    begun: bool,
    /// How many there were.
    count: u64,
}

impl Keys {
    fn key(&mut self, key: &[u8]) -> io::Result<()> {
        self.count += 1;
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
