//! Keys from a file, one per line: `space import-used` and `pool import`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use bytes::Bytes;
use keymill_engine::operations::ImportInto;
use tokio::sync::mpsc::{self, Receiver};

use super::figures::{counted, grouped};
use super::progress;
use super::site::{ImportProgress, Site};

/// How many bytes are read at once.
const CHUNK: usize = 1 << 16;
/// How many chunks are read ahead.
const CHUNKS_MAX: usize = 4;

/// A file that keys are read from, or standard input.
pub(super) struct Input {
    from: Box<dyn Read + Send>,
    /// For errors.
    name: String,
    /// How many bytes it has; 0 if that is unknown.
    size: u64,
}

impl Input {
    /// Opens a file; `-` is standard input.
    pub(super) fn open(file: &Path) -> anyhow::Result<Input> {
        let name = file.display().to_string();
        if file == Path::new("-") {
            return Ok(Input { from: Box::new(io::stdin()), name, size: 0 });
        }
        let opened = File::open(file).with_context(|| format!("cannot read {name}"))?;
        let size = opened.metadata().map_or(0, |metadata| metadata.len());
        Ok(Input { from: Box::new(opened), name, size })
    }

    /// Reads some bytes; none at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> anyhow::Result<usize> {
        loop {
            match self.from.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.with_context(|| format!("cannot read {}", self.name)),
            }
        }
    }

    /// What it has, as it is read, on a thread of its own; `each` is shown what is read.
    pub(super) fn into_chunks(
        mut self,
        mut each: impl FnMut(&[u8]) + Send + 'static,
    ) -> Receiver<io::Result<Bytes>> {
        let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
        tokio::task::spawn_blocking(move || {
            let mut buffer = vec![0; CHUNK];
            loop {
                let chunk = match self.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(read) => {
                        each(&buffer[..read]);
                        Ok(Bytes::copy_from_slice(&buffer[..read]))
                    }
                    Err(error) => Err(io::Error::other(format!("{error:#}"))),
                };
                let is_last = chunk.is_err();
                if sender.blocking_send(chunk).is_err() || is_last {
                    return;
                }
            }
        });
        receiver
    }

    /// A file with this in it.
    #[cfg(test)]
    pub(super) fn of(bytes: Vec<u8>) -> Input {
        let size = bytes.len() as u64;
        Input { from: Box::new(io::Cursor::new(bytes)), name: "test".to_owned(), size }
    }
}

/// Imports keys and reports the lines that could not be imported, in their order, and why.
pub(super) async fn run(
    site: &Site,
    space: &str,
    file: &Path,
    into: ImportInto,
) -> anyhow::Result<ExitCode> {
    let mut input = Input::open(file)?;
    let progress = progress::of_bytes(input.size);
    let (mut listed, mut last) = (0, (0, 0, 0));
    let imported = site.import(space, into, &mut input, |so_far: &ImportProgress| {
        if !so_far.refused.is_empty() {
            listed += so_far.refused.len() as u64;
            progress.suspend(|| {
                for (line, reason) in &so_far.refused {
                    eprintln!("line {line}: {reason}");
                }
            });
        }
        progress.inc(so_far.read);
        progress.set_message(format!("{} imported", grouped(so_far.made)));
        last = (so_far.made, so_far.known, so_far.refused_count);
    });
    imported.await?;
    progress.finish_and_clear();
    let (made, known, refused) = last;
    if refused > listed {
        let (one, many) = ("more line, which is not listed", "more lines, which are not listed");
        eprintln!("and {}", counted(refused - listed, one, many));
    }
    note!(
        "keymill: {} imported, {} already there, {} refused",
        counted(made, "key", "keys"),
        grouped(known),
        grouped(refused)
    );
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
