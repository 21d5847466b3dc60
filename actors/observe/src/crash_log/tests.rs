//! Tests of the log's limits.

use super::*;
use crate::{
    crash_report::{REPORT_BYTES_MAX, SampledMetric},
    event::{Event, EventKind},
};

fn report(path: &str, message: &str) -> CrashReport {
    CrashReport {
        number: 0,
        at_ms: 1,
        path: path.to_owned(),
        incarnation: 1,
        kind: "panicked".to_owned(),
        message: message.to_owned(),
        location: None,
        in_progress: None,
        events: Vec::new(),
        samples: None,
        backtrace: Vec::new(),
        left_out: Vec::new(),
    }
}

fn messages(log: &CrashLog, path: &str) -> Vec<String> {
    log.reports(path, usize::MAX).0.into_iter().map(|report| report.message).collect()
}

fn samples(metrics: usize) -> Samples {
    let series = (0..metrics).map(|i| SampledMetric {
        metric: format!("frames{{worker={i}}}"),
        values: (0..12).map(|at| (at > 0).then_some(if i % 2 == 0 { 7 } else { i64::MIN + at })).collect(),
    });
    Samples { at_ms: (0..12).collect(), series: series.collect() }
}

#[test]
fn the_eleventh_report_of_a_child_replaces_its_first() {
    let log = CrashLog::default();
    log.record(report("o/a", "other"), Frames::default());
    for number in 0..=CRASHES_PER_CHILD {
        log.record(report("o/ab", &number.to_string()), Frames::default());
    }
    let newest_first: Vec<_> = (1..=CRASHES_PER_CHILD).rev().map(|number| number.to_string()).collect();
    assert_eq!(messages(&log, "o/ab"), newest_first);
    assert_eq!(messages(&log, "o/a"), ["other"], "another child with a similar path");
    assert_eq!(log.reports("o", usize::MAX).0.len(), CRASHES_PER_CHILD + 1);
    assert_eq!(log.reports("o", usize::MAX).0[0].number, CRASHES_PER_CHILD as u64 + 2);
    let (newest, older) = log.reports("o", 1);
    assert_eq!((newest.len(), newest[0].number, older), (1, CRASHES_PER_CHILD as u64 + 2, CRASHES_PER_CHILD));
}

#[test]
fn the_largest_report_has_64_kib_and_says_what_is_left_out() {
    let log = CrashLog::default();
    // Each of these characters takes two bytes in JSON.
    let text = "\"".repeat(512);
    let event = |seq| Event {
        seq,
        at_ms: 1,
        path: "o/a".to_owned(),
        kind: EventKind::Commanded {
            verb: "restart".to_owned(),
            by: text.clone(),
            reason: text.clone(),
            outcome: text.clone(),
        },
    };
    log.record(
        CrashReport { events: (1..=20).map(event).collect(), ..report("o/a", &text) },
        Frames::capture(),
    );
    let [(number, path, 1)] = &log.without_samples()[..] else { panic!("{:?}", log.without_samples()) };
    assert_eq!(path, "o/a");
    log.add_samples(*number, samples(1_000));
    assert_eq!(log.without_samples(), []);
    let (mut reports, 0) = log.reports("o/a", usize::MAX) else { panic!("a report is left out") };
    let mut report = reports.remove(0);
    assert!(report.bytes() <= REPORT_BYTES_MAX, "{} bytes", report.bytes());
    assert!(!report.backtrace.is_empty());
    report.add_backtrace(vec!["\u{e4}".repeat(256); 200]);
    assert!(report.bytes() <= REPORT_BYTES_MAX, "{} bytes", report.bytes());
    let json = serde_json::to_string(&report).expect("JSON").len();
    assert!(report.bytes() > REPORT_BYTES_MAX * 9 / 10 && json <= report.bytes(), "{json} bytes");
    assert_eq!(report.events.last().map(|event| event.seq), Some(20), "the oldest events are left out");
    let marks: Vec<_> = report.left_out.iter().filter_map(|mark| mark.split(' ').nth(1)).collect();
    assert_eq!(marks, ["events", "metrics", "frames"]);
    let kept = &report.samples.as_ref().expect("samples").series;
    assert!(kept[0].changes(), "metrics that change come first: {kept:?}");
}

#[test]
fn all_reports_take_4_mib_at_most_and_the_oldest_go_first() {
    let log = CrashLog::default();
    for number in 0..1_000 {
        log.record(report(&format!("o/{number}"), &"x".repeat(512)), Frames::capture());
        log.add_samples(number + 1, samples(12));
    }
    let bytes = log.log.lock().bytes;
    assert!(bytes <= LOG_BYTES_MAX && bytes > LOG_BYTES_MAX * 9 / 10, "{bytes}");
    let counted: usize = log.log.lock().crashes.iter().map(|crash| crash.bytes).sum();
    assert_eq!(bytes, counted);
    assert_eq!(log.log.lock().crashes.back().map(|crash| crash.report.number), Some(1_000));
    let (reports, older) = log.reports("o", usize::MAX);
    assert_eq!(reports.len() + older, log.log.lock().crashes.len());
    assert_eq!(reports[0].number, 1_000);
    let json: usize = reports.iter().map(CrashReport::bytes).sum();
    assert!(json <= LOG_BYTES_MAX, "{json}");
    log.add_samples(1, samples(1));
    assert_eq!(log.log.lock().bytes, bytes, "samples of a dropped report are ignored");
}
