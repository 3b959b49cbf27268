//! The settings file: which one it is, and what is said where it cannot be read. What is in it, `settings` reads.

use std::io;
use std::path::{Path, PathBuf};

use super::{Flags, LogFormat, WrongUsage};

/// The file to read: the one named, else `keymill.toml` here, if there is one.
pub(crate) fn config_file(flags: &Flags) -> anyhow::Result<Option<PathBuf>> {
    let named = flags.config.clone().or_else(|| std::env::var_os("KEYMILL_CONFIG").map(Into::into));
    if let Some(path) = named {
        return Ok(Some(path));
    }
    let here = PathBuf::from("keymill.toml");
    Ok(here.is_file().then_some(here))
}

/// How the log is to be written, also where the settings as a whole cannot be used: then their errors
/// are written in the same way.
pub(crate) fn log_format(flags: &Flags) -> LogFormat {
    let is_json = match std::env::var("KEYMILL_LOG_FORMAT") {
        Ok(format) => format == "json",
        Err(_) => {
            let text = config_file(flags).ok().flatten().map(std::fs::read_to_string);
            let table = text.and_then(|text| text.ok()?.parse::<toml::Table>().ok());
            let format = table.as_ref().and_then(|table| table.get("log")?.get("format")?.as_str());
            format == Some("json")
        }
    };
    if is_json { LogFormat::Json } else { LogFormat::Text }
}

/// What to say of a settings file that cannot be read. One that a flag names and that does not exist is
/// wrong usage.
pub(super) fn unreadable(path: &Path, error: io::Error, flags: &Flags) -> anyhow::Error {
    let problem = format!("cannot read the settings in {}", path.display());
    if flags.config.is_some() && error.kind() == io::ErrorKind::NotFound {
        return WrongUsage(format!("--config: {problem}: {error}")).into();
    }
    anyhow::Error::new(error).context(problem)
}
