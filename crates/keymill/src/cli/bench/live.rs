//! What is shown while a bench runs: on a terminal a bar with the figures of the last second, otherwise a line now and
//! then.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::plan::{Load, Plan};
use super::report::millis;
use super::tally::{Moment, Tally, per_second};
use super::uniqueness::Progress;
use crate::cli::figures::{grouped, rounded};
use crate::cli::output::is_quiet;
use crate::cli::progress;

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The display.
#[derive(Debug)]
pub(super) struct Live {
    plan: Plan,
    /// On a terminal.
    bar: Option<ProgressBar>,
    written: Instant,
}

impl Live {
    pub(super) fn new(plan: Plan) -> Live {
        let is_shown = io::stderr().is_terminal() && !is_quiet();
        let bar = is_shown.then(|| {
            let template = "{bar:30} {prefix}\n{msg}";
            let style = ProgressStyle::with_template(template).expect("the template is right");
            ProgressBar::new(1_000).with_style(style)
        });
        Live { plan, bar, written: Instant::now() }
    }

    /// Shows the last moment.
    pub(super) fn show(&mut self, timeline: &[Moment], total: &Tally, progress: &Progress) {
        let Some(last) = timeline.last() else { return };
        let found = progress.found.load(Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.set_position(self.permille(last.at, total.keys));
            bar.set_prefix(self.far(last, total.keys));
            bar.set_message(figures(last, total, found).join("\n"));
        } else if self.written.elapsed() >= LINE_EVERY {
            self.written = Instant::now();
            let far = self.far(last, total.keys);
            note!("keymill: {far}; {}", figures(last, total, found).join("; "));
        }
    }

    /// Takes the bar away, for what comes after it.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// A bar for the merge of runs.
    pub(super) fn merge_bar(&self) -> ProgressBar {
        match self.bar {
            Some(_) => progress::of_keys(),
            None => ProgressBar::hidden(),
        }
    }

    /// How far it is, in thousandths.
    fn permille(&self, elapsed: Duration, keys: u64) -> u64 {
        let of_time = self.time().map(|time| share(elapsed.as_millis(), time.as_millis()));
        let of_keys = self.plan.keys.map(|all| share(u128::from(keys), u128::from(all)));
        of_time.max(of_keys).unwrap_or(0)
    }

    /// How far it is, in words.
    fn far(&self, last: &Moment, keys: u64) -> String {
        let mut text = format!("{} s", last.at.as_secs());
        if let Some(time) = self.time() {
            let _ = write!(text, " of {} s", time.as_secs());
        }
        if let Some(all) = self.plan.keys {
            let _ = write!(text, ", {} of {} keys", grouped(keys), grouped(all));
        }
        if matches!(self.plan.load, Load::Stages(_)) {
            let _ = write!(text, ", {} users", grouped(last.users.into()));
        }
        text
    }

    /// How long it will take, if that is planned.
    fn time(&self) -> Option<Duration> {
        let of_stages = match &self.plan.load {
            Load::Stages(stages) => Some(stages.iter().map(|stage| stage.time).sum()),
            _ => None,
        };
        self.plan.time.into_iter().chain(of_stages).min()
    }
}

fn share(part: u128, whole: u128) -> u64 {
    u64::try_from((part * 1_000 / whole.max(1)).min(1_000)).unwrap_or(1_000)
}

/// The figures of the last moment, and those of all so far.
fn figures(last: &Moment, total: &Tally, found: u64) -> [String; 2] {
    let [requests, keys] =
        [last.acknowledged, last.keys].map(|count| rounded(per_second(count, last.length)));
    let mut rate = format!("{requests} requests/s");
    if last.keys != last.acknowledged {
        let _ = write!(rate, ", {keys} keys/s");
    }
    let [p50, p95, p99] = [last.p50, last.p95, last.p99].map(millis);
    [
        format!("{rate}, p50 {p50}, p95 {p95}, p99 {p99}"),
        format!(
            "failed {} of {}, duplicates so far {}",
            grouped(total.failed()),
            grouped(total.attempted()),
            grouped(found)
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_is_shows_by_time_and_by_keys() {
        let second = Duration::from_secs(1);
        let plan =
            Plan { load: Load::Full { connections: 1 }, time: Some(10 * second), keys: Some(400) };
        let live = Live { plan, bar: None, written: Instant::now() };
        assert_eq!(live.permille(5 * second, 100), 500);
        assert_eq!(live.permille(5 * second, 300), 750);
        assert_eq!(live.permille(99 * second, 0), 1_000);
        let moment = Tally::default().moment(3 * second, second, 1);
        assert_eq!(live.far(&moment, 1_000), "3 s of 10 s, 1,000 of 400 keys");
    }

    #[test]
    fn figures_name_keys_only_where_they_are_not_requests() {
        let mut tally = Tally::default();
        tally.acknowledge(1, 1, Duration::from_millis(2));
        let figures_of = |tally: &Tally| {
            let second = Duration::from_secs(1);
            figures(&tally.moment(second, second, 1), tally, 0).join("; ")
        };
        let single = figures_of(&tally);
        assert!(single.starts_with("1 requests/s, p50 2"), "{single}");
        assert!(single.ends_with("failed 0 of 1, duplicates so far 0"), "{single}");
        tally.acknowledge(10, 10, Duration::from_millis(2));
        assert!(figures_of(&tally).starts_with("2 requests/s, 11 keys/s"));
    }
}
