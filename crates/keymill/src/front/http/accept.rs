//! `Accept`: which of the forms that there are a caller would rather have.
//!
//! Takes choose between JSON and lines by it, and metrics between two formats. Ranges such as `*/*` ask for nothing in
//! particular and are left out.

use crate::metrics::Format;

/// Whether the caller would rather have plain text than JSON.
pub(super) fn prefers_plain(accept: &str) -> bool {
    let plain = quality(accept, &["text/plain", "text/*"]);
    plain > quality(accept, &["application/json", "application/*"])
}

/// The format of metrics that the caller would rather have: that of Prometheus, unless it knows the other one.
pub(super) fn metrics_format(accept: &str) -> Format {
    let open = quality(accept, &["application/openmetrics-text"]);
    if open > 0.0 && open >= quality(accept, &["text/plain", "text/*"]) {
        return Format::OpenMetrics;
    }
    Format::Prometheus
}

/// How much the caller wants one of these, from 0 to 1.
fn quality(accept: &str, wanted: &[&str]) -> f32 {
    let of = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default();
        if !wanted.iter().any(|wanted| range.eq_ignore_ascii_case(wanted)) {
            return None;
        }
        Some(parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0))
    };
    accept.split(',').filter_map(of).fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_given_to_those_who_prefer_it() {
        for accept in [
            "text/plain",
            "text/*",
            "application/json;q=0.1, text/plain",
            "text/plain, */*",
            "Text/PLAIN",
        ] {
            assert!(prefers_plain(accept), "{accept}");
        }
        for accept in
            ["", "*/*", "application/json", "text/plain;q=0.1, application/json", "image/png"]
        {
            assert!(!prefers_plain(accept), "{accept}");
        }
    }

    #[test]
    fn metrics_are_in_the_format_that_is_asked_for() {
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("application/openmetrics-text; version=1.0.0; charset=utf-8", Format::OpenMetrics),
            ("text/plain;q=0.9,application/openmetrics-text;q=0.2", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            // As Prometheus sends it.
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::OpenMetrics,
            ),
        ] {
            assert_eq!(metrics_format(accept), format, "{accept}");
        }
    }
}
