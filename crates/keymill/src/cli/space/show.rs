//! Keyspaces as people see them: the list, one keyspace with its settings and usage, and its line in
//! the greeting of `serve`. Programs read JSON.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use jiff::Timestamp;
use keymill_engine::operations::SpaceRecord;
use keymill_engine::space::{Audit, Definition, Kind, Tuning};

use crate::cli::figures::{grouped, rounded};
use crate::front::http::SpaceView;
use crate::front::space_settings::applies;

pub(super) fn list(spaces: &[SpaceView], json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(spaces)?);
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["KEYSPACE", "KIND", "SHAPE", "LEASED", "REMAINING", "GUESS HITS"]);
    for space in spaces {
        let definition = &space.definition;
        let sealed = if space.sealed { " (sealed)" } else { "" };
        let counts = definition.kind.counts();
        let counted = |number: u64| if counts { grouped(number) } else { "-".to_owned() };
        table.add_row([
            space.name.clone(),
            format!("{}{sealed}", definition.kind),
            shape(definition),
            counted(space.leased.get()),
            counted(space.remaining.get()),
            odds(space),
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

pub(super) fn show(space: &SpaceView, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(space)?);
        return Ok(());
    }
    print_usage(space);
    print_definition(space);
    print_settings(space);
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

fn print_usage(space: &SpaceView) {
    let definition = &space.definition;
    line("keyspace", &space.name);
    line("kind", &format!("{}{}", definition.kind, if space.sealed { ", sealed" } else { "" }));
    line("shape", &shape(definition));
    if let Some(runs_out_at) = space.runs_out_at {
        print_snowflake(space, runs_out_at);
    } else if definition.kind != Kind::Uuid {
        print_counts(space);
    }
    line("created", &space.created_at.to_string());
}

fn print_counts(space: &SpaceView) {
    let Definition { step, offset, .. } = &space.definition;
    if *step > 1 {
        line("interleaved", &format!("numbers {offset}, {}, …", offset + step));
    }
    line("capacity", &grouped(space.capacity.get()));
    line("leased", &grouped(space.leased.get()));
    line("remaining", &grouped(space.remaining.get()));
    if space.named.get() > 0 {
        let what = "aliases, keys in use and digests together";
        line("named", &format!("{} ({what})", grouped(space.named.get())));
    }
    if let Some(available) = space.available {
        line("in the pool", &grouped(available.get()));
    }
    // Without separators, because it is typed again in `--to` and `--start`.
    line("next", &format!("ordinal {}", space.next.get()));
    line("guessing", &odds(space));
    line("rate", &format!("{:.3} keys leased per second, on average", space.leased_rate));
    let used_up = match space.exhausted_at {
        _ if space.sealed => "sealed; hands out no more keys".to_owned(),
        _ if space.remaining.get() == 0 => "now: no keys remain".to_owned(),
        Some(at) => format!("about {}, at this rate", date(at)),
        None => "not foreseeable".to_owned(),
    };
    line("used up", &used_up);
}

/// The usage of a snowflake keyspace.
fn print_snowflake(space: &SpaceView, runs_out_at: Timestamp) {
    if let Ok(Some(timeline)) = space.definition.timeline() {
        let layout = timeline.layout;
        let workers = grouped(layout.workers());
        let second = layout.sequences().saturating_mul(1_000) / u64::from(layout.unit_ms);
        line("layout", &format!("{layout}, {} bits", layout.bits()));
        line("workers", &format!("{workers}, each with up to {} IDs per second", grouped(second)));
        line("epoch", &timeline.time_of(0).to_string());
        let next = space.next.get();
        let held = timeline.time_of(next).to_string();
        line("held until", if next == 0 { "no worker held yet" } else { held.as_str() });
        let soon = if timeline.ends_soon(Timestamp::now()) { ", which is SOON" } else { "" };
        line("timestamps", &format!("end on {}{soon}", date(runs_out_at)));
    }
    line("guessing", &odds(space));
}

/// The settings of `space create` that cannot change.
fn print_definition(space: &SpaceView) {
    println!("\nKey format, permanent:");
    let line = |name: &str, value: &str| println!("  {name:<16} {value}");
    let definition = &space.definition;
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
    if let Some(fingerprint) = &space.fingerprint {
        line("fingerprint", &format!("{fingerprint} (of the secret)"));
    }
}

/// The settings that `space set` changes, without those that do not apply to the kind.
fn print_settings(space: &SpaceView) {
    let Tuning { lease_size_min, lease_size_max, horizon_seconds, .. } = space.tuning;
    let Tuning { low_water, ttl_seconds, reserve_seconds, window_seconds, .. } = space.tuning;
    let audit = match space.tuning.audit {
        Audit::Batch => "batch",
        Audit::Key => "key",
    };
    let kind = space.definition.kind;
    let has_audit = !matches!(kind, Kind::Uuid | Kind::Digest);
    let settings = [
        ("audit", audit.to_owned()),
        ("blocklist", space.tuning.blocklist.to_string()),
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
    println!("\nSettings, changed with `keymill space set {}`:", space.name);
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
fn odds(space: &SpaceView) -> String {
    match space.definition.kind {
        Kind::Sequential => "always: keys are in order".to_owned(),
        Kind::Snowflake => "often: keys are ordered by time".to_owned(),
        Kind::Uuid => "never".to_owned(),
        Kind::Shuffled | Kind::Pooled | Kind::Digest if space.density == 0.0 => {
            "never: no key is in use".to_owned()
        }
        Kind::Shuffled | Kind::Pooled | Kind::Digest => {
            format!("1 in {}", rounded(1.0 / space.density))
        }
    }
}

/// The date: a forecast is no more precise than a day.
fn date(at: Timestamp) -> String {
    at.to_string().chars().take("2026-01-01".len()).collect()
}
