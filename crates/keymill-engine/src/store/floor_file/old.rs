//! The floor file of earlier versions: all floors as one JSON text, replaced whole at every raise.
//!
//! It is read for as long as it is there, because a data directory may come from such a version, or
//! be shared with one. It is written again when the log is compacted and at a clean stop, and only
//! where there is one already: so an earlier version that is started on the directory again knows
//! what this one has seen, and a directory that never met one pays nothing.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::durable::{named, replace};
use super::log::{FileContent, Paths};

/// The content of a file that is open.
pub(crate) fn parse(path: &Path, mut file: &File) -> io::Result<FileContent> {
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| named(path, &error))?;
    serde_json::from_str(&text).map_err(|error| {
        let problem = format!(
            "not a floor file: {error}. Restore it from a copy; or, if you are sure that the store \
             was not rolled back, remove it"
        );
        named(path, &io::Error::new(io::ErrorKind::InvalidData, problem))
    })
}

/// Brings the file up to date, where there is one. The caller holds the lock.
pub(crate) fn update(paths: &Paths, content: &FileContent) -> io::Result<()> {
    let known = match File::open(&paths.old) {
        Ok(file) => parse(&paths.old, &file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(named(&paths.old, &error)),
    };
    if known == *content {
        return Ok(());
    }
    let text = serde_json::to_vec_pretty(content).map_err(io::Error::other)?;
    replace(&paths.old, &paths.old_new, &text)
}
