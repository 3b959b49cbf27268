//! `keymill space export` and `space import`: a keyspace moves to another store.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use keymill_engine::operations::{ExportCheck, Service, ServiceError};

use crate::cli::figures::counted;
use crate::cli::output::{Data, is_quiet};

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
            "`{name}` still hands out keys; pass --seal to seal it for good, so that the file \
             contains all of them"
        );
    }
    if !record.sealed {
        service.seal(name).await?;
        note!(
            "keymill: `{name}` is sealed; instances that are running may hand out keys that they hold until \
             their next heartbeat. To move what they return unused, too, stop them and export again"
        );
    }
    let progress = rows_bar();
    let mut out = BufWriter::new(Data);
    let written = service.export(name, for_store, replace_target, |line| {
        progress.inc(1);
        let write = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
        write.map_err(|error| ServiceError::BadImport(format!("cannot write the export: {error}")))
    });
    let exported = written.await;
    progress.finish_and_clear();
    let exported = exported?;
    // A reader that is gone is a failure here: half an export is of no use.
    if let Err(error) = out.flush() {
        bail!("cannot write the export: {error}");
    }
    let rows = counted(exported.rows, "row", "rows");
    note!("keymill: exported `{name}` with {rows}, for the store {for_store}");
    Ok(())
}

pub(super) async fn import(service: &Service, file: &Path) -> anyhow::Result<()> {
    // The file is read twice: it is checked as a whole before anything is written.
    let lines = || -> anyhow::Result<_> {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(BufReader::new(opened).lines())
    };
    let mut check = ExportCheck::default();
    for line in lines()? {
        check.add(&line.context("cannot read the export")?)?;
    }
    check.finish()?;
    let progress = rows_bar();
    let mut moved = service.import_file();
    for line in lines()? {
        let line = line.context("cannot read the export")?;
        if let Err(error) = moved.add(&line).await {
            progress.finish_and_clear();
            return Err(error.into());
        }
        progress.set_position(moved.rows());
    }
    progress.finish_and_clear();
    let rows = counted(moved.rows(), "row", "rows");
    let record = moved.finish()?;
    note!(
        "keymill: imported `{}` with {rows}; it continues at ordinal {}",
        record.name,
        record.mark.next
    );
    Ok(())
}

fn rows_bar() -> ProgressBar {
    if is_quiet() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} rows, {elapsed}");
    ProgressBar::new_spinner().with_style(style.expect("the template is right"))
}
