//! Keys from a file, one a line: `space import-used` and `pool import`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use crate::service::{Import, ImportInto, Service};

/// How many lines are taken together: some 100 MB of them.
const LINES: usize = 1_000_000;

/// Imports keys and tells which lines could not be imported, and why.
pub(super) async fn run(
    service: &Service,
    space: &str,
    file: &Path,
    into: ImportInto,
) -> anyhow::Result<ExitCode> {
    let (mut input, size): (Box<dyn Read>, u64) = if file == Path::new("-") {
        (Box::new(io::stdin().lock()), 0)
    } else {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        let size = opened.metadata().map_or(0, |metadata| metadata.len());
        (Box::new(opened), size)
    };
    let progress = bar(size);
    let mut import = Import::new(service, space, into, LINES);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = input.read(&mut buffer).context("the input cannot be read")?;
        match read {
            0 => import.finish().await?,
            _ => import.push(&buffer[..read]).await?,
        }
        let report = import.tell();
        if !report.refused.is_empty() {
            progress.suspend(|| {
                for (line, reason) in &report.refused {
                    eprintln!("line {line}: {reason}");
                }
            });
        }
        progress.inc(read as u64);
        progress.set_message(format!("{} imported", report.made));
        if read == 0 {
            progress.finish_and_clear();
            let (made, known, refused) = (report.made, report.known, report.refused_count);
            eprintln!(
                "keymill: {made} keys imported, {known} were there already, {refused} refused"
            );
            return Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
}

/// A bar for bytes that are read: without an end, where nobody knows how many there are.
fn bar(size: u64) -> ProgressBar {
    let (bar, template) = if size > 0 {
        let template = "{bar:30} {bytes} of {total_bytes}, {msg}, {eta} left";
        (ProgressBar::new(size), template)
    } else {
        (ProgressBar::new_spinner(), "{spinner} {bytes}, {msg}, {elapsed}")
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the template is right"))
}
