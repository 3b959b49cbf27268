//! The report as a page: one file with its figures, styles and charts, which loads nothing.

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

/// Keeps so many points that they can be told apart: of some that follow each other, the one with the highest latency.
fn thin_out(timeline: &mut Vec<serde_json::Value>) {
    let each = timeline.len().div_ceil(POINTS_MAX).max(1);
    let slowest = |some: &[serde_json::Value]| {
        let p99 = |point: &serde_json::Value| point["p99"].as_f64().unwrap_or(0.0);
        some.iter().max_by(|one, other| p99(one).total_cmp(&p99(other))).cloned()
    };
    if each > 1 {
        *timeline = timeline.chunks(each).filter_map(slowest).collect();
    }
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
    fn a_long_run_keeps_its_slowest_seconds() {
        let mut timeline: Vec<_> = (0..3_000).map(|at| json!({"at": at, "p99": at % 7})).collect();
        thin_out(&mut timeline);
        assert_eq!(timeline.len(), 1_000);
        assert_eq!(timeline[2], json!({"at": 6, "p99": 6}));
    }
}
