//! Writing a floor log: appends, and the compaction that replaces it.
//!
//! Only the `writer` thread has one of these, and calls it under the log's lock.
//!
//! # Invariants
//!
//! - What [`Appender::append`] has returned from is on disk, in the file that the path names.
//! - Nothing is written behind an unfinished record: it is cut off first.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::time::Duration;

use super::durable::{named, replace, sync_folder};
use super::lock::FileLock;
use super::log::{Paths, compacted};
use super::old;
use super::tail::{FileId, content, id};

/// A floor log that is open for appending.
#[derive(Debug)]
pub(crate) struct Appender {
    paths: Paths,
    open: Option<(File, FileId)>,
    has_written: bool,
}

impl Appender {
    /// Nothing is opened yet.
    pub(crate) fn new(paths: Paths) -> Appender {
        Appender { paths, open: None, has_written: false }
    }

    /// The files.
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Writes a line to the log `id` behind its last complete record, which ends at `end`, and
    /// syncs it. If that fails, the log is as it was.
    pub(crate) fn append(&mut self, id: FileId, end: u64, line: &str) -> io::Result<()> {
        self.has_written = true;
        let path = self.paths.log.clone();
        self.with_log(id, |mut file| {
            if file.metadata()?.len() > end {
                let path = path.display();
                tracing::warn!("{path}: cut off an unfinished record that a crash left at the end");
                file.set_len(end)?;
            }
            let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
            if written.is_err() {
                // Nobody was told that it is there; so it had better not be.
                let _ = file.set_len(end);
            }
            written
        })
    }

    /// Syncs what others have appended to the log `id`.
    pub(crate) fn sync(&mut self, id: FileId) -> io::Result<()> {
        self.with_log(id, File::sync_data)
    }

    /// Replaces the log by one that holds each floor once, or makes the first one. What an earlier
    /// version keeps beside it goes into the log, and learns what the log holds.
    pub(crate) fn compact(&mut self) -> io::Result<()> {
        let content = content(&self.paths)?;
        replace(&self.paths.log, &self.paths.log_new, compacted(&content).as_bytes())?;
        old::update(&self.paths, &content)
    }

    /// Leaves what was raised to an earlier version, where one was here before. It is not worth
    /// waiting for.
    pub(crate) fn close(&mut self) {
        if !self.has_written || !self.paths.old.exists() {
            return;
        }
        let updated = FileLock::take(&self.paths.lock, Duration::ZERO)
            .and_then(|_lock| old::update(&self.paths, &content(&self.paths)?));
        if let Err(error) = updated {
            tracing::warn!(
                "could not update the floor file of earlier versions of keymill: {error}"
            );
        }
    }

    /// Does something with the log, if the path still names it. After a failure it is opened anew.
    fn with_log(
        &mut self,
        wanted: FileId,
        job: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let open = match self.open.take() {
            Some(open) if open.1 == wanted => Ok(open),
            _ => self.open_log(wanted),
        };
        let (file, id) = open.map_err(|error| named(&self.paths.log, &error))?;
        job(&file).map_err(|error| named(&self.paths.log, &error))?;
        self.open = Some((file, id));
        Ok(())
    }

    fn open_log(&self, wanted: FileId) -> io::Result<(File, FileId)> {
        let file = OpenOptions::new().append(true).open(&self.paths.log)?;
        let found = id(&file.metadata()?);
        if found != wanted {
            return Err(io::Error::other("was replaced by a process that did not hold its lock"));
        }
        // Whoever put it there may have ended before its name was safe.
        sync_folder(&self.paths.log)?;
        Ok((file, found))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::log::record;
    use super::super::tail::Tail;
    use super::*;
    use crate::store::Mark;

    struct Case {
        _folder: tempfile::TempDir,
        appender: Appender,
        tail: Tail,
    }

    impl Case {
        fn new() -> Case {
            let folder = tempfile::tempdir().unwrap();
            let paths = Paths::of(&folder.path().join("floors.json"));
            let mut appender = Appender::new(paths.clone());
            appender.compact().unwrap();
            Case { _folder: folder, appender, tail: Tail::new(paths) }
        }

        /// Appends a floor where the log ends now.
        fn append(&mut self, space: &str, revision: u64) -> io::Result<()> {
            self.tail.follow(&mut |_| {})?;
            let (id, end) = self.tail.end().unwrap();
            let mark = Mark { revision, ..Mark::default() };
            self.appender.append(id, end, &record("s1", &[(space, mark)]))
        }

        fn revision(&self, space: &str) -> u64 {
            content(self.appender.paths()).unwrap()["s1"][space].revision
        }
    }

    #[test]
    fn a_full_disk_fails_the_append_and_the_next_one_starts_anew() {
        let mut case = Case::new();
        case.append("a", 1).unwrap();
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let id = case.tail.end().unwrap().0;
        case.appender.open = Some((full, id));
        let error = case.append("a", 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("floors.log"), "{error}");
        assert_eq!(case.revision("a"), 1);
        case.append("a", 3).unwrap();
        assert_eq!(case.revision("a"), 3);
    }

    #[test]
    fn an_unfinished_record_is_cut_off_before_the_next_one() {
        let mut case = Case::new();
        case.append("a", 1).unwrap();
        let log = case.appender.paths().log.clone();
        let whole = fs::read_to_string(&log).unwrap();
        // Killed while it wrote; and a page that was lost with the power.
        for torn in [&record("s1", &[("b", Mark::default())])[..20], "\0\0\0\0\0\0\n"] {
            fs::write(&log, format!("{whole}{torn}")).unwrap();
            assert_eq!(case.revision("a"), 1);
            case.append("a", 2).unwrap();
            let text = fs::read_to_string(&log).unwrap();
            assert!(text.starts_with(&whole) && !text.contains('\0'), "{text}");
            assert_eq!((case.revision("a"), text.lines().count()), (2, 3));
        }
    }

    #[test]
    fn a_log_that_was_replaced_is_not_appended_to() {
        let mut case = Case::new();
        case.append("a", 1).unwrap();
        let (before, _) = case.tail.end().unwrap();
        // Another process compacts.
        Appender::new(case.appender.paths().clone()).compact().unwrap();
        case.append("a", 2).unwrap();
        assert_ne!(case.tail.end().unwrap().0, before);
        assert_eq!(case.revision("a"), 2);
        assert!(case.appender.append(before, 0, "lost\n").is_err());
        assert_eq!(case.revision("a"), 2);
    }

    #[test]
    fn files_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let case = Case::new();
        drop(FileLock::take(&case.appender.paths().lock, Duration::ZERO).unwrap());
        for path in [&case.appender.paths().log, &case.appender.paths().lock] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    }
}
