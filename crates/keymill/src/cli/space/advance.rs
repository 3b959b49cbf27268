//! `keymill space advance`: what it will do, the question, and what it has done.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail};
use keymill_engine::operations::{AdvanceAsk, AdvancePlan, HighestKeys, Service};

use super::confirmed;
use crate::cli::figures::{counted, grouped};

/// For how long a keyspace may have no IDs without asking first.
const WAIT_UNASKED_SECONDS: i64 = 300;

pub(super) async fn run(
    service: &Service,
    name: &str,
    mut ask: AdvanceAsk,
    beyond: Option<&Path>,
    yes: bool,
) -> anyhow::Result<()> {
    if let Some(file) = beyond {
        let keys = read(service.highest_keys(name).await?, file)?;
        tell_of_keys(name, &keys);
        ask.beyond = Some(keys);
    }
    let plan = service.plan_advance(name, ask).await?;
    tell_of_plan(&plan);
    let waits = tell_of_wait(&plan)?;
    let loses = beyond.is_some() || waits || plan.pooled.is_some_and(|pooled| pooled > 0);
    if loses && !yes && !confirmed(&format!("Advance `{name}`?"))? {
        bail!("not advanced");
    }
    let record = service.advance(&plan).await?;
    let next = record.mark.next;
    match record.definition.timeline()? {
        Some(timeline) => note!(
            "keymill: skipped past every key of `{name}` that may be in use; its workers are leased again from {} on",
            timeline.time_of(next)
        ),
        None => note!(
            "keymill: `{name}` continues at ordinal {next}; skipped {}, and discarded keys \
             that were returned unused",
            counted(next - plan.before.mark.next, "unused number", "unused numbers")
        ),
    }
    eprintln!(
        "keymill: aliases and keys in use that were added since the backup are lost: add them again before \
         you start an instance, or they may be handed out"
    );
    Ok(())
}

/// Prints until when a snowflake keyspace has no IDs, if that is long.
fn tell_of_wait(plan: &AdvancePlan) -> anyhow::Result<bool> {
    let Some(timeline) = plan.before.definition.timeline()? else { return Ok(false) };
    let until = timeline.time_of(plan.next);
    let wait = until.duration_since(jiff::Timestamp::now()).as_secs();
    if wait <= WAIT_UNASKED_SECONDS {
        return Ok(false);
    }
    eprintln!(
        "keymill: it is unknown how far `{}` was used, so it will issue no IDs until {until}. If every \
         instance is stopped and `window_seconds` was never above {}, pass --to TICK to shorten the wait",
        plan.before.name, plan.before.tuning.window_seconds
    );
    Ok(true)
}

/// Reads keys in use, one per line; blank lines are ignored.
fn read(mut keys: HighestKeys, file: &Path) -> anyhow::Result<HighestKeys> {
    let input: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        Box::new(BufReader::new(opened))
    };
    for line in input.lines() {
        let line = line.context("cannot read the keys in use")?;
        // The first line may begin with a byte order mark.
        let line = line.trim_start_matches('\u{feff}').trim();
        if !line.is_empty() {
            keys.add(line);
        }
    }
    Ok(keys)
}

fn tell_of_keys(name: &str, keys: &HighestKeys) {
    note!("keymill: read {} of `{name}`", counted(keys.counted, "key", "keys"));
    if keys.elsewhere > 0 {
        let elsewhere = counted(keys.elsewhere, "key", "keys");
        eprintln!("keymill: ignored {elsewhere} of other regions (another offset)");
    }
    if keys.other > 0 {
        eprintln!(
            "keymill: ignored {} that cannot be keys of `{name}`: another length, or mistyped",
            counted(keys.other, "line", "lines")
        );
    }
}

fn tell_of_plan(plan: &AdvancePlan) {
    let (name, from) = (&plan.before.name, plan.before.mark.next);
    if !plan.highest.is_empty() {
        eprintln!("keymill: the highest keys in use, without aliases and imported keys:");
        for (ordinal, key) in &plan.highest {
            eprintln!("  {key}  ordinal {ordinal}");
        }
        eprintln!(
            "keymill: beyond them, {} ordinals are skipped for keys that may have been handed out but not \
             yet saved",
            grouped(plan.in_flight)
        );
    }
    if plan.before.definition.kind.counts() {
        let left = plan.before.left().max(1);
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let share = (plan.next - from) as f64 * 100.0 / left as f64;
        eprintln!(
            "keymill: `{name}` is at ordinal {from} and will continue at {}, skipping {share:.4} % of the \
             remaining keys",
            plan.next
        );
    }
    if let Some(pooled) = plan.pooled.filter(|pooled| *pooled > 0) {
        eprintln!(
            "keymill: {} in the pool will be discarded, because some of them may be in use; run `keymill \
             pool fill {name} --count {pooled}` afterwards",
            counted(pooled, "key", "keys")
        );
    }
}
