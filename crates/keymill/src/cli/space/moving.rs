//! `keymill space export` and `space import`: a keyspace moves to another store.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::service::{ExportCheck, Service, ServiceError};

pub(super) async fn export(
    service: &Service,
    name: &str,
    for_store: &str,
    seal: bool,
    replace_target: bool,
) -> anyhow::Result<()> {
    let record = service.report(name).await?.record;
    if !record.sealed && !seal {
        bail!(
            "`{name}` still hands out keys; pass --seal to seal it for good, so that the file knows of \
             all of them"
        );
    }
    if !record.sealed {
        service.seal(name).await?;
        eprintln!(
            "keymill: `{name}` is sealed; instances that are running may hand out keys that they hold until \
             their next heartbeat. To move what they return unused, too, stop them and export again"
        );
    }
    let progress = rows_bar();
    let mut out = BufWriter::new(io::stdout());
    let written = service.export(name, for_store, replace_target, |line| {
        progress.inc(1);
        let write = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
        write.map_err(|error| ServiceError::BadImport(format!("cannot write the export: {error}")))
    });
    let exported = written.await;
    progress.finish_and_clear();
    let exported = exported?;
    out.flush().context("cannot write the export")?;
    eprintln!("keymill: exported `{name}` with {} rows, for the store {for_store}", exported.rows);
    Ok(())
}

pub(super) async fn import(service: &Service, file: &Path) -> anyhow::Result<()> {
    // Twice: nothing is written before all of it was looked at.
    let lines = || -> anyhow::Result<_> {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(BufReader::new(opened).lines())
    };
    let mut check = ExportCheck::default();
    for line in lines()? {
        check.add(&line.context("the export cannot be read")?)?;
    }
    check.finish()?;
    let progress = rows_bar();
    let mut moved = service.import_file();
    for line in lines()? {
        let line = line.context("the export cannot be read")?;
        if let Err(error) = moved.add(&line).await {
            progress.finish_and_clear();
            return Err(error.into());
        }
        progress.set_position(moved.rows());
    }
    progress.finish_and_clear();
    let rows = moved.rows();
    let record = moved.finish()?;
    eprintln!(
        "keymill: imported `{}` with {rows} rows; it goes on at ordinal {}",
        record.name, record.mark.next
    );
    Ok(())
}

fn rows_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {pos} rows, {elapsed}");
    ProgressBar::new_spinner().with_style(style.expect("the template is right"))
}
