//! The report as a page: one file with its figures, styles and charts, which loads nothing.

use serde_json::Value;

use super::report::Report;

/// The page, with a place for the figures.
const PAGE: &str = include_str!("page.html");
const PLACE: &str = "/*REPORT*/null";

/// How many points a chart has at most. Seconds of longer runs are put together.
const POINTS_MAX: usize = 1_200;

pub(super) fn page(report: &Report) -> serde_json::Result<String> {
    let mut json = serde_json::to_value(report)?;
    if let Some(timeline) = json["timeline"].as_array_mut() {
        thin_out(timeline);
    }
    // Within a script, nothing may look like the end of it.
    let json = json.to_string().replace('<', "\\u003c");
    Ok(PAGE.replacen(PLACE, &json, 1))
}

/// Puts points together until there are so few that they can be told apart.
fn thin_out(timeline: &mut Vec<Value>) {
    let each = timeline.len().div_ceil(POINTS_MAX).max(1);
    if each > 1 {
        *timeline = timeline.chunks(each).map(together).collect();
    }
}

/// Some points that follow each other as one: rates are averaged, and of failures and latencies the worst is kept.
fn together(points: &[Value]) -> Value {
    let values = |name: &'static str| points.iter().filter_map(move |it| it[name].as_f64());
    let mean = |name| values(name).sum::<f64>() / points.len() as f64;
    let max = |name| values(name).fold(0.0_f64, f64::max);
    let mut point = points.last().cloned().unwrap_or_default();
    for rate in ["requests", "keys"] {
        point[rate] = mean(rate).into();
    }
    for worst in ["users", "failed", "p50", "p95", "p99"] {
        point[worst] = max(worst).into();
    }
    point
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_has_one_place_for_the_figures_and_loads_nothing() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        for loading in ["http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "import("]
        {
            assert!(!PAGE.contains(loading), "{loading}");
        }
    }

    #[test]
    fn a_long_run_keeps_its_failures_and_its_slowest_seconds() {
        let second = |at: u32| {
            // In every third second all requests fail, and there is no latency.
            let (rate, failed, p99) = if at % 3 == 1 { (0, 60, 0) } else { (90, 0, at) };
            json!({"at": at, "users": 5, "requests": rate, "keys": rate, "failed": failed, "p50": 1, "p95": 2, "p99": p99})
        };
        let mut timeline: Vec<_> = (0..3_000).map(second).collect();
        thin_out(&mut timeline);
        assert_eq!(timeline.len(), 1_000);
        let expected = json!({
            "at": 8, "users": 5.0, "requests": 60.0, "keys": 60.0, "failed": 60.0, "p50": 1.0, "p95": 2.0, "p99": 8.0
        });
        assert_eq!(timeline[2], expected);
    }
}
