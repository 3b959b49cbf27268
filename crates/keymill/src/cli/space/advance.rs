//! `keymill space advance`: what it will do, the question, and what it has done.

use std::path::Path;

use anyhow::bail;

use super::confirmed;
use crate::cli::figures::{counted, grouped};
use crate::cli::import::Input;
use crate::cli::site::{AdvanceFlags, Site};
use crate::front::http::SpaceView;
use crate::front::http::views::AdvanceView;

/// For how long a keyspace may have no IDs without asking first.
const WAIT_UNASKED_SECONDS: i64 = 300;
/// How much of what is left may be skipped without asking first.
const PERCENT_UNASKED_MAX: f64 = 10.0;

pub(super) async fn run(
    site: &Site,
    name: &str,
    flags: AdvanceFlags,
    beyond: Option<&Path>,
    yes: bool,
) -> anyhow::Result<()> {
    let before = site.space(name).await?;
    let keys = beyond.map(Input::open).transpose()?;
    let is_told_where = flags.to.is_some();
    let planned = site.plan_advance(name, flags, keys).await?;
    let plan = planned.view.clone();
    if beyond.is_some() {
        tell_of_keys(&plan);
    }
    tell_of_plan(&before, &plan);
    let waits = tell_of_wait(&before, &plan);
    let loses = beyond.is_some()
        || waits
        || plan.pooled.is_some_and(|pooled| pooled.get() > 0)
        // An ordinal may be mistyped.
        || (is_told_where && percent_skipped(&before, &plan) >= PERCENT_UNASKED_MAX);
    if loses && !yes && !confirmed(&format!("Advance `{name}`?"))? {
        bail!("not advanced");
    }
    let done = site.advance(planned).await?;
    match done.resumes_at {
        Some(at) => note!(
            "keymill: skipped past every key of `{name}` that may be in use; its workers are leased again from {at} on"
        ),
        None => note!(
            "keymill: `{name}` continues at ordinal {}; skipped {}, and discarded keys \
             that were returned unused",
            done.next.get(),
            counted(done.next.get() - plan.from.get(), "unused number", "unused numbers")
        ),
    }
    eprintln!(
        "keymill: aliases and keys in use that were added since the backup are lost: add them again before \
         you start an instance, or they may be handed out"
    );
    Ok(())
}

/// Prints until when a snowflake keyspace has no IDs, if that is long.
fn tell_of_wait(before: &SpaceView, plan: &AdvanceView) -> bool {
    let Some(until) = plan.resumes_at else { return false };
    let wait = until.duration_since(jiff::Timestamp::now()).as_secs();
    if wait <= WAIT_UNASKED_SECONDS {
        return false;
    }
    eprintln!(
        "keymill: it is unknown how far `{}` was used, so it will issue no IDs until {until}. If every \
         instance is stopped and `window_seconds` was never above {}, pass --to TICK to shorten the wait",
        before.name, before.tuning.window_seconds
    );
    true
}

fn tell_of_keys(plan: &AdvanceView) {
    let name = &plan.space;
    note!("keymill: read {} of `{name}`", counted(plan.keys_read, "key", "keys"));
    if plan.keys_elsewhere > 0 {
        let elsewhere = counted(plan.keys_elsewhere, "key", "keys");
        eprintln!("keymill: ignored {elsewhere} of other regions (another offset)");
    }
    if plan.lines_ignored > 0 {
        eprintln!(
            "keymill: ignored {} that cannot be keys of `{name}`: another length, or mistyped",
            counted(plan.lines_ignored, "line", "lines")
        );
    }
}

fn tell_of_plan(before: &SpaceView, plan: &AdvanceView) {
    let (name, from, next) = (&plan.space, plan.from.get(), plan.next.get());
    if !plan.highest.is_empty() {
        eprintln!("keymill: the highest keys in use, without aliases and imported keys:");
        for highest in &plan.highest {
            eprintln!("  {}  ordinal {}", highest.key, highest.ordinal.get());
        }
        eprintln!(
            "keymill: beyond them, {} ordinals are skipped for keys that may have been handed out but not \
             yet saved",
            grouped(plan.in_flight.get())
        );
    }
    if before.definition.kind.counts() {
        eprintln!(
            "keymill: `{name}` is at ordinal {from} and will continue at {next}, skipping {:.4} % of the \
             remaining keys",
            percent_skipped(before, plan)
        );
    }
    if let Some(pooled) = plan.pooled.filter(|pooled| pooled.get() > 0) {
        let pooled = pooled.get();
        eprintln!(
            "keymill: {} in the pool will be discarded, because some of them may be in use; run `keymill \
             pool fill {name} --count {pooled}` afterwards",
            counted(pooled, "key", "keys")
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn percent_skipped(before: &SpaceView, plan: &AdvanceView) -> f64 {
    if !before.definition.kind.counts() {
        return 0.0;
    }
    (plan.next.get() - plan.from.get()) as f64 * 100.0 / before.remaining.get().max(1) as f64
}
