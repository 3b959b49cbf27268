//! Replacing a file, so that a crash leaves the old one or the new one, and errors that name theirs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces a file, by way of `new_path` in the same folder. It is on disk on return, and readable by
/// its owner alone.
pub(crate) fn replace(path: &Path, new_path: &Path, text: &[u8]) -> io::Result<()> {
    let write = || {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(new_path)?;
        file.write_all(text)?;
        file.sync_all()
    };
    write().map_err(|error| named(new_path, &error))?;
    fs::rename(new_path, path).and_then(|()| sync_folder(path)).map_err(|error| named(path, &error))
}

/// Makes the name of a file as safe as its content.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// The same error, with the file that it is about.
pub(crate) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
