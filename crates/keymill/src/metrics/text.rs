//! The text of metrics, as Prometheus reads it and as OpenMetrics has it.
//!
//! `families` writes its figures with this. The two formats differ in little: OpenMetrics names the family of a counter
//! without `_total`, has units and an end. Nothing here knows what a figure means.

use std::fmt::{self, Write};

use keymill_engine::latency::{Bounds, Latencies};

/// Which of the two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

/// What a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only rises.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Times in buckets.
    Histogram,
    /// Words that do not change.
    Info,
}

/// The text so far.
#[derive(Debug)]
pub(super) struct Text {
    format: Format,
    text: String,
}

/// A family of figures, to which values are added.
#[derive(Debug)]
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    kind: Kind,
}

/// Labels: names, which are plain words, and values, which may be anything.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

impl Format {
    /// The content type of an answer in it.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Text {
    pub(super) fn new(format: Format) -> Text {
        Text { format, text: String::with_capacity(16 << 10) }
    }

    /// Begins a family, which is listed also where it has no values. `name` is without the suffix that its kind has.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let word = match (kind, self.format) {
            (Kind::Counter, _) => "counter",
            (Kind::Histogram, _) => "histogram",
            (Kind::Info, Format::OpenMetrics) => "info",
            (Kind::Gauge | Kind::Info, _) => "gauge",
        };
        // Prometheus knows no families, only what its lines begin with.
        let suffix = if self.format == Format::Prometheus { kind.suffix() } else { "" };
        self.put(format_args!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {word}\n"));
        if self.format == Format::OpenMetrics {
            for unit in ["seconds", "bytes"] {
                if name.ends_with(unit) {
                    self.put(format_args!("# UNIT {name} {unit}\n"));
                }
            }
        }
        Family { text: &mut self.text, name, kind }
    }

    /// The whole text.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a String cannot fail");
    }
}

impl Kind {
    /// What the lines of a family have behind its name.
    fn suffix(self) -> &'static str {
        match self {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        }
    }
}

impl Family<'_> {
    /// Adds a whole number.
    pub(super) fn add(&mut self, labels: Labels<'_>, value: u64) -> &mut Self {
        self.line(self.kind.suffix(), labels, None, format_args!("{value}"));
        self
    }

    /// Adds any other number.
    pub(super) fn add_float(&mut self, labels: Labels<'_>, value: f64) -> &mut Self {
        self.line(self.kind.suffix(), labels, None, format_args!("{}", Float(value)));
        self
    }

    /// Adds times.
    pub(super) fn add_times(&mut self, labels: Labels<'_>, bounds: &Bounds, times: &Latencies) {
        let mut count = 0;
        let bounds = bounds.seconds().map(|bound| Float(bound).to_string());
        let names = bounds.iter().map(String::as_str).chain(["+Inf"]);
        for (bound, some) in names.zip(times.counts) {
            count += some;
            self.line("_bucket", labels, Some(("le", bound)), format_args!("{count}"));
        }
        self.line("_sum", labels, None, format_args!("{}", Float(times.seconds())));
        self.line("_count", labels, None, format_args!("{count}"));
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        one_more: Option<(&'static str, &str)>,
        value: fmt::Arguments<'_>,
    ) {
        let text = &mut *self.text;
        text.push_str(self.name);
        text.push_str(suffix);
        let mut before = "{";
        for (name, value) in labels.iter().copied().chain(one_more) {
            text.push_str(before);
            text.push_str(name);
            text.push_str("=\"");
            value.chars().for_each(|char| match char {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                char => text.push(char),
            });
            text.push('"');
            before = ",";
        }
        if before == "," {
            text.push('}');
        }
        writeln!(text, " {value}").expect("writing to a String cannot fail");
    }
}

/// A number that shows that it may have a fraction.
struct Float(f64);

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            number if number == f64::INFINITY => f.write_str("+Inf"),
            number if number.fract() == 0.0 && number.abs() < 1e15 => write!(f, "{number:.1}"),
            number => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use keymill_engine::latency::Histogram;

    use super::*;

    fn written(format: Format) -> String {
        let mut text = Text::new(format);
        text.family("it", Kind::Counter, "How often").add(&[("a", "b\"\\\nc")], 3);
        text.family("it_seconds", Kind::Gauge, "How long").add_float(&[], 1.5).add_float(&[], 2.0);
        text.family("none_bytes", Kind::Gauge, "How much");
        text.family("build", Kind::Info, "What").add(&[("x", "1"), ("y", "2")], 1);
        text.finish()
    }

    #[test]
    fn prometheus_knows_a_counter_by_its_whole_name() {
        let expected = "# HELP it_total How often\n# TYPE it_total counter\n\
            it_total{a=\"b\\\"\\\\\\nc\"} 3\n\
            # HELP it_seconds How long\n# TYPE it_seconds gauge\nit_seconds 1.5\nit_seconds 2.0\n\
            # HELP none_bytes How much\n# TYPE none_bytes gauge\n\
            # HELP build_info What\n# TYPE build_info gauge\nbuild_info{x=\"1\",y=\"2\"} 1\n";
        assert_eq!(written(Format::Prometheus), expected);
    }

    #[test]
    fn openmetrics_has_families_units_and_an_end() {
        let expected = "# HELP it How often\n# TYPE it counter\nit_total{a=\"b\\\"\\\\\\nc\"} 3\n\
            # HELP it_seconds How long\n# TYPE it_seconds gauge\n# UNIT it_seconds seconds\n\
            it_seconds 1.5\nit_seconds 2.0\n\
            # HELP none_bytes How much\n# TYPE none_bytes gauge\n# UNIT none_bytes bytes\n\
            # HELP build What\n# TYPE build info\nbuild_info{x=\"1\",y=\"2\"} 1\n# EOF\n";
        assert_eq!(written(Format::OpenMetrics), expected);
    }

    #[test]
    fn the_buckets_of_a_histogram_add_up() {
        let (histogram, mut text) = (Histogram::default(), Text::new(Format::Prometheus));
        histogram.add(&Bounds::REQUESTS, Duration::from_micros(1), 2);
        histogram.add(&Bounds::REQUESTS, Duration::from_secs(3), 1);
        let mut family = text.family("took_seconds", Kind::Histogram, "How long");
        family.add_times(&[("of", "it")], &Bounds::REQUESTS, &histogram.get());
        let text = text.finish();
        for line in [
            "took_seconds_bucket{of=\"it\",le=\"0.000003\"} 2",
            "took_seconds_bucket{of=\"it\",le=\"1.0\"} 2",
            "took_seconds_bucket{of=\"it\",le=\"+Inf\"} 3",
            "took_seconds_sum{of=\"it\"} 3.000002",
            "took_seconds_count{of=\"it\"} 3",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
        }
    }
}
