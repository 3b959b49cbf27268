//! Thresholds: what a bench must keep to, and whether it did.

use std::time::Duration;

use serde::Serialize;

use super::report::millis;
use super::tally::Tally;
use super::values::{self, Share};

const HEADING: &str = "Thresholds";

/// Limits, as they were typed.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Thresholds {
    /// Fail unless half of the requests are answered within this time, such as 5ms
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = HEADING)]
    p50: Option<Duration>,
    /// Fail unless 90 % of the requests are answered within this time
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = HEADING)]
    p90: Option<Duration>,
    /// Fail unless 95 % of the requests are answered within this time
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = HEADING)]
    p95: Option<Duration>,
    /// Fail unless 99 % of the requests are answered within this time
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = HEADING)]
    p99: Option<Duration>,
    /// Fail unless 99.9 % of the requests are answered within this time
    #[arg(long, value_name = "TIME", value_parser = values::time, help_heading = HEADING)]
    p999: Option<Duration>,
    /// Fail if more than this share of the requests fails, such as 1%
    #[arg(long, value_name = "PERCENT", value_parser = values::share, help_heading = HEADING)]
    failures: Option<Share>,
}

/// Whether one of them was kept to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Judged {
    pub(super) name: &'static str,
    pub(super) limit: String,
    pub(super) found: String,
    pub(super) passed: bool,
}

impl Thresholds {
    pub(super) fn judge(&self, total: &Tally) -> Vec<Judged> {
        let times = [
            ("p50", 0.5, self.p50),
            ("p90", 0.9, self.p90),
            ("p95", 0.95, self.p95),
            ("p99", 0.99, self.p99),
            ("p99.9", 0.999, self.p999),
        ];
        let times = times.into_iter().filter_map(|(name, share, limit)| {
            // A request that failed was not answered within any time.
            let (limit, found) = (limit?, total.quantile_of_attempted(share));
            let passed = found.is_some_and(|found| found <= limit);
            let found = found.map_or_else(|| "never: too many failed".to_owned(), millis);
            Some(Judged { name, limit: millis(limit), found, passed })
        });
        let failures = self.failures.map(|Share(limit)| {
            let attempted = total.attempted().max(1) as f64;
            let found = total.failed() as f64 / attempted;
            let [limit_text, found_text] = [limit, found].map(percent);
            let passed = found <= limit;
            Judged { name: "failures", limit: limit_text, found: found_text, passed }
        });
        times.chain(failures).collect()
    }
}

/// A share in percent, with as many digits as it takes.
fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Thresholds =
        Thresholds { p50: None, p90: None, p95: None, p99: None, p999: None, failures: None };

    #[test]
    fn a_threshold_holds_up_to_its_limit() {
        let millis = Duration::from_millis;
        let mut total = Tally::default();
        for time in 1..=100 {
            total.acknowledge(1, 1, millis(time));
        }
        total.fail(1, "timeout", "");
        let of = |thresholds: Thresholds| {
            thresholds.judge(&total).iter().map(|it| (it.name, it.passed)).collect::<Vec<_>>()
        };
        assert_eq!(of(NONE), []);
        let times = Thresholds { p50: Some(millis(52)), p99: Some(millis(50)), ..NONE };
        assert_eq!(of(times), [("p50", true), ("p99", false)]);
        for (limit, passed) in [("1%", true), ("0.99%", false), ("0%", false), ("100%", true)] {
            let failures = Some(values::share(limit).unwrap());
            assert_eq!(of(Thresholds { failures, ..NONE }), [("failures", passed)], "{limit}");
        }
    }

    #[test]
    fn requests_that_failed_were_not_answered_in_time() {
        let mut total = Tally::default();
        for _ in 0..94 {
            total.acknowledge(1, 1, Duration::from_millis(1));
        }
        let times = Thresholds {
            p90: Some(Duration::from_secs(1)),
            p95: Some(Duration::from_secs(1)),
            ..NONE
        };
        assert!(times.judge(&total).iter().all(|it| it.passed));
        total.fail(6, "timeout", "");
        let judged = times.judge(&total);
        assert_eq!(judged.iter().map(|it| it.passed).collect::<Vec<_>>(), [true, false]);
        assert!(judged[1].found.contains("never"), "{judged:?}");
    }

    #[test]
    fn without_an_answer_no_time_is_short_enough() {
        let times = Thresholds { p95: Some(Duration::from_secs(1)), ..NONE };
        assert!(!times.judge(&Tally::default())[0].passed);
    }

    #[test]
    fn shares_are_written_without_needless_digits() {
        assert_eq!([0.0, 0.01, 0.001, 1.0].map(percent), ["0%", "1%", "0.1%", "100%"]);
    }
}
