//! The format of a floor log: one line of text for each append, and where the log lies.
//!
//! `tail` reads lines, `appender` writes them. Nothing here touches a file.
//!
//! ```text
//! {"floors":1,"lines":1} ac5901d7
//! {"store":"s1","floors":{"links":{"revision":7,"next":500}}} 9fa21e32
//! {"store":"s1","floors":{"links":{"revision":8,"next":900},"orders":{"revision":1,"next":0}}} 3d7ad25e
//! ```
//!
//! Each line is JSON, a space, and the first eight hex digits of the JSON's SHA-256. The first one
//! is the header. It counts the lines behind it that were synced before the log got its name: one
//! that is damaged among those cannot be an append that was cut short.
//!
//! # Invariants
//!
//! - An append is one line, written only once the one before it was synced. So a damaged line is
//!   either the last one, which nobody has relied on, or it is damage to what was safe.
//! - For one space, a later line holds no less than an earlier one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::store::Mark;

/// The format that this program writes, and the latest that it reads.
const FORMAT: u32 = 1;
/// How many hex digits of a checksum are written.
const CHECKSUM_LEN: usize = 8;

/// The marks of spaces, by store.
pub(crate) type FileContent = BTreeMap<String, BTreeMap<String, Mark>>;

/// The files that belong together, by the name that they share.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// The log.
    pub(crate) log: PathBuf,
    /// What the log is replaced by, while it is written.
    pub(crate) log_new: PathBuf,
    /// What earlier versions keep instead of a log.
    pub(crate) old: PathBuf,
    /// What replaces that.
    pub(crate) old_new: PathBuf,
    /// The lock under which any of them is written.
    pub(crate) lock: PathBuf,
}

/// One append: floors of one store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record<S: Ord> {
    /// The store that they are of.
    pub(crate) store: S,
    /// How far its spaces have come.
    pub(crate) floors: BTreeMap<S, Mark>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    floors: u32,
    lines: u64,
}

impl Paths {
    /// The files beside `path`, whose extension does not matter.
    pub(crate) fn of(path: &Path) -> Paths {
        Paths {
            log: path.with_extension("log"),
            log_new: path.with_extension("log.new"),
            old: path.with_extension("json"),
            old_new: path.with_extension("new"),
            lock: path.with_extension("lock"),
        }
    }
}

/// An append as it is written.
pub(crate) fn record(store: &str, floors: &[(&str, Mark)]) -> String {
    line(&Record { store, floors: floors.iter().copied().collect() })
}

/// What was appended; `None` where the line is damaged or not complete. An empty line says nothing:
/// whoever has to give up a damaged one can empty it.
pub(crate) fn parse_record(line: &[u8]) -> Option<Record<String>> {
    if line == b"\n" {
        return Some(Record { store: String::new(), floors: BTreeMap::new() });
    }
    serde_json::from_slice(checked(line)?).ok()
}

/// A whole log with this content, a line for each space.
pub(crate) fn compacted(content: &FileContent) -> String {
    let spaces = content.iter().flat_map(|(store, spaces)| {
        spaces.iter().map(move |(space, mark)| record(store, &[(space.as_str(), *mark)]))
    });
    let lines: Vec<String> = spaces.collect();
    let header = Header { floors: FORMAT, lines: lines.len() as u64 };
    line(&header) + &lines.concat()
}

/// How many of the lines behind the header were written together with it; or what is wrong with it.
pub(crate) fn parse_header(line: &[u8]) -> Result<u64, String> {
    let header = checked(line).and_then(|json| serde_json::from_slice::<Header>(json).ok());
    match header {
        Some(Header { floors: FORMAT, lines }) => Ok(lines),
        Some(Header { floors, .. }) => Err(format!(
            "has the format {floors}, but this version of keymill reads only {FORMAT}; use a later \
             version"
        )),
        None => Err("not a floor file: its first line is damaged or was not written by keymill. \
                     Restore it from a copy; or, if you are sure that the store was not rolled \
                     back, remove it"
            .to_owned()),
    }
}

fn line(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("text, numbers and maps by text become JSON");
    let checksum = checksum(json.as_bytes());
    format!("{json} {checksum}\n")
}

/// The JSON of a line that is complete and undamaged.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let text = line.strip_suffix(b"\n")?;
    let json_len = text.len().checked_sub(CHECKSUM_LEN + 1)?;
    let (json, end) = text.split_at(json_len);
    let written = end.strip_prefix(b" ")?;
    (written == checksum(json).as_bytes()).then_some(json)
}

fn checksum(json: &[u8]) -> String {
    hex::encode(&Sha256::digest(json)[..CHECKSUM_LEN / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(revision: u64, next: u64) -> Mark {
        Mark { revision, next, ..Mark::default() }
    }

    #[test]
    fn a_line_is_text_that_people_and_other_programs_can_check() {
        let line = record("s1", &[("links", mark(7, 500))]);
        let json = r#"{"store":"s1","floors":{"links":{"revision":7,"next":500}}}"#;
        // What `printf %s "$json" | sha256sum` says.
        assert_eq!(line, format!("{json} 9fa21e32\n"));
        let read = parse_record(line.as_bytes()).unwrap();
        assert_eq!((read.store.as_str(), read.floors["links"]), ("s1", mark(7, 500)));
    }

    #[test]
    fn a_line_with_any_byte_changed_or_missing_is_not_read() {
        let line = record("s1", &[("links", mark(7, 500))]).into_bytes();
        for at in 0..line.len() {
            let mut changed = line.clone();
            changed[at] ^= 0x01;
            assert!(parse_record(&changed).is_none(), "byte {at}");
            assert!(parse_record(&line[..at]).is_none(), "cut at {at}");
        }
        assert!(parse_record(b"\n").unwrap().floors.is_empty());
    }

    #[test]
    fn a_header_of_a_later_format_says_so() {
        let later = line(&Header { floors: 2, lines: 0 });
        assert!(parse_header(later.as_bytes()).unwrap_err().contains("later version"));
        assert_eq!(parse_header(compacted(&FileContent::new()).as_bytes()), Ok(0));
    }
}
