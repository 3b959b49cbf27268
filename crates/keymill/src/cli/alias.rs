//! `keymill alias …` and `keymill space import-used`: keys that are names.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use super::args::AliasCommand;
use super::{check_safety, open_service};
use crate::config::Config;
use crate::service::{Imported, Service};

/// How many lines are read before they are imported.
const LINES: usize = 10_000;

pub(super) async fn run(config: Config, command: AliasCommand) -> anyhow::Result<ExitCode> {
    let service = open_service(&config, config.allow_unsafe_store).await?;
    check_safety(service.store(), config.allow_unsafe_store).await?;
    match command {
        AliasCommand::Add { space, alias, owner } => {
            if !service.add_alias(&space, &alias, &owner).await? {
                eprintln!("keymill: `{alias}` was taken by the same owner already");
            }
            println!("{alias}");
        }
        AliasCommand::Remove { space, alias, owner } => {
            service.remove_alias(&space, &alias, &owner).await?;
            eprintln!("keymill: `{alias}` is removed; it is not handed out all the same");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Imports keys that are in use, one a line; tells which could not be, by line.
pub(super) async fn import_used(
    service: &Service,
    space: &str,
    file: &Path,
) -> anyhow::Result<ExitCode> {
    let input: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        Box::new(BufReader::with_capacity(1 << 16, opened))
    };
    let progress = ProgressBar::new_spinner().with_style(
        ProgressStyle::with_template("{spinner} {human_pos} keys, {per_sec}, {elapsed}")
            .expect("the template is right"),
    );
    let mut total = Imported::default();
    let mut refused = 0_u64;
    let mut batch: Vec<(u64, String)> = Vec::new();
    let mut lines = input.split(b'\n').enumerate();
    loop {
        let line = lines.next();
        if let Some((number, line)) = &line {
            let number = *number as u64 + 1;
            let line = line.as_ref().map_err(|error| anyhow::anyhow!("line {number}: {error}"))?;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match std::str::from_utf8(line) {
                Ok("") => refuse(&mut refused, number, "it is empty"),
                Ok(key) if key.len() > 200 => refuse(&mut refused, number, "it is too long"),
                Ok(key) => batch.push((number, key.to_owned())),
                Err(_) => refuse(&mut refused, number, "it is not UTF-8"),
            }
        }
        if batch.len() >= LINES || line.is_none() {
            let keys: Vec<String> = batch.iter().map(|(_, key)| key.clone()).collect();
            let imported = service.import_used(space, &keys).await?;
            total.made += imported.made;
            total.known += imported.known;
            progress.suspend(|| {
                for (place, problem) in &imported.refused {
                    refuse(&mut refused, batch[*place].0, problem);
                }
            });
            progress.inc(batch.len() as u64);
            batch.clear();
        }
        if line.is_none() {
            break;
        }
    }
    progress.finish_and_clear();
    eprintln!(
        "keymill: {} keys imported, {} were there already, {refused} refused",
        total.made, total.known
    );
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn refuse(count: &mut u64, line: u64, problem: &str) {
    *count += 1;
    eprintln!("line {line}: {problem}");
}
