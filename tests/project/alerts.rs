//! The alerts in tests of Prometheus's own tool, which `tests/run` installs: each fires when it should, and
//! none on a healthy program.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Minutes of a day, the interval between two samples.
const DAY: usize = 1_440;
/// Minutes of the night, in which nothing happens. The rest of the day repeats the recording.
const NIGHT: usize = 480;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/project/alerts")
}

/// Runs promtool in the folder `at`, which must succeed.
fn promtool(at: &Path, arguments: &[&str]) {
    let output = Command::new("promtool").args(arguments).current_dir(at).output();
    let output = output.expect("promtool is installed");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn each_alert_fires_in_its_test() {
    promtool(&folder(), &["test", "rules", "fires.yml"]);
    promtool(&folder().join("../../../deploy"), &["check", "config", "prometheus.yml"]);
    let names = |file: &Path, prefix: &str| -> Vec<String> {
        let text = fs::read_to_string(file).expect("the file");
        text.lines().filter_map(|line| line.trim().strip_prefix(prefix)).map(str::to_owned).collect()
    };
    let alerts = names(&folder().join("../../../deploy/alerts.yml"), "- alert: ");
    assert_eq!(alerts.len(), 30, "{alerts:?}");
    assert_eq!(names(&folder().join("fires.yml"), "- name: "), alerts);
}

/// Values of one series, a sample each minute; None without a sample.
type Samples = Vec<Option<f64>>;

/// Reads samples in promtool's notation: `axn` is `a` n + 1 times, `a+bxn` grows by b, `_xn` is n times no
/// sample.
fn samples(notation: &str) -> Samples {
    let mut samples = Vec::new();
    for word in notation.split(' ') {
        let (first, times) = word.split_once('x').unwrap_or((word, "0"));
        let times: usize = times.parse().expect("a number of samples");
        if first == "_" {
            samples.resize(samples.len() + times.max(1), None);
            continue;
        }
        // A sign behind an exponent belongs to the number.
        let signs = first
            .char_indices()
            .skip(1)
            .filter(|(at, sign)| matches!(sign, '+' | '-') && !first[..*at].ends_with('e'));
        let at = signs.map(|(at, _)| at).next().unwrap_or(first.len());
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let step = if at < first.len() { number(&first[at..]) } else { 0.0 };
        samples.extend((0..=times).map(|i| Some(number(&first[..at]) + step * i as f64)));
    }
    samples
}

/// A day of which `recorded` is a part: first the night with the first sample, then the recording again and
/// again. Counters go on from their last value, and times move with the clock.
fn day(kind: &str, recorded: &[Option<f64>]) -> Samples {
    let length = recorded.len() - 1;
    let growth = recorded[length].unwrap_or_default() - recorded[0].unwrap_or_default();
    let at_minute = |minute: usize| {
        let Some(minute) = minute.checked_sub(NIGHT) else { return recorded[0] };
        let (round, at) = ((minute / length) as f64, minute % length);
        recorded[at].map(|value| match kind {
            "counter" => value + round * growth,
            // 0 stands for no time.
            "time" if value != 0.0 => value + 60.0 * (NIGHT as f64 + round * length as f64),
            _ => value,
        })
    };
    (0..=DAY).map(at_minute).collect()
}

/// Formats samples in promtool's notation, without steps.
fn notation(samples: &[Option<f64>]) -> String {
    let runs = samples.chunk_by(|a, b| a == b).map(|run| match run[0] {
        None => format!("_x{}", run.len()),
        Some(value) => format!("{value}x{}", run.len() - 1),
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// A test of promtool over a day: exactly the alerts `firing` fire, at any time.
fn one_day(name: &str, series: &str, firing: &[&str]) -> String {
    let expected = firing.iter().map(|alert| format!("{{labels: '{{alertname=\"{alert}\"}}', value: 1}}"));
    format!(
        "  - name: {name}\n    interval: 1m\n    input_series:\n{series}    promql_expr_test:\n      \
         - expr: 'max by (alertname) (max_over_time(ALERTS{{alertstate=\"firing\"}}[1d]))'\n        eval_time: {DAY}m\n        \
         exp_samples: [{}]\n",
        expected.collect::<Vec<_>>().join(", ")
    )
}

#[test]
fn a_day_of_a_healthy_program_raises_no_alert() {
    let recording = fs::read_to_string(folder().join("healthy.txt")).expect("the recording");
    let labelled = |series: &str| {
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        format!("{name}{{instance=\"host:7117\",job=\"orchestrator\",{labels}")
    };
    let line = |series: &str, samples: &[Option<f64>]| {
        format!("      - {{series: '{}', values: '{}'}}\n", labelled(series), notation(samples))
    };
    let up = |value| line("up", &[Some(value); DAY + 1]);
    let (mut series, mut count) = (up(1.0), 0);
    for recorded in recording.lines().filter(|line| !line.starts_with('#')) {
        let (kind, rest) = recorded.split_once(' ').expect("a kind");
        // Labels may contain spaces, values no brace.
        let (name, values) = match rest.rsplit_once("} ") {
            Some((labels, values)) => (format!("{labels}}}"), values),
            None => rest.split_once(' ').map(|(name, values)| (name.to_owned(), values)).expect("values"),
        };
        let values = samples(values);
        assert_eq!(values.len(), 31, "half an hour: {recorded}");
        // Writing to a String cannot fail.
        let _ = write!(series, "{}", line(&name, &day(kind, &values)));
        count += 1;
    }
    assert!(count > 200, "only {count} series");
    let rules = folder().join("../../../deploy/alerts.yml");
    let absent = one_day("nothing answers", &up(0.0), &["OrchestratorAbsent"]);
    let text = format!(
        "rule_files: ['{}']\nevaluation_interval: 1m\ntests:\n{}{absent}",
        rules.display(),
        one_day("healthy", &series, &[])
    );
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("day.yml"), text).expect("write the test");
    promtool(directory.path(), &["test", "rules", "day.yml"]);
    // Each subsystem worked.
    for (metric, least) in [
        ("queue_handed_out_jobs_total", 100.0),
        ("catalog_claimed_rows_total", 100.0),
        ("queue_answered_empty_requests_total", 1.0),
    ] {
        let name = format!("counter orchestrator_{metric}{{");
        let line = recording.lines().find(|line| line.starts_with(&name)).expect(metric);
        let values = samples(line.rsplit_once("} ").expect("values").1);
        assert!(values[30] >= values[0].map(|first| first + least), "{line}");
    }
}

#[test]
fn prometheus_accepts_the_sample_configuration_and_the_dashboard() {
    let deploy = folder().join("../../../deploy");
    let directory = tempfile::tempdir().expect("a directory");
    let token = directory.path().join("token");
    fs::write(&token, "secret").expect("a token");
    let sample = fs::read_to_string(deploy.join("prometheus.yml")).expect("the sample");
    let file = "/etc/prometheus/orchestrator.token";
    assert!(sample.contains(file), "{sample}");
    fs::write(directory.path().join("prometheus.yml"), sample.replace(file, &token.display().to_string()))
        .expect("write the sample");
    fs::copy(deploy.join("alerts.yml"), directory.path().join("alerts.yml")).expect("copy the rules");
    promtool(directory.path(), &["check", "config", "prometheus.yml"]);

    let dashboard = fs::read_to_string(deploy.join("grafana-dashboard.json")).expect("the dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let (mut row, mut rows) = ("", Vec::new());
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        if panel["type"] == "row" {
            (row, rows) = (title, [rows, vec![title]].concat());
            continue;
        }
        for target in panel["targets"].as_array().expect("targets") {
            let expr = target["expr"].as_str().expect("an expression");
            if row != "Process" {
                let prefix = format!("orchestrator_{}_", row.to_lowercase());
                assert!(expr.contains(&prefix), "{title}, in the row {row}: {expr}");
            }
            let _ = writeln!(rules, "      - {{record: 'a:b', expr: '{expr}'}}");
        }
    }
    assert_eq!(rows, ["Process", "Queue", "Provenance", "Ingester", "Producer", "Catalog"]);
    fs::write(directory.path().join("dashboard.yml"), rules).expect("write the rules");
    promtool(directory.path(), &["check", "rules", "--lint=none", "dashboard.yml"]);
}
