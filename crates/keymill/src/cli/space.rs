//! `keymill space …`: making, showing, growing, advancing and ending keyspaces.

mod advance;
mod moving;

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::args::SpaceCommand;
use super::open_service;
use crate::config::Config;
use crate::front::http::SpaceView;
use crate::service::{AdvanceAsk, ImportInto, Service, SpaceReport};
use crate::space::{Definition, Kind};

pub(super) async fn run(config: Config, command: SpaceCommand) -> anyhow::Result<ExitCode> {
    let service = open_service(&config, true).await?;
    match command {
        SpaceCommand::Create { name, spec, json } => {
            let ensured = service.ensure_space(&name, &spec).await?;
            if ensured.tuned {
                let seconds = service.limits().heartbeat_every.as_secs_f64();
                eprintln!(
                    "keymill: the settings of `{name}` are changed; running instances follow within \
                     {seconds} s"
                );
            } else if !ensured.made {
                eprintln!("keymill: the keyspace `{name}` already exists with the same settings");
            }
            show(&service, &name, json).await?;
        }
        SpaceCommand::List { json } => list(&service, json).await?,
        SpaceCommand::Show { name, json } => show(&service, &name, json).await?,
        SpaceCommand::Grow { name, length } => {
            let before = service.report(&name).await?.record.capacity;
            let grown = service.grow(&name, length).await?;
            let after = grown.capacity;
            if grown.definition.kind == Kind::Digest {
                eprintln!(
                    "keymill: new inputs of `{name}` get keys of length {length} from now on; known inputs \
                     keep their keys"
                );
                return Ok(ExitCode::SUCCESS);
            }
            eprintln!(
                "keymill: `{name}` has {after} keys instead of {before}; from ordinal {before} on their length is {length}"
            );
        }
        SpaceCommand::Advance { name, to, beyond_keys, ignore_longer, inputs_again, yes } => {
            let ask = AdvanceAsk { to, inputs_again, ignore_longer, beyond: None };
            advance::run(&service, &name, ask, beyond_keys.as_deref(), yes).await?;
        }
        SpaceCommand::Export { name, for_store, seal, replace_target } => {
            moving::export(&service, &name, &for_store, seal, replace_target).await?;
        }
        SpaceCommand::Import { file } => moving::import(&service, &file).await?,
        SpaceCommand::ImportUsed { name, file } => {
            return super::import::run(&service, &name, &file, ImportInto::Used).await;
        }
        SpaceCommand::Bounds { name, from, to, json } => {
            let Some(bounds) = service.bounds(&name, from, to).await? else {
                bail!("there is no key of `{name}` from {from} to {to}");
            };
            if json {
                println!("{}", serde_json::to_string_pretty(&bounds)?);
            } else {
                println!("first  {}\nlast   {}", bounds.first, bounds.last);
            }
        }
        SpaceCommand::Seal { name, yes } => {
            service.report(&name).await?;
            let question = format!("Seal `{name}` for good? It will hand out no more keys.");
            if !yes && !confirmed(&question)? {
                bail!("not sealed");
            }
            service.seal(&name).await?;
            eprintln!("keymill: `{name}` is sealed; it hands out no more keys");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(service: &Service, json: bool) -> anyhow::Result<()> {
    let reports = service.reports().await?;
    if json {
        let views: Vec<SpaceView> = reports.into_iter().map(SpaceView::from).collect();
        println!("{}", serde_json::to_string_pretty(&views)?);
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["KEYSPACE", "KIND", "SHAPE", "LEASED", "REMAINING", "GUESS HITS"]);
    for report in reports {
        let definition = &report.record.definition;
        let sealed = if report.record.sealed { " (sealed)" } else { "" };
        let counts = definition.kind.counts();
        let counted = |number: u64| if counts { number.to_string() } else { "-".to_owned() };
        table.add_row([
            report.record.name.clone(),
            format!("{}{sealed}", definition.kind),
            shape(definition),
            counted(report.leased),
            counted(report.remaining),
            odds(&report),
        ]);
    }
    for column in [3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
    Ok(())
}

async fn show(service: &Service, name: &str, json: bool) -> anyhow::Result<()> {
    let report = service.report(name).await?;
    if json {
        println!("{}", serde_json::to_string_pretty(&SpaceView::from(report))?);
    } else {
        print(&report);
    }
    Ok(())
}

fn print(report: &SpaceReport) {
    let line = |name: &str, value: String| println!("{name:<12} {value}");
    let (record, definition) = (&report.record, &report.record.definition);
    line("keyspace", record.name.clone());
    line("kind", format!("{}{}", definition.kind, if record.sealed { ", sealed" } else { "" }));
    line("shape", shape(definition));
    if let Some(runs_out_at) = report.runs_out_at {
        print_snowflake(report, runs_out_at);
        return;
    }
    if definition.kind == Kind::Uuid {
        line("created", record.created_at.to_string());
        return;
    }
    if definition.step > 1 {
        let Definition { step, offset, .. } = definition;
        line("interleaved", format!("numbers {offset}, {}, …", offset + step));
    }
    line("capacity", record.capacity.to_string());
    line("leased", report.leased.to_string());
    line("remaining", report.remaining.to_string());
    if report.named > 0 {
        line("named", format!("{} aliases, keys in use and digests", report.named));
    }
    if let Some(available) = report.available {
        line("in the pool", available.to_string());
    }
    line("next", format!("ordinal {}", record.mark.next));
    line("guessing", odds(report));
    line("rate", format!("{:.3} leased a second, on average", report.leased_rate));
    line(
        "used up",
        match report.exhausted_at {
            _ if record.sealed => "sealed: hands out no more keys".to_owned(),
            _ if report.remaining == 0 => "already".to_owned(),
            Some(at) => format!("about {}, at this rate", date(at)),
            None => "not in sight".to_owned(),
        },
    );
    line("created", record.created_at.to_string());
}

/// What there is to say of a space whose keys are made of the time.
fn print_snowflake(report: &SpaceReport, runs_out_at: jiff::Timestamp) {
    let line = |name: &str, value: String| println!("{name:<12} {value}");
    let (record, definition) = (&report.record, &report.record.definition);
    if let Ok(Some(timeline)) = definition.timeline() {
        let layout = timeline.layout;
        let workers = layout.workers();
        let second = layout.sequences().saturating_mul(1_000) / u64::from(layout.unit_ms);
        line("layout", format!("{layout}, {} bits", layout.bits()));
        line("workers", format!("{workers}, each with up to {second} IDs a second"));
        line("epoch", timeline.time_of(0).to_string());
        let held = timeline.time_of(record.mark.next).to_string();
        line("held until", if record.mark.next == 0 { "not yet".to_owned() } else { held });
        let soon = if timeline.ends_soon(jiff::Timestamp::now()) { ", SOON" } else { "" };
        line("runs out", format!("{}{soon}", date(runs_out_at)));
    }
    line("guessing", odds(report));
    line("created", record.created_at.to_string());
}

/// How keys are written, in a few words.
fn shape(definition: &Definition) -> String {
    let Definition { alphabet, length, prefix, group, check, grown, .. } = definition;
    if let Some(version) = definition.uuid_version {
        return format!("version {version}");
    }
    let mut shape = match length {
        0 => format!("{alphabet} integers"),
        _ => format!("{alphabet}×{length}"),
    };
    for length in grown {
        shape += &format!(", then ×{length}");
    }
    if !prefix.is_empty() {
        shape += &format!(", prefix {prefix}");
    }
    if *group > 0 {
        shape += &format!(", groups of {group}");
    }
    if *check {
        shape += ", check character";
    }
    shape
}

/// The chance that a guess hits, as people say it.
fn odds(report: &SpaceReport) -> String {
    match report.record.definition.kind {
        Kind::Sequential => "always: keys are in order".to_owned(),
        Kind::Snowflake => "often: keys are in the order of time".to_owned(),
        Kind::Uuid => "never".to_owned(),
        Kind::Shuffled | Kind::Pooled | Kind::Digest if report.density == 0.0 => {
            "never: no key in use".to_owned()
        }
        Kind::Shuffled | Kind::Pooled | Kind::Digest => format!("1 in {:.0}", 1.0 / report.density),
    }
}

/// A day: a forecast is no better than that.
fn date(at: jiff::Timestamp) -> String {
    at.to_string().chars().take("2026-01-01".len()).collect()
}

/// Asks for what cannot be undone.
fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("this cannot be undone; pass --yes to confirm");
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
