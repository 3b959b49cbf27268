//! How commands write: data to standard output, everything else to standard error.
//!
//! Every file of `cli` prints with the macros below. They shadow those of `std`, which panic when the
//! reader is gone or the disk is full. Here the first failure of standard output is kept, nothing
//! more is written, and [`end`] turns it into the exit code. A reader that has ended, such as `head`,
//! is not a failure; a full disk is. Nothing here ends the process.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes data.
macro_rules! print {
    ($($text:tt)*) => { $crate::cli::output::data(format_args!($($text)*)) };
}

/// Writes a line of data.
macro_rules! println {
    ($($text:tt)*) => { $crate::cli::output::data_line(format_args!($($text)*)) };
}

/// Writes to standard error, such as a question, without ending the line.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::cli::output::message(&format!($($text)*)) };
}

/// Writes a line to standard error that `--quiet` keeps: an error, or what comes before a question.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::cli::output::message(&(format!($($text)*) + "\n")) };
}

/// Writes a line to standard error that `--quiet` leaves out.
macro_rules! note {
    ($($text:tt)*) => { $crate::cli::output::note(format_args!($($text)*)) };
}

/// Why standard output cannot be written to, once it has failed.
static FAILURE: OnceLock<io::Error> = OnceLock::new();
static QUIET: AtomicBool = AtomicBool::new(false);

/// Standard output for many small writes: put a `BufWriter` around it.
pub(super) struct Data;

impl Write for Data {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_open()?;
        keep(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        check_open()?;
        keep(io::stdout().flush())
    }
}

pub(super) fn data(text: fmt::Arguments<'_>) {
    // A failure is kept, and reported by `end`.
    let _ = Data.write_fmt(text);
}

pub(super) fn data_line(text: fmt::Arguments<'_>) {
    data(format_args!("{text}\n"));
}

pub(super) fn message(text: &str) {
    // A failure here cannot be reported anywhere.
    let _ = io::stderr().write_all(text.as_bytes());
}

pub(super) fn note(text: fmt::Arguments<'_>) {
    if !is_quiet() {
        message(&format!("{text}\n"));
    }
}

/// Leaves out notes and progress bars from now on.
pub(super) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether notes and progress bars are left out.
pub(super) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether it makes sense to write more data.
pub(super) fn is_open() -> bool {
    FAILURE.get().is_none()
}

/// Whether an error only says that standard output failed, which [`end`] reports. Stores wrap the errors
/// of their connections, so a bare closed pipe is always that of the output.
pub(super) fn caused(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe || !is_open())
}

/// Flushes standard output. Returns the exit code: the command's own, unless its data is lost.
pub(super) fn end(code: ExitCode) -> ExitCode {
    let _ = Data.flush();
    match FAILURE.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("keymill: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// Prints the parser's output: help, the version, or what is wrong with the arguments.
pub(super) fn end_parsing(told: &clap::Error) -> ExitCode {
    let shown = told.print();
    if told.use_stderr() {
        return ExitCode::from(2);
    }
    let _ = keep(shown);
    end(ExitCode::SUCCESS)
}

fn check_open() -> io::Result<()> {
    FAILURE.get().map_or(Ok(()), |error| Err(error.kind().into()))
}

/// Keeps the first failure. An interrupted write is not one, because it is tried again.
fn keep<T>(written: io::Result<T>) -> io::Result<T> {
    written.map_err(|error| {
        let kind = error.kind();
        if kind != ErrorKind::Interrupted {
            let _ = FAILURE.set(error);
        }
        kind.into()
    })
}
