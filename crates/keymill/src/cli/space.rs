//! `keymill space …`: making, showing, advancing and ending keyspaces.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use comfy_table::{ContentArrangement, Table, presets};

use super::args::SpaceCommand;
use super::open_service;
use crate::config::Config;
use crate::front::http::SpaceView;
use crate::service::{Service, SpaceReport};

pub(super) async fn run(config: Config, command: SpaceCommand) -> anyhow::Result<ExitCode> {
    let service = open_service(config).await?;
    match command {
        SpaceCommand::Create { name, spec, json } => {
            let ensured = service.ensure_space(&name, &(&*spec).into()).await?;
            if !ensured.made {
                eprintln!("keymill: the keyspace `{name}` was there already, just like this");
            }
            show(&service, &name, json).await?;
        }
        SpaceCommand::List { json } => list(&service, json).await?,
        SpaceCommand::Show { name, json } => show(&service, &name, json).await?,
        SpaceCommand::Advance { name, to } => {
            let before = service.report(&name).await?.record.mark.next;
            let record = service.advance(&name, to).await?;
            eprintln!(
                "keymill: `{name}` moved from ordinal {before} to {}; what lies between is never granted",
                record.mark.next
            );
        }
        SpaceCommand::Seal { name, yes } => {
            service.report(&name).await?;
            if !yes && !confirmed(&name)? {
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
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["KEYSPACE", "KIND", "SHAPE", "LEASED", "REMAINING", "EXAMPLE OF DENSITY"]);
    for report in reports {
        let shape = &report.record.definition;
        let kind = if report.record.sealed {
            format!("{} (sealed)", shape.kind)
        } else {
            shape.kind.to_string()
        };
        table.add_row([
            report.record.name.clone(),
            kind,
            format!("{}×{}", shape.alphabet, shape.length),
            report.leased.to_string(),
            report.remaining.to_string(),
            odds(report.density),
        ]);
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
    let (record, shape) = (&report.record, &report.record.definition);
    line("keyspace", record.name.clone());
    line("kind", format!("{}{}", shape.kind, if record.sealed { ", sealed" } else { "" }));
    let mut form = format!("{}×{}", shape.alphabet, shape.length);
    if !shape.prefix.is_empty() {
        form += &format!(", prefix {}", shape.prefix);
    }
    if shape.group > 0 {
        form += &format!(", groups of {}", shape.group);
    }
    if shape.check {
        form += ", check character";
    }
    line("shape", form);
    if shape.step > 1 {
        line("interleaved", format!("every {}th number from {}", shape.step, shape.offset));
    }
    line("capacity", record.capacity.to_string());
    line("leased", report.leased.to_string());
    line("remaining", report.remaining.to_string());
    line("density", odds(report.density));
    line("leased/s", format!("{:.3} on average", report.leased_rate));
    let end = report.exhausted_at.map_or("not in sight".to_owned(), |at| at.to_string());
    line("used up", end);
    line("created", record.created_at.to_string());
}

/// The chance that a guess hits, as people say it.
fn odds(density: f64) -> String {
    if density <= 0.0 {
        "no key in use".to_owned()
    } else {
        format!("1 guess in {:.0} hits", 1.0 / density)
    }
}

fn confirmed(name: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("sealing is for good; say --yes to do it without being asked");
    }
    eprint!("Seal `{name}` for good? It will hand out no more keys. [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
