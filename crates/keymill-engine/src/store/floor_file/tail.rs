//! Following a floor log: each look reads only what was written since the last one.
//!
//! `Floors` follows its logs this way, and SQLite the one beside its database, inside its
//! transaction. A look takes no lock, and costs two `stat` calls when nothing was written.
//!
//! # Invariants
//!
//! - The position is always behind a complete record: one that another process is just writing, or
//!   that it left unfinished, is looked at again.
//! - The file that was read stays open, so that no other file can get its inode meanwhile.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::durable::named;
use super::log::{FileContent, Paths, parse_header, parse_record};
use super::old;
use crate::store::Mark;

/// How often damage is looked at before it is believed, and how long to wait in between: whoever
/// cuts off an unfinished record and writes another one there may be seen half-way.
const LOOKS: u32 = 5;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(2);

/// Device and inode.
pub(crate) type FileId = (u64, u64);

/// What a look finds.
pub(crate) enum Event<'a> {
    /// The log was replaced, or is gone: what it holds is told from the start.
    Anew,
    /// A floor.
    Floor {
        /// The store that it is of.
        store: &'a str,
        /// The space, or the token list.
        space: &'a str,
        /// How far it has come.
        mark: Mark,
        /// Whether the log holds it, or only the file of an earlier version.
        in_log: bool,
    },
}

/// A floor log, and how far it was read.
#[derive(Debug)]
pub(crate) struct Tail {
    paths: Paths,
    log: Option<OpenLog>,
    old: Option<OpenOld>,
}

#[derive(Debug)]
struct OpenLog {
    file: File,
    id: FileId,
    /// Where the last complete record ends.
    offset: u64,
    /// How many lines end there, the header included.
    lines: u64,
    /// How many lines the last compaction wrote, the header included, and their size.
    compacted_lines: u64,
    compacted_size: u64,
}

#[derive(Debug)]
struct OpenOld {
    _file: File,
    version: OldVersion,
}

/// Device, inode, size and time of change. It is replaced whole; a person may write it in place.
type OldVersion = (FileId, u64, (i64, i64));

impl Tail {
    /// Nothing is read before the first look.
    pub(crate) fn new(paths: Paths) -> Tail {
        Tail { paths, log: None, old: None }
    }

    /// The files.
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The log that was read, and where its last complete record ends; `None` where there is none.
    pub(crate) fn end(&self) -> Option<(FileId, u64)> {
        self.log.as_ref().map(|log| (log.id, log.offset))
    }

    /// The size that the log had after its last compaction.
    pub(crate) fn compacted_size(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.compacted_size)
    }

    /// Tells what was written since the last look.
    pub(crate) fn follow(&mut self, each: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        self.follow_old(each)?;
        for _ in 1..LOOKS {
            match self.follow_log(each) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    std::thread::sleep(LOOK_AGAIN_AFTER);
                }
                done => return done,
            }
        }
        self.follow_log(each)
    }

    fn follow_log(&mut self, each: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        let path = &self.paths.log;
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.log.take().is_some() {
                    each(Event::Anew);
                }
                return Ok(());
            }
            Err(error) => return Err(named(path, &error)),
        };
        if !found.is_file() {
            let problem = "is not a regular file, so keymill cannot write to it; remove it";
            return Err(named(path, &io::Error::new(io::ErrorKind::InvalidInput, problem)));
        }
        let known = self.log.take();
        let known = known.filter(|log| log.id == id(&found) && log.offset <= found.len());
        let log = match known {
            Some(log) => self.log.insert(log),
            None => {
                each(Event::Anew);
                match OpenLog::open(&self.paths) {
                    Ok(log) => self.log.insert(log),
                    // Removed this very moment.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    Err(error) => return Err(named(path, &error)),
                }
            }
        };
        if log.offset == found.len() && log.lines >= log.compacted_lines {
            return Ok(());
        }
        log.read(each).map_err(|error| named(path, &error))
    }

    fn follow_old(&mut self, each: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        let path = &self.paths.old;
        let found = match fs::metadata(path) {
            Ok(found) => version(&found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.old = None;
                return Ok(());
            }
            Err(error) => return Err(named(path, &error)),
        };
        if self.old.as_ref().is_some_and(|old| old.version == found) {
            return Ok(());
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(named(path, &error)),
        };
        // Taken before it is read, so that a later change is noticed.
        let version = version(&file.metadata().map_err(|error| named(path, &error))?);
        for (store, spaces) in old::parse(path, &file)? {
            for (space, mark) in spaces {
                each(Event::Floor { store: &store, space: &space, mark, in_log: false });
            }
        }
        self.old = Some(OpenOld { _file: file, version });
        Ok(())
    }
}

impl OpenLog {
    /// Opens the log and reads its header.
    fn open(paths: &Paths) -> io::Result<OpenLog> {
        let file = File::open(&paths.log)?;
        let id = id(&file.metadata()?);
        let mut header = Vec::new();
        BufReader::new(&file).read_until(b'\n', &mut header)?;
        let lines = parse_header(&header).map_err(damage)?;
        let offset = header.len() as u64;
        let compacted_lines = lines.saturating_add(1);
        Ok(OpenLog { file, id, offset, lines: 1, compacted_lines, compacted_size: offset })
    }

    /// Reads complete records from the position on, and moves it behind them.
    fn read(&mut self, each: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        let mut reader = BufReader::new(&self.file);
        reader.seek(SeekFrom::Start(self.offset))?;
        let mut line = Vec::new();
        let mut is_damaged = false;
        while reader.read_until(b'\n', &mut line)? > 0 {
            match parse_record(&line) {
                // What follows a damaged line was appended later, so the line was safe once.
                Some(_) if is_damaged => return Err(self.damaged_line()),
                Some(record) => {
                    self.offset += line.len() as u64;
                    self.lines += 1;
                    if self.lines <= self.compacted_lines {
                        self.compacted_size = self.offset;
                    }
                    for (space, mark) in record.floors {
                        each(Event::Floor {
                            store: &record.store,
                            space: &space,
                            mark,
                            in_log: true,
                        });
                    }
                }
                None => is_damaged = true,
            }
            line.clear();
        }
        if self.lines < self.compacted_lines { Err(self.damaged_line()) } else { Ok(()) }
    }

    fn damaged_line(&self) -> io::Error {
        let line = self.lines + 1;
        damage(format!(
            "line {line} is damaged or missing, so keymill cannot tell how far the store had got. \
             Restore the file from a copy; or, if you are sure that the store was not rolled back, \
             stop every instance and empty that line"
        ))
    }
}

/// All that the files hold. The caller holds the lock.
pub(crate) fn content(paths: &Paths) -> io::Result<FileContent> {
    let mut content = FileContent::new();
    Tail::new(paths.clone()).follow(&mut |event| {
        if let Event::Floor { store, space, mark, .. } = event {
            let spaces = content.entry(store.to_owned()).or_default();
            let known = spaces.entry(space.to_owned()).or_default();
            *known = known.max(mark);
        }
    })?;
    Ok(content)
}

/// Which file it is.
pub(crate) fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

fn version(metadata: &Metadata) -> OldVersion {
    (id(metadata), metadata.len(), (metadata.mtime(), metadata.mtime_nsec()))
}

fn damage(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}
