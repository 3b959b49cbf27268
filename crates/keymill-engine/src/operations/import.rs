//! Imports: keys that somebody brings, one a line, as many as they like.
//!
//! The command line and HTTP give bytes as they come; memory holds one batch of lines.

use super::{Imported, Service, ServiceError};

/// The longest line.
const LINE_LEN_MAX: usize = 200;
const TOO_LONG: &str = "longer than 200 bytes";
/// How many refused lines are remembered until they are told.
const REFUSED_MAX: usize = 1_000;

/// What imported keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportInto {
    /// They are in use elsewhere: never hand them out.
    Used,
    /// Hand them out, from the pool.
    Pool,
}

/// An import under way.
#[derive(Debug)]
pub struct Import<'a> {
    service: &'a Service,
    space: &'a str,
    into: ImportInto,
    /// How many lines are taken together.
    at_once: usize,
    lines: u64,
    /// A line that has begun.
    begun: Vec<u8>,
    batch: Vec<(u64, String)>,
    /// Lines beside those of the batch that are refused whatever it comes to. They wait for it, so
    /// that all are reported in order.
    unreadable: Vec<(u64, &'static str)>,
    report: ImportReport,
}

/// What an import came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// How many keys are new.
    pub made: u64,
    /// How many were there already.
    pub known: u64,
    /// How many lines were refused.
    pub refused_count: u64,
    /// The first of them that nobody was told of yet: the number of the line, and why.
    pub refused: Vec<(u64, String)>,
}

/// The first line of a file without the byte order mark that some programs begin a file with.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
}

impl<'a> Import<'a> {
    /// Begins an import into a space, which takes so many lines together: they are sorted, and the
    /// more there are, the more of them are neighbours and written together.
    pub fn new(
        service: &'a Service,
        space: &'a str,
        into: ImportInto,
        at_once: usize,
    ) -> Import<'a> {
        Import {
            service,
            space,
            into,
            at_once,
            lines: 0,
            begun: Vec::new(),
            batch: Vec::new(),
            unreadable: Vec::new(),
            report: ImportReport::default(),
        }
    }

    /// Counts lines from this one on, for a file that comes in parts.
    #[must_use]
    pub fn starting_at(mut self, line: u64) -> Import<'a> {
        self.lines = line.saturating_sub(1);
        self
    }

    /// Takes more bytes in.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), ServiceError> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // One more than fits is enough to know that it does not.
            let room = (LINE_LEN_MAX + 2).saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
            if self.batch.len() + self.unreadable.len() >= self.at_once {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// What it came to so far. Refused lines are told once, in their order.
    pub fn tell(&mut self) -> ImportReport {
        let refused = std::mem::take(&mut self.report.refused);
        ImportReport { refused, ..self.report.clone() }
    }

    /// Takes in the last line, which need not end in a newline, and what was not imported yet.
    pub async fn finish(&mut self) -> Result<(), ServiceError> {
        if !self.begun.is_empty() {
            self.end_line();
        }
        self.flush().await
    }

    fn end_line(&mut self) {
        self.lines += 1;
        let line = std::mem::take(&mut self.begun);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = if self.lines == 1 { without_mark(line) } else { line };
        match std::str::from_utf8(line) {
            _ if line.trim_ascii().is_empty() => {}
            _ if line.len() > LINE_LEN_MAX => self.unreadable.push((self.lines, TOO_LONG)),
            Ok(key) => self.batch.push((self.lines, key.to_owned())),
            Err(_) => self.unreadable.push((self.lines, "not UTF-8 text")),
        }
    }

    async fn flush(&mut self) -> Result<(), ServiceError> {
        let (batch, unreadable) =
            (std::mem::take(&mut self.batch), std::mem::take(&mut self.unreadable));
        let (lines, keys): (Vec<u64>, Vec<String>) = batch.into_iter().unzip();
        let imported = match self.into {
            _ if keys.is_empty() => Imported::default(),
            ImportInto::Used => self.service.import_used(self.space, &keys).await?,
            ImportInto::Pool => self.service.import_pool(self.space, &keys).await?,
        };
        let Imported { made, known, refused, repeated } = imported;
        self.report.made += made;
        self.report.known += known;
        let refused = refused.into_iter().map(|(index, reason)| (lines[index], reason));
        let repeated = repeated
            .into_iter()
            .map(|(index, first)| (lines[index], format!("repeats line {}", lines[first])));
        let unreadable = unreadable.into_iter().map(|(line, reason)| (line, reason.to_owned()));
        let mut refused: Vec<(u64, String)> = refused.chain(repeated).chain(unreadable).collect();
        refused.sort_unstable();
        self.report.refused_count += refused.len() as u64;
        let room = REFUSED_MAX.saturating_sub(self.report.refused.len());
        self.report.refused.extend(refused.into_iter().take(room));
        Ok(())
    }
}
