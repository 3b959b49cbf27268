//! The report: all that a bench has found, for people and for programs.
//!
//! `html` makes a page of the same figures. Nothing here is measured.

use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::load::Outcome;
use super::plan::{Load, Plan};
use super::shared::End;
use super::tally::{Moment, Tally, per_second};
use super::target::Target;
use super::thresholds::Judged;
use super::uniqueness::Counted;
use crate::cli::figures::{counted, grouped, rounded};

/// What a bench has found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    servers: Vec<String>,
    protocol: &'static str,
    space: String,
    /// How many keys a request asks for.
    count: u32,
    pipeline: u32,
    /// `stages`, `rate` or `full`.
    load: &'static str,
    users_max: u32,
    started_at: Timestamp,
    seconds: f64,
    /// `time`, `keys`, `signal`, `stalled` or `broken`.
    ended_by: &'static str,
    /// Whether keys were unique, all thresholds were met, and the plan was carried out or ended by a signal.
    pub(super) passed: bool,
    requests: Requests,
    failures: Vec<FailedCode>,
    keys: Keys,
    /// Since when the time of a request is measured: `sent`, or `due` at a fixed rate.
    latency_since: &'static str,
    latency_ms: Latency,
    thresholds: Vec<Judged>,
    timeline: Vec<Second>,
}

#[derive(Debug, Serialize)]
struct Requests {
    attempted: u64,
    acknowledged: u64,
    failed: u64,
    /// Those of the failed ones that were due at a fixed rate, and never sent.
    unsent: u64,
    /// Answered with fewer keys than they asked for.
    short: u64,
    per_second: f64,
}

#[derive(Debug, Serialize)]
struct FailedCode {
    code: String,
    count: u64,
    example: String,
}

#[derive(Debug, Serialize)]
struct Keys {
    received: u64,
    /// `null` if not all of them could be checked.
    unique: Option<u64>,
    duplicated: Option<u64>,
    /// Why not all of them could be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchecked: Option<String>,
    samples: Vec<Sample>,
    per_second: f64,
}

#[derive(Debug, Serialize)]
struct Sample {
    key: String,
    times: u64,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p90: f64,
    p95: f64,
    p99: f64,
    #[serde(rename = "p99.9")]
    p999: f64,
    max: f64,
}

/// A moment of the timeline. Times are in milliseconds, rates per second.
#[derive(Debug, Serialize)]
struct Second {
    at: f64,
    users: u32,
    requests: f64,
    keys: f64,
    failed: f64,
    p50: f64,
    p95: f64,
    p99: f64,
}

/// All that a report is made of.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) target: &'a Target,
    pub(super) plan: &'a Plan,
    pub(super) started_at: Timestamp,
    pub(super) outcome: &'a Outcome,
    pub(super) verdict: &'a Result<Counted, String>,
    pub(super) judged: &'a [Judged],
}

impl Report {
    pub(super) fn new(found: Found<'_>) -> Report {
        let Found { target, plan, outcome, judged, .. } = found;
        let (total, took) = (&outcome.total, outcome.took);
        let keys = Keys::new(total, took, found.verdict);
        let passed = keys.duplicated == Some(0)
            && judged.iter().all(|judged| judged.passed)
            && total.acknowledged > 0
            && !matches!(outcome.end, End::Broken | End::Stalled);
        let failures = total.failures.iter().map(|(code, failures)| FailedCode {
            code: code.clone(),
            count: failures.count,
            example: printable(&failures.example),
        });
        Report {
            version: env!("CARGO_PKG_VERSION"),
            servers: target.servers.iter().map(|server| server.name.clone()).collect(),
            protocol: target.protocol.name(),
            space: target.space.clone(),
            count: target.count,
            pipeline: target.pipeline,
            load: match plan.load {
                Load::Stages(_) => "stages",
                Load::Rate { .. } => "rate",
                Load::Full { .. } => "full",
            },
            users_max: plan.users_max(),
            started_at: found.started_at,
            seconds: took.as_secs_f64(),
            ended_by: match outcome.end {
                End::Time => "time",
                End::Keys => "keys",
                End::Signal => "signal",
                End::Stalled => "stalled",
                End::Refused(_) | End::Broken => "broken",
            },
            passed,
            requests: Requests {
                attempted: total.attempted(),
                acknowledged: total.acknowledged,
                failed: total.failed(),
                unsent: outcome.unsent,
                short: total.short,
                per_second: per_second(total.acknowledged, took),
            },
            failures: failures.collect(),
            keys,
            latency_since: match plan.load {
                Load::Rate { .. } => "due",
                _ => "sent",
            },
            latency_ms: Latency::new(total),
            thresholds: judged.to_vec(),
            timeline: outcome.timeline.iter().map(Second::new).collect(),
        }
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        // Nothing can fail that is written into a string.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let servers = counted(self.servers.len() as u64, "server", "servers");
        let users = match self.load {
            "stages" => counted(self.users_max.into(), "user at most", "users at most"),
            _ => counted(self.users_max.into(), "connection", "connections"),
        };
        let (space, protocol) = (&self.space, self.protocol);
        writeln!(
            out,
            "{servers} over {protocol}, keyspace `{space}`, {users}, {:.1} s\n",
            self.seconds
        )?;
        let Requests { attempted, acknowledged, failed, .. } = self.requests;
        let [attempted, acknowledged, failed] = [attempted, acknowledged, failed].map(grouped);
        let rate = rounded(self.requests.per_second);
        writeln!(
            out,
            "requests    {attempted} attempted, {acknowledged} acknowledged, {failed} failed ({rate}/s)"
        )?;
        let (received, rate) = (grouped(self.keys.received), rounded(self.keys.per_second));
        match (self.keys.unique, self.keys.duplicated) {
            (Some(unique), Some(duplicated)) => {
                let [unique, duplicated] = [unique, duplicated].map(grouped);
                writeln!(
                    out,
                    "keys        {received} received, {unique} unique, {duplicated} duplicated ({rate}/s)"
                )?;
            }
            _ => {
                let why = self.keys.unchecked.as_deref().unwrap_or_default();
                writeln!(out, "keys        {received} received ({rate}/s); NOT CHECKED: {why}")?;
            }
        }
        self.write_latency(out)?;
        self.write_failures(out)?;
        for (at, sample) in self.keys.samples.iter().enumerate() {
            let label = if at == 0 { "duplicated" } else { "" };
            writeln!(out, "{label:<12}{} × {}", sample.key, grouped(sample.times))?;
        }
        for (at, judged) in self.thresholds.iter().enumerate() {
            let label = if at == 0 { "thresholds" } else { "" };
            let Judged { name, limit, found, passed } = judged;
            let verdict = if *passed { "passed" } else { "FAILED" };
            writeln!(out, "{label:<12}{name} {found}, allowed {limit}: {verdict}")?;
        }
        Ok(())
    }

