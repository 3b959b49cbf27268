//! `keymill audit export`: every used key, in order, as a stream.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use keymill_engine::space::{Audit, Kind};

use super::output::{Data, is_quiet};
use super::site::{Site, UsedAsk, Via};
use super::{unknown, values};
use crate::front::http::UsedView;

/// How many bytes are written at once.
const BUFFER: usize = 1 << 16;
/// The columns of CSV.
const COLUMNS: [&str; 6] = ["key", "used_at", "caller", "instance", "expires_at", "retired_at"];

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// List used keys by time: those of pools, and of keyspaces with audit `key`
    #[command(
        after_help = "A keyspace with audit `batch` does not record single keys; `keymill space set SPACE --audit key`\nrecords them from then on.\n\nExamples:\n  keymill audit export links > used.ndjson\n  keymill audit export links --format csv --from 2026-01-01T00:00:00Z --caller shop"
    )]
    Export {
        /// The keyspace
        space: String,
        /// Used at this time or later
        #[arg(long, value_name = "TIME", value_parser = values::time)]
        from: Option<Timestamp>,
        /// Used before this time
        #[arg(long, value_name = "TIME", value_parser = values::time)]
        to: Option<Timestamp>,
        /// Handed out to this caller
        #[arg(long, value_parser = values::wanted_caller)]
        caller: Option<String>,
        /// One JSON object per line, or comma-separated values
        #[arg(long, value_enum, default_value_t = ExportFormat::Ndjson)]
        format: ExportFormat,
    },
}

/// How used keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ExportFormat {
    /// One JSON object per line.
    Ndjson,
    /// Comma-separated values (RFC 4180), with a header.
    Csv,
}

/// Where used keys are written to, and how.
enum Out<W: Write> {
    Ndjson(BufWriter<W>),
    Csv(Box<csv::Writer<W>>),
}

pub(super) async fn run(via: &Via, command: AuditCommand) -> anyhow::Result<ExitCode> {
    let AuditCommand::Export { space, from, to, caller, format } = command;
    let site = via.open().await?;
    unknown::advised(&site, tell_of_no_record(&site, &space)).await?;
    let mut out = Out::new(format, Data)?;
    let progress = if is_quiet() || io::stdout().is_terminal() {
        ProgressBar::hidden()
    } else {
        let style = ProgressStyle::with_template("{spinner} {human_pos} keys, {per_sec}");
        ProgressBar::new_spinner().with_style(style.expect("the template is right"))
    };
    let each = |used: Vec<UsedView>| {
        progress.inc(used.len() as u64);
        Ok(used.into_iter().try_for_each(|used| out.write(used))?)
    };
    site.used(UsedAsk { space, from, to, caller }, each).await?;
    progress.finish_and_clear();
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Says so if single keys are not recorded, because an empty export would look as if no key was used.
async fn tell_of_no_record(site: &Site, space: &str) -> anyhow::Result<()> {
    let view = site.space(space).await?;
    match view.definition.kind {
        Kind::Pooled => {}
        kind @ (Kind::Uuid | Kind::Digest) => {
            note!("keymill: a keyspace of kind {kind} has no log of used keys");
        }
        _ if view.tuning.audit == Audit::Batch => note!(
            "keymill: `{space}` has audit `batch`, which records leases but not single keys; `keymill \
             space set {space} --audit key` records every key from then on"
        ),
        _ => {}
    }
    Ok(())
}

impl<W: Write> Out<W> {
    fn new(format: ExportFormat, to: W) -> io::Result<Out<W>> {
        if format == ExportFormat::Ndjson {
            return Ok(Out::Ndjson(BufWriter::with_capacity(BUFFER, to)));
        }
        let mut rows = csv::WriterBuilder::new().buffer_capacity(BUFFER).from_writer(to);
        rows.write_record(COLUMNS).map_err(io_error)?;
        Ok(Out::Csv(Box::new(rows)))
    }

    fn write(&mut self, used: UsedView) -> io::Result<()> {
        match self {
            Out::Ndjson(out) => {
                serde_json::to_writer(&mut *out, &used)?;
                out.write_all(b"\n")
            }
            Out::Csv(rows) => {
                let text =
                    |time: Option<Timestamp>| time.map(|it| it.to_string()).unwrap_or_default();
                let UsedView { key, used_at, caller, instance, expires_at, retired_at } = used;
                let (used_at, expires_at) = (used_at.to_string(), text(expires_at));
                let row = [key, used_at, caller, instance, expires_at, text(retired_at)];
                rows.write_record(row).map_err(io_error)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Ndjson(out) => out.flush(),
            Out::Csv(rows) => rows.flush(),
        }
    }
}

/// The error of the output behind an error of the CSV writer, so that a closed pipe is recognized.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_header_and_quotes_the_fields_that_need_it() {
        let used = |key: &str, caller: &str, expires_at| UsedView {
            key: key.to_owned(),
            used_at: Timestamp::UNIX_EPOCH,
            caller: caller.to_owned(),
            instance: "i".to_owned(),
            expires_at,
            retired_at: None,
        };
        let mut text = Vec::new();
        let mut out = Out::new(ExportFormat::Csv, &mut text).unwrap();
        out.write(used("plain", "", None)).unwrap();
        out.write(used("a,b", "say \"hi\"\nnow", Some(Timestamp::UNIX_EPOCH))).unwrap();
        out.flush().unwrap();
        drop(out);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "key,used_at,caller,instance,expires_at,retired_at\n\
             plain,1970-01-01T00:00:00Z,,i,,\n\
             \"a,b\",1970-01-01T00:00:00Z,\"say \"\"hi\"\"\nnow\",i,1970-01-01T00:00:00Z,\n"
        );
    }

    #[test]
    fn a_closed_pipe_is_known_as_one_behind_rows_of_csv() {
        let error = csv::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(io_error(error).kind(), io::ErrorKind::BrokenPipe);
    }
}
