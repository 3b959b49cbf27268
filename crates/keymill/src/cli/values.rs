//! Values of arguments: how each is parsed, and the error if it cannot be.
//!
//! The arguments of the commands use these as their parsers.

use keymill_engine::operations::check_caller;

use crate::front::time;

/// Reads a number of keys.
pub(super) fn count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("must be a whole number, 1 or more".to_owned()),
    }
}

/// Reads the caller that keys are for.
pub(super) fn caller(text: &str) -> Result<String, String> {
    match check_caller(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the caller whose keys are listed.
pub(super) fn wanted_caller(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("must not be empty; leave it out for the keys of all callers".to_owned());
    }
    caller(text)
}

/// Reads the beginning or the end of a period.
pub(super) fn time(text: &str) -> Result<jiff::Timestamp, String> {
    time::read_bound(text).ok_or_else(|| format!("must be {}", time::TIME))
}