    fn write_latency(&self, out: &mut String) -> std::fmt::Result {
        if self.requests.acknowledged == 0 {
            return Ok(());
        }
        let Latency { p50, p90, p95, p99, p999, max } = self.latency_ms;
        let [p50, p90, p95, p99, p999, max] = [p50, p90, p95, p99, p999, max].map(millis_of);
        let since = if self.latency_since == "due" { ", since it was due" } else { "" };
        writeln!(
            out,
            "latency     p50 {p50}, p90 {p90}, p95 {p95}, p99 {p99}, p99.9 {p999}, max {max}{since}"
        )
    }

    fn write_failures(&self, out: &mut String) -> std::fmt::Result {
        for (at, FailedCode { code, count, example }) in self.failures.iter().enumerate() {
            let label = if at == 0 { "failed" } else { "" };
            let code = printable(code);
            writeln!(out, "{label:<12}{} × {code}: {example}", grouped(*count))?;
        }
        let Requests { unsent, short, .. } = self.requests;
        let mut notes = Vec::new();
        if unsent > 0 {
            notes.push(format!(
                "{} due and not sent: the servers, or {}, cannot keep up with the rate",
                counted(unsent, "request was", "requests were"),
                counted(self.users_max.into(), "connection", "connections"),
            ));
        }
        if short > 0 {
            let answers = counted(short, "answer", "answers");
            notes.push(format!(
                "{answers} had fewer keys than requested: the keyspace is nearly exhausted"
            ));
        }
        match self.ended_by {
            "signal" => notes.push("ended early, by a signal".to_owned()),
            "stalled" => notes.push("ended early, because no key came for 30 s".to_owned()),
            _ => {}
        }
        notes.iter().try_for_each(|note| writeln!(out, "note        {note}"))
    }
}

impl Keys {
    fn new(total: &Tally, took: Duration, verdict: &Result<Counted, String>) -> Keys {
        let (checked, unchecked) = match verdict {
            Ok(counted) => (Some(counted), None),
            Err(why) => (None, Some(why.clone())),
        };
        let samples = checked.map(|counted| counted.samples.as_slice()).unwrap_or_default();
        let sample =
            |it: &super::uniqueness::Duplicate| Sample { key: it.key.clone(), times: it.times };
        Keys {
            received: total.keys,
            unique: checked.map(|counted| counted.unique),
            duplicated: checked.map(|counted| counted.keys - counted.unique),
            unchecked,
            samples: samples.iter().map(sample).collect(),
            per_second: per_second(total.keys, took),
        }
    }
}

impl Latency {
    fn new(total: &Tally) -> Latency {
        let at = |share| in_millis(total.quantile(share));
        Latency {
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: in_millis(total.longest()),
        }
    }
}

impl Second {
    fn new(moment: &Moment) -> Second {
        let rate = |count| per_second(count, moment.length);
        Second {
            at: moment.at.as_secs_f64(),
            users: moment.users,
            requests: rate(moment.acknowledged),
            keys: rate(moment.keys),
            failed: rate(moment.failed),
            p50: in_millis(moment.p50),
            p95: in_millis(moment.p95),
            p99: in_millis(moment.p99),
        }
    }
}

fn in_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A time for people, with three digits.
pub(super) fn millis(time: Duration) -> String {
    millis_of(in_millis(time))
}

fn millis_of(millis: f64) -> String {
    match millis {
        _ if millis < 9.995 => format!("{millis:.2} ms"),
        _ if millis < 99.95 => format!("{millis:.1} ms"),
        _ if millis < 999.5 => format!("{millis:.0} ms"),
        _ => format!("{:.2} s", millis / 1e3),
    }
}

/// What a server said, without what a terminal would obey.
fn printable(text: &str) -> String {
    let text = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    text.take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_three_digits() {
        let micros = [0, 412, 3_120, 31_240, 312_400, 1_234_000];
        let found = micros.map(|micros| millis(Duration::from_micros(micros)));
        assert_eq!(found, ["0.00 ms", "0.41 ms", "3.12 ms", "31.2 ms", "312 ms", "1.23 s"]);
    }

    #[test]
    fn a_server_cannot_write_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(printable(&"x".repeat(999)).len(), 300);
    }
}
