//! `keymill audit export`: every used key, in order, as a stream.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use keymill_engine::operations::Service;
use keymill_engine::space::{Audit, Kind};
use keymill_engine::store::{UsedKey, UsedPage};

use super::args::{AuditCommand, ExportFormat};
use super::output::{Data, is_quiet};
use super::{open_service, unknown};
use crate::config::Config;
use crate::front::http::UsedView;

/// How many keys are read at once.
const PAGE: u32 = 10_000;

pub(super) async fn run(config: Config, command: AuditCommand) -> anyhow::Result<ExitCode> {
    let AuditCommand::Export { space, from, to, caller, format } = command;
    let service = open_service(&config, true).await?;
    unknown::advised(&service, tell_of_no_record(&service, &space)).await?;
    let mut out = BufWriter::with_capacity(1 << 16, Data);
    let mut page = UsedPage { space, from, to, caller, after: None, limit: PAGE };
    let progress = if is_quiet() || io::stdout().is_terminal() {
        ProgressBar::hidden()
    } else {
        let style = ProgressStyle::with_template("{spinner} {human_pos} keys, {per_sec}");
        ProgressBar::new_spinner().with_style(style.expect("the template is right"))
    };
    if format == ExportFormat::Csv {
        writeln!(out, "key,used_at,caller,instance,expires_at,retired_at")?;
    }
    loop {
        let used = service.used(&page).await?;
        page.after = used.last().map(|last| (last.used_at, last.id));
        let count = used.len();
        for used in used {
            match format {
                ExportFormat::Ndjson => {
                    let line = serde_json::to_string(&UsedView::from(used))?;
                    out.write_all(line.as_bytes())?;
                }
                ExportFormat::Csv => write_csv(&mut out, &used)?,
            }
            out.write_all(b"\n")?;
        }
        progress.inc(count as u64);
        if count < PAGE as usize {
            progress.finish_and_clear();
            out.flush()?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Says so where single keys are not recorded: an empty export would look like no use at all.
async fn tell_of_no_record(service: &Service, space: &str) -> anyhow::Result<()> {
    let record = service.report(space).await?.record;
    match record.definition.kind {
        Kind::Pooled => {}
        kind @ (Kind::Uuid | Kind::Digest) => {
            note!("keymill: a keyspace of kind {kind} has no log of used keys");
        }
        _ if record.tuning.audit == Audit::Batch => note!(
            "keymill: `{space}` has audit `batch`, which records leases and no single keys; `keymill \
             space set {space} --audit key` records every key from then on"
        ),
        _ => {}
    }
    Ok(())
}

fn write_csv(out: &mut impl Write, used: &UsedKey) -> io::Result<()> {
    let time =
        |time: Option<jiff::Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
    write!(
        out,
        "{},{},{},{},{},{}",
        quoted(&used.key),
        used.used_at,
        quoted(&used.caller),
        quoted(&used.instance),
        time(used.expires_at),
        time(used.retired_at)
    )
}

/// A field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_that_need_it_are_quoted() {
        assert_eq!(super::quoted("plain"), "plain");
        assert_eq!(super::quoted("a,b"), "\"a,b\"");
        assert_eq!(super::quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
    }
}
