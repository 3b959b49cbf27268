//! Room on disk: whether there is enough for what will be written, before it is.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cli::figures::grouped;

/// What is left free for others, such as the store of a server on the same disk.
const SPARE: u64 = 256 << 20;

/// Something that takes room in a folder.
#[derive(Debug)]
pub(super) struct Need {
    pub(super) folder: PathBuf,
    pub(super) bytes: u64,
}

/// Refuses needs that exceed what is free. Those on one device are added up.
pub(super) fn check(needs: &[Need]) -> Result<(), String> {
    for need in needs.iter().filter(|need| need.bytes > 0) {
        let is_beside = |other: &&Need| device(&other.folder) == device(&need.folder);
        let bytes: u64 = needs.iter().filter(is_beside).map(|other| other.bytes).sum();
        let Some(free) = free(&need.folder) else { continue };
        if bytes.saturating_add(SPARE) > free {
            let [bytes, free, spare] = [bytes, free, SPARE].map(|bytes| grouped(bytes >> 20));
            return Err(format!(
                "{} has {free} MB free, but {bytes} MB of keys will be written there, and {spare} MB must stay \
                 free; name another folder with --temp-dir, or take fewer keys",
                need.folder.display()
            ));
        }
    }
    Ok(())
}

/// How many bytes a user may still write there; `None` if the system does not say.
fn free(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

fn device(folder: &Path) -> Option<u64> {
    folder.metadata().ok().map(|found| found.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_the_folder() {
        let folder = std::env::temp_dir();
        let need = |bytes| Need { folder: folder.clone(), bytes };
        assert_eq!(check(&[need(0)]), Ok(()));
        let refused = check(&[need(u64::MAX / 2)]).unwrap_err();
        assert!(refused.contains("--temp-dir") && refused.contains("MB free"), "{refused}");
        let free = free(&folder).unwrap();
        assert!(check(&[need(free / 3 * 2), need(free / 3 * 2)]).is_err(), "together, they do not");
    }
}
