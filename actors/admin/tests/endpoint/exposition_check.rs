//! A strict parser of the Prometheus text format 0.0.4.

use std::collections::{BTreeMap, BTreeSet};

/// Values by series (name and labels).
pub(crate) type Samples = BTreeMap<String, f64>;

/// Parses `text`.
///
/// # Panics
/// The text violates the format.
pub(crate) fn read(text: &str) -> Samples {
    assert!(text.ends_with('\n'), "the last line must end");
    let (mut samples, mut seen, mut family) =
        (Samples::new(), BTreeSet::new(), (String::new(), String::new()));
    let mut helped = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split_once(' ').unwrap_or_else(|| panic!("no text: {line}")).0.to_owned();
            assert!(seen.insert(helped.clone()), "samples of {helped} are not together");
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            assert_eq!(name, helped, "TYPE without HELP");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            family = (name.to_owned(), kind.to_owned());
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            let name = check_series(series);
            let suffix = name.strip_prefix(family.0.as_str()).unwrap_or_else(|| panic!("no TYPE: {line}"));
            let suffixes: &[&str] =
                if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{line} in {family:?}");
            let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {series}");
        }
    }
    check_histograms(&samples);
    samples
}

/// Checks name and labels of a series, and returns the name.
fn check_series(series: &str) -> &str {
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    assert!(is_name(name), "bad name: {series}");
    let mut rest = labels;
    while rest != "}" {
        let (label, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("bad labels: {series}"));
        assert!(is_name(label), "bad label: {series}");
        let mut escaped = false;
        let end = value.find(|c| {
            let ends = c == '"' && !escaped;
            assert!(!escaped || ['\\', '"', 'n'].contains(&c), "bad escape: {series}");
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = &value[end.unwrap_or_else(|| panic!("open quote: {series}")) + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    name
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check_histograms(samples: &Samples) {
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (series, value) in samples {
        if let Some((head, tail)) = series.split_once("le=\"") {
            let bound = tail.split('"').next().unwrap();
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
            buckets.entry(head.to_owned()).or_default().push((bound, *value));
        }
    }
    for (head, mut bounds) in buckets {
        bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(bounds.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{head} is not cumulative: {bounds:?}");
        let last = bounds.last().unwrap();
        assert_eq!(last.0, f64::INFINITY, "{head}");
        let count = format!("{}}}", head.replace("_bucket{", "_count{").trim_end_matches(','));
        assert_eq!(samples.get(&count), Some(&last.1), "{count}");
    }
}
