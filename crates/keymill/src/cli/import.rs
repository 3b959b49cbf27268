//! Keys from a file, one per line: `space import-used` and `pool import`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use keymill_engine::operations::{Import, ImportInto, Service};

use super::figures::{counted, grouped};
use super::progress;

/// How many lines are imported together: about 100 MB.
const LINES: usize = 1_000_000;

/// Imports keys and reports the lines that could not be imported, in their order, and why.
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
    let progress = progress::of_bytes(size);
    let mut listed = 0;
    let mut import = Import::new(service, space, into, LINES);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read =
            input.read(&mut buffer).with_context(|| format!("cannot read {}", file.display()))?;
        match read {
            0 => import.finish().await?,
            _ => import.push(&buffer[..read]).await?,
        }
        let report = import.tell();
        if !report.refused.is_empty() {
            listed += report.refused.len() as u64;
            progress.suspend(|| {
                for (line, reason) in &report.refused {
                    eprintln!("line {line}: {reason}");
                }
            });
        }
        progress.inc(read as u64);
        progress.set_message(format!("{} imported", grouped(report.made)));
        if read == 0 {
            progress.finish_and_clear();
            let (made, known, refused) = (report.made, report.known, report.refused_count);
            if refused > listed {
                let (one, many) =
                    ("more line, which is not listed", "more lines, which are not listed");
                eprintln!("and {}", counted(refused - listed, one, many));
            }
            note!(
                "keymill: {} imported, {} already there, {} refused",
                counted(made, "key", "keys"),
                grouped(known),
                grouped(refused)
            );
            return Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    }
}
