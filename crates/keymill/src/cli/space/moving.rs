//! `keymill space export` and `space import`: a keyspace moves to another store.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::figures::counted;
use crate::cli::output::{Data, is_quiet};
use crate::cli::site::{ImportedSpace, Site};

pub(super) async fn export(
    site: &Site,
    name: &str,
    for_store: &str,
    seal: bool,
    replace_target: bool,
) -> anyhow::Result<()> {
    let space = site.space(name).await?;
    if !space.sealed && !seal {
        bail!(
            "`{name}` still hands out keys; pass --seal to seal it for good, so that the file \
             contains all of them"
        );
    }
    if !space.sealed {
        site.seal(name).await?;
        note!(
            "keymill: `{name}` is sealed; instances that are running may hand out keys that they hold until \
             their next heartbeat. To move what they return unused, too, stop them and export again"
        );
    }
    let progress = rows_bar();
    let mut out = BufWriter::new(Data);
    let written = site.export(name, for_store, replace_target, |lines, rows| {
        progress.set_position(rows);
        // A reader that is gone is a failure here: half an export is of no use.
        out.write_all(lines).map_err(|error| anyhow::anyhow!("cannot write the export: {error}"))
    });
    let exported = written.await;
    progress.finish_and_clear();
    let rows = exported?;
    if let Err(error) = out.flush() {
        bail!("cannot write the export: {error}");
    }
    let rows = counted(rows, "row", "rows");
    note!("keymill: exported `{name}` with {rows}, for the store {for_store}");
    Ok(())
}

pub(super) async fn import(site: &Site, file: &Path) -> anyhow::Result<()> {
    let progress = rows_bar();
    let bar = progress.clone();
    let imported = site.import_space(file, move |rows| bar.set_position(rows)).await;
    progress.finish_and_clear();
    let ImportedSpace { space, rows, next } = imported?;
    let rows = counted(rows, "row", "rows");
    note!("keymill: imported `{space}` with {rows}; it continues at ordinal {next}");
    Ok(())
}

fn rows_bar() -> ProgressBar {
    if is_quiet() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} rows, {elapsed}");
    ProgressBar::new_spinner().with_style(style.expect("the template is right"))
}
