//! The Prometheus text format 0.0.4. No I/O. Samples of one name are grouped under one HELP and TYPE line.
//! Duplicate series are dropped, and the number of series of a name is limited.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write},
};

use orchestrator_observe::Histogram;

/// Maximum number of series of one name. A histogram counts as one.
const SERIES_MAX: usize = 4096;

/// Exported buckets of a histogram, as exponents of two in units of its resolution. All others are added to
/// the next one.
pub(crate) type Buckets = [usize];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
struct Family {
    kind: Kind,
    help: String,
    /// Lines of each series, by its labels as text.
    series: BTreeMap<String, String>,
}

/// Collector of samples.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    families: BTreeMap<String, Family>,
    dropped: u64,
}

/// Names and values of labels, in the order of the output.
pub(crate) type Labels<'a> = [(&'a str, &'a str)];

impl Exposition {
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        labels: &Labels<'_>,
        value: impl Display,
    ) {
        let labels = in_braces(&format_labels(labels));
        self.series(kind, name, help, &labels, || format!("{name}{labels} {value}\n"));
    }

    /// Adds a histogram, in seconds.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &Labels<'_>,
        histogram: &Histogram,
        exported: &Buckets,
    ) {
        let labels = format_labels(labels);
        self.series(Kind::Histogram, name, help, &labels, || buckets(name, &labels, histogram, exported));
    }

    fn series(&mut self, kind: Kind, name: &str, help: &str, labels: &str, lines: impl FnOnce() -> String) {
        let family = self.families.entry(name.to_owned()).or_insert_with(|| Family {
            kind,
            help: help.replace('\\', "\\\\").replace('\n', "\\n"),
            series: BTreeMap::new(),
        });
        if family.kind != kind || family.series.len() >= SERIES_MAX || family.series.contains_key(labels) {
            self.dropped += 1;
        } else {
            family.series.insert(labels.to_owned(), lines());
        }
    }

    pub(crate) fn render(mut self) -> String {
        let help = "Samples dropped from this response: duplicates, or too many series of one name.";
        let dropped = self.dropped;
        self.add(Kind::Gauge, "orchestrator_metrics_dropped_samples", help, &[], dropped);
        let mut text = String::new();
        for (name, family) in &self.families {
            let kind = match family.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            // Writing to a String cannot fail.
            let _ = write!(text, "# HELP {name} {}\n# TYPE {name} {kind}\n", family.help);
            text.extend(family.series.values().map(String::as_str));
        }
        text
    }
}

fn format_labels(labels: &Labels<'_>) -> String {
    let pairs: Vec<_> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape_value(value))).collect();
    pairs.join(",")
}

fn in_braces(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

fn escape_value(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn buckets(name: &str, labels: &str, histogram: &Histogram, exported: &Buckets) -> String {
    let sum = histogram.sum_seconds();
    let counts = histogram.cumulative();
    let comma = if labels.is_empty() { "" } else { "," };
    let mut lines = String::new();
    // The kernel's last bucket is unbounded.
    let total = counts.last().map_or(0, |(_, total)| *total);
    for (bound, count) in exported.iter().filter_map(|at| counts.get(*at)) {
        let _ = writeln!(lines, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}");
    }
    let _ = writeln!(lines, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {total}");
    let labels = in_braces(labels);
    let _ = write!(lines, "{name}_sum{labels} {sum}\n{name}_count{labels} {total}\n");
    lines
}

/// Converts `text` to a part of a metric name: lower case, with underscores for other characters than letters
/// and digits.
pub(crate) fn name_part(text: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    text.chars().map(word).collect::<String>().trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn labels_are_escaped_and_duplicate_series_are_dropped() {
        let mut exposition = Exposition::default();
        for value in [1, 2] {
            exposition.add(Kind::Gauge, "a", "x\ny", &[("path", "q\"\\\n")], value);
        }
        exposition.add(Kind::Counter, "a", "x", &[], 1);
        let text = exposition.render();
        assert!(text.starts_with("# HELP a x\\ny\n# TYPE a gauge\na{path=\"q\\\"\\\\\\n\"} 1\n#"), "{text}");
        assert!(text.ends_with("orchestrator_metrics_dropped_samples 2\n"), "{text}");
    }

    #[test]
    fn the_number_of_series_is_limited() {
        let mut exposition = Exposition::default();
        for i in 0..SERIES_MAX + 7 {
            exposition.add(Kind::Gauge, "a", "x", &[("i", &i.to_string())], i);
        }
        assert!(exposition.render().ends_with("dropped_samples 7\n"));
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_infinity() {
        let histogram = Histogram::default();
        for us in [1, 3, 100, 1_000_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let text = buckets("h", "", &histogram, &[0, 2]);
        for line in [
            "h_bucket{le=\"0.000001\"} 1",
            "h_bucket{le=\"0.000004\"} 2",
            "h_bucket{le=\"+Inf\"} 4",
            "h_count 4",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
        assert!(text.contains("h_sum 1000.000104"), "{text}");
    }

    #[test]
    fn names_are_converted() {
        assert_eq!(name_part("Hand-outs/s"), "hand_outs_s");
    }
}
