//! Runs: sorted records in files that vanish with the process.
//!
//! A buffer that is full becomes a run; `merge` reads runs side by side.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::marker::PhantomData;
use std::path::Path;

use super::record::{KEY_LEN_MAX, Record};

/// How many bytes are written at once.
const WRITE_BUFFER: usize = 1 << 20;

/// Sorted records in a file.
#[derive(Debug)]
pub(super) struct Run {
    file: File,
    pub(super) records: u64,
}

/// A run that is being written.
pub(super) struct RunWriter {
    to: BufWriter<File>,
    key_len: usize,
    records: u64,
}

/// A run that is being read.
pub(super) struct RunReader<R> {
    from: BufReader<File>,
    key_len: usize,
    left: u64,
    record: PhantomData<R>,
}

impl Run {
    /// Writes sorted records.
    pub(super) fn write<R: Record>(folder: &Path, key_len: usize, sorted: &[R]) -> io::Result<Run> {
        let mut writer = RunWriter::new(folder, key_len)?;
        for record in sorted {
            writer.push(*record)?;
        }
        writer.finish()
    }

    pub(super) fn read<R: Record>(
        mut self,
        key_len: usize,
        buffer: usize,
    ) -> io::Result<RunReader<R>> {
        self.file.rewind()?;
        let from = BufReader::with_capacity(buffer, self.file);
        Ok(RunReader { from, key_len, left: self.records, record: PhantomData })
    }
}

impl RunWriter {
    pub(super) fn new(folder: &Path, key_len: usize) -> io::Result<RunWriter> {
        // It has no name, so nothing of it is left, however this process ends.
        let file = tempfile::tempfile_in(folder)?;
        Ok(RunWriter { to: BufWriter::with_capacity(WRITE_BUFFER, file), key_len, records: 0 })
    }

    /// Adds a record, which is not lower than those before it.
    #[inline]
    pub(super) fn push<R: Record>(&mut self, record: R) -> io::Result<()> {
        let mut key = [0; KEY_LEN_MAX];
        let key = &mut key[..self.key_len];
        record.unpack(key);
        self.records += 1;
        self.to.write_all(key)
    }

    pub(super) fn finish(self) -> io::Result<Run> {
        let file = self.to.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Run { file, records: self.records })
    }
}

impl<R: Record> RunReader<R> {
    /// The next record; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Option<R>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut key = [0; KEY_LEN_MAX];
        let key = &mut key[..self.key_len];
        self.from.read_exact(key)?;
        Ok(Some(R::pack(key)))
    }
}
