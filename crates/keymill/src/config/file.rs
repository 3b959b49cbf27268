//! The settings file: which one is read, and the error if it cannot be. `settings` parses it.

use std::io;
use std::path::{Path, PathBuf};

use super::{Flags, LogFormat, WrongUsage};

/// The file to read: the one named, or else `keymill.toml` in the current folder, if it exists.
pub(crate) fn config_file(flags: &Flags) -> anyhow::Result<Option<PathBuf>> {
    let named = flags.config.clone().or_else(|| std::env::var_os("KEYMILL_CONFIG").map(Into::into));
    if let Some(path) = named {
        return Ok(Some(path));
    }
    let here = PathBuf::from("keymill.toml");
    Ok(here.is_file().then_some(here))
}

/// The format of the log. It is found even if the settings are invalid, so that their errors are
/// written in that format.
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

/// The error for a settings file that cannot be read. If a flag names one that does not exist, that is
/// wrong usage.
pub(super) fn unreadable(path: &Path, error: io::Error, flags: &Flags) -> anyhow::Error {
    let problem = format!("cannot read the settings in {}", path.display());
    if flags.config.is_some() && error.kind() == io::ErrorKind::NotFound {
        return WrongUsage(format!("--config: {problem}: {error}")).into();
    }
    anyhow::Error::new(error).context(problem)
}
