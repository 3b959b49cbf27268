//! Moving a keyspace: its file is written, and imported.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail};
use keymill_client::raw::Method;
use keymill_engine::operations::{ExportCheck, Service};

use super::{Server, Site};
use crate::cli::import::Input;
use crate::front::http::views::{ExportAsk, MovedView, NDJSON};

/// A keyspace that was imported.
#[derive(Debug)]
pub(in crate::cli) struct ImportedSpace {
    pub(in crate::cli) space: String,
    pub(in crate::cli) rows: u64,
    /// The ordinal at which it continues.
    pub(in crate::cli) next: u64,
}

impl Site {
    /// Writes a sealed keyspace for another store; `each` is given some lines, and how many rows were written so far.
    /// Returns how many there are.
    pub(in crate::cli) async fn export(
        &self,
        name: &str,
        for_store: &str,
        replace_target: bool,
        mut each: impl FnMut(&[u8], u64) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let service = match self {
            Site::Store(service) => service,
            Site::Server(server) => {
                let for_store = for_store.to_owned();
                let ask = ExportAsk { for_store, replace_target };
                return server.export(name, &ask, each).await;
            }
        };
        let mut file = service.export_file(name, for_store, replace_target).await?;
        while let Some(lines) = file.lines().await? {
            each(lines.as_bytes(), file.rows())?;
        }
        Ok(file.rows())
    }

    /// Imports the file of a keyspace, which was checked; `each` hears how many rows were imported so far.
    pub(in crate::cli) async fn import_space(
        &self,
        file: &Path,
        mut each: impl FnMut(u64) + Send + 'static,
    ) -> anyhow::Result<ImportedSpace> {
        check(file)?;
        match self {
            Site::Store(service) => import_here(service, file, each).await,
            Site::Server(server) => {
                // The first line is not a row.
                let (mut lines, is_end) = (0_u64, |byte: &&u8| **byte == b'\n');
                let chunks = Input::open(file)?.into_chunks(move |bytes| {
                    lines += bytes.iter().filter(is_end).count() as u64;
                    each(lines.saturating_sub(1));
                });
                let ask = server.ask(Method::POST, "/v1/import").stream(NDJSON, chunks);
                let MovedView { space, rows, next } = ask.read().await?;
                Ok(ImportedSpace { space, rows, next: next.get() })
            }
        }
    }
}

/// Checks a file as a whole before anything of it is written: rows of a damaged one would stay.
fn check(file: &Path) -> anyhow::Result<()> {
    let mut check = ExportCheck::default();
    for line in lines(file)? {
        check.add(&line?)?;
    }
    check.finish()?;
    Ok(())
}

async fn import_here(
    service: &Service,
    file: &Path,
    mut each: impl FnMut(u64),
) -> anyhow::Result<ImportedSpace> {
    let mut moved = service.import_file();
    for line in lines(file)? {
        moved.add(&line?).await?;
        each(moved.rows());
    }
    let rows = moved.rows();
    let record = moved.finish()?;
    Ok(ImportedSpace { space: record.name, rows, next: record.mark.next })
}

fn lines(file: &Path) -> anyhow::Result<impl Iterator<Item = anyhow::Result<String>>> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(BufReader::new(opened).lines().map(|line| line.context("cannot read the export")))
}

impl Server {
    /// Lines are checked as they come: an answer that breaks off, or that a proxy has changed, is of no use.
    async fn export(
        &self,
        name: &str,
        ask: &ExportAsk,
        mut each: impl FnMut(&[u8], u64) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let export = self.ask_in(name, Method::POST, "/export").json(ask).repeatable();
        let mut answer = export.send().await?;
        let (mut check, mut begun, mut lines) = (ExportCheck::default(), Vec::new(), 0_u64);
        while let Some(chunk) =
            answer.chunk().await.map_err(|error| self.refused(error, Some(name)))?
        {
            for part in chunk.split_inclusive(|byte| *byte == b'\n') {
                begun.extend_from_slice(part);
                if let Some(line) = begun.strip_suffix(b"\n") {
                    check
                        .add(std::str::from_utf8(line).context("the export is not UTF-8 text")?)?;
                    lines += 1;
                    begun.clear();
                }
            }
            // The first line is not a row.
            each(&chunk, lines.saturating_sub(1))?;
        }
        if !begun.is_empty() {
            bail!("the server's answer broke off; run the same command again");
        }
        Ok(check.finish()?)
    }
}
