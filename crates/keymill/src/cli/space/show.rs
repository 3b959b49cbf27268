//! Keyspaces as people see them: the list, one keyspace with its settings and usage, and its line in
//! the greeting of `serve`. Programs read JSON.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use jiff::Timestamp;
use keymill_engine::operations::{Service, SpaceRecord, SpaceReport};
use keymill_engine::space::{Audit, Definition, Kind, Tuning};

use super::set::applies;
use crate::cli::figures::{grouped, rounded};
use crate::front::http::SpaceView;

pub(super) async fn list(service: &Service, json: bool) -> anyhow::Result<()> {
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
        let counted = |number: u64| if counts { grouped(number) } else { "-".to_owned() };
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

pub(super) async fn run(service: &Service, name: &str, json: bool) -> anyhow::Result<()> {
    let report = service.report(name).await?;
    if json {
        println!("{}", serde_json::to_string_pretty(&SpaceView::from(report))?);
        return Ok(());
    }
    print_usage(&report);
    print_definition(&report.record);
    print_settings(&report.record);
    Ok(())
}

/// A keyspace in a line, for the greeting of a server.
pub(in crate::cli) fn in_words(record: &SpaceRecord) -> String {
    let definition = &record.definition;
    let Definition { kind, layout, .. } = definition;
    let shape = match layout {
        Some(layout) => format!("{}, layout {layout}", shape(definition)),
        None => shape(definition),
    };
    let leased = match kind {
        // Their keys are not leased by number.
        Kind::Snowflake | Kind::Uuid | Kind::Digest => String::new(),
        Kind::Shuffled | Kind::Sequential | Kind::Pooled => {
            let (leased, capacity) = (grouped(record.leased()), grouped(record.capacity));
            format!(", {leased} of {capacity} keys leased")
        }
    };
    format!("{}: {kind} {shape}{leased}", record.name)
}

fn line(name: &str, value: &str) {
    println!("{name:<12} {value}");
}

fn print_usage(report: &SpaceReport) {
    let (record, definition) = (&report.record, &report.record.definition);
    line("keyspace", &record.name);
    line("kind", &format!("{}{}", definition.kind, if record.sealed { ", sealed" } else { "" }));
    line("shape", &shape(definition));
    if let Some(runs_out_at) = report.runs_out_at {
        print_snowflake(report, runs_out_at);
    } else if definition.kind != Kind::Uuid {
        print_counts(report);
    }
    line("created", &record.created_at.to_string());
}

fn print_counts(report: &SpaceReport) {
    let record = &report.record;
    let Definition { step, offset, .. } = &record.definition;
    if *step > 1 {
        line("interleaved", &format!("numbers {offset}, {}, …", offset + step));
    }
    line("capacity", &grouped(record.capacity));
    line("leased", &grouped(report.leased));
    line("remaining", &grouped(report.remaining));
    if report.named > 0 {
        let what = "aliases, keys in use and digests together";
        line("named", &format!("{} ({what})", grouped(report.named)));
    }
    if let Some(available) = report.available {
        line("in the pool", &grouped(available));
    }
    // Without separators, because it is typed again in `--to` and `--start`.
    line("next", &format!("ordinal {}", record.mark.next));
    line("guessing", &odds(report));
    line("rate", &format!("{:.3} keys leased per second, on average", report.leased_rate));
    let used_up = match report.exhausted_at {
        _ if record.sealed => "sealed; hands out no more keys".to_owned(),
        _ if report.remaining == 0 => "now: no keys remain".to_owned(),
        Some(at) => format!("about {}, at this rate", date(at)),
        None => "not foreseeable".to_owned(),
    };
    line("used up", &used_up);
}

/// The usage of a snowflake keyspace.
fn print_snowflake(report: &SpaceReport, runs_out_at: Timestamp) {
    let (record, definition) = (&report.record, &report.record.definition);
    if let Ok(Some(timeline)) = definition.timeline() {
        let layout = timeline.layout;
        let workers = grouped(layout.workers());
        let second = layout.sequences().saturating_mul(1_000) / u64::from(layout.unit_ms);
        line("layout", &format!("{layout}, {} bits", layout.bits()));
        line("workers", &format!("{workers}, each with up to {} IDs per second", grouped(second)));
        line("epoch", &timeline.time_of(0).to_string());
        let held = timeline.time_of(record.mark.next).to_string();
        line(
            "held until",
            if record.mark.next == 0 { "no worker held yet" } else { held.as_str() },
        );
        let soon = if timeline.ends_soon(Timestamp::now()) { ", which is SOON" } else { "" };
        line("timestamps", &format!("end on {}{soon}", date(runs_out_at)));
    }
    line("guessing", &odds(report));
}

/// The settings of `space create` that cannot change.
fn print_definition(record: &SpaceRecord) {
    println!("\nKey format, permanent:");
    let line = |name: &str, value: &str| println!("  {name:<16} {value}");
    let definition = &record.definition;
    if let Some(version) = definition.uuid_version {
        line("uuid_version", &version.to_string());
        return;
    }
    line("alphabet", &definition.alphabet);
    let lengths = std::iter::once(&definition.length).chain(&definition.grown);
    let lengths: Vec<String> = lengths.map(ToString::to_string).collect();
    let plain = if definition.length == 0 { " (plain integers)" } else { "" };
    line("length", &format!("{}{plain}", lengths.join(", then ")));
    let prefix = definition.prefix.as_str();
    line("prefix", if prefix.is_empty() { "none" } else { prefix });
    line("group", &definition.group.to_string());
    line("check", &definition.check.to_string());
    line("step", &definition.step.to_string());
    line("offset", &definition.offset.to_string());
    if definition.kind == Kind::Digest {
        line("normalize", &definition.normalize.to_string());
    }
    if let Some(layout) = &definition.layout {
        line("layout", layout);
    }
    if let Some(epoch) = definition.epoch {
        line("epoch", &epoch.to_string());
    }
    if let Some(fingerprint) = &record.fingerprint {
        line("fingerprint", &format!("{fingerprint} (of the secret)"));
    }
}

/// The settings that `space set` changes, without those that do not apply to the kind.
fn print_settings(record: &SpaceRecord) {
    let Tuning { lease_size_min, lease_size_max, horizon_seconds, .. } = record.tuning;
    let Tuning { low_water, ttl_seconds, reserve_seconds, window_seconds, .. } = record.tuning;
    let audit = match record.tuning.audit {
        Audit::Batch => "batch",
        Audit::Key => "key",
    };
    let kind = record.definition.kind;
    let has_audit = !matches!(kind, Kind::Uuid | Kind::Digest);
    let settings = [
        ("audit", audit.to_owned()),
        ("blocklist", record.tuning.blocklist.to_string()),
        ("horizon_seconds", grouped(horizon_seconds)),
        ("lease_size_min", grouped(lease_size_min)),
        ("lease_size_max", grouped(lease_size_max)),
        ("low_water", grouped(low_water)),
        ("ttl_seconds", grouped(ttl_seconds)),
        ("reserve_seconds", grouped(reserve_seconds)),
        ("window_seconds", grouped(window_seconds)),
    ];
    let shown = |name: &str| if name == "audit" { has_audit } else { applies(name, kind) };
    if !settings.iter().any(|(name, _)| shown(name)) {
        return;
    }
    println!("\nSettings, changed with `keymill space set {}`:", record.name);
    for (name, value) in settings {
        if shown(name) {
            println!("  {name:<16} {value}");
        }
    }
}

/// The format of keys, in a few words.
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

/// The chance that a guess hits a key in use, in words.
fn odds(report: &SpaceReport) -> String {
    match report.record.definition.kind {
        Kind::Sequential => "always: keys are in order".to_owned(),
        Kind::Snowflake => "often: keys are ordered by time".to_owned(),
        Kind::Uuid => "never".to_owned(),
        Kind::Shuffled | Kind::Pooled | Kind::Digest if report.density == 0.0 => {
            "never: no key is in use".to_owned()
        }
        Kind::Shuffled | Kind::Pooled | Kind::Digest => {
            format!("1 in {}", rounded(1.0 / report.density))
        }
    }
}

/// The date: a forecast is no more precise than a day.
fn date(at: Timestamp) -> String {
    at.to_string().chars().take("2026-01-01".len()).collect()
}
