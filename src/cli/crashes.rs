//! `orchestrator crashes`: the last crashes of each child, newest first.

use std::fmt::Write;

use orchestrator_admin::timestamp::rfc3339;
use orchestrator_observe::without_root;
use orchestrator_subsystem::{
    output,
    wire::{CrashReport, Crashes, SampledMetric, Samples},
};

use crate::cli::tail;

/// Most metrics that are printed of one report; JSON has all.
const METRICS_MAX: usize = 20;

pub(super) fn render(crashes: &Crashes) -> String {
    if crashes.crashes.is_empty() {
        return "no child has crashed\n".to_owned();
    }
    let reports: Vec<_> = crashes.crashes.iter().map(render_report).collect();
    let mut text = reports.join("\n");
    if crashes.left_out > 0 {
        let _ = writeln!(text, "\n{} older reports are left out: name a child", crashes.left_out);
    }
    text
}

fn render_report(report: &CrashReport) -> String {
    let (at, path) = (rfc3339(report.at_ms), without_root(&report.path));
    let mut text = format!("{at}  {path}, incarnation {}\n", report.incarnation);
    let _ = writeln!(text, "  {}: {}", report.kind, report.message);
    if let Some(location) = &report.location {
        let _ = writeln!(text, "  at {location}");
    }
    if let Some(work) = &report.in_progress {
        let _ = writeln!(text, "  in progress: {work}, which is lost");
    }
    if !report.events.is_empty() {
        text.push_str("  events before:\n");
    }
    for event in &report.events {
        let before = std::time::Duration::from_millis(report.at_ms.saturating_sub(event.at_ms)).as_secs_f64();
        let value = serde_json::to_value(event).unwrap_or_default();
        let _ = writeln!(text, "    -{before:.1} s  {}", tail::describe(&event.path, &value));
    }
    if let Some(samples) = report.samples.as_ref().filter(|samples| !samples.at_ms.is_empty()) {
        render_samples(samples, &mut text);
    }
    if !report.backtrace.is_empty() {
        text.push_str("  backtrace:\n");
    }
    for (number, frame) in report.backtrace.iter().enumerate() {
        let _ = writeln!(text, "    {number}: {frame}");
    }
    if !report.left_out.is_empty() {
        let _ =
            writeln!(text, "  left out, since a report has 64 KiB at most: {}", report.left_out.join(", "));
    }
    text
}

/// Prints the metrics that changed in the minute before the crash.
fn render_samples(samples: &Samples, text: &mut String) {
    let changed: Vec<_> = samples.series.iter().filter(|series| series.changes()).collect();
    let same = samples.series.len() - changed.len();
    let _ = writeln!(text, "  metrics of the minute before, oldest value first ({same} did not change):");
    let shown = &changed[..changed.len().min(METRICS_MAX)];
    let width = shown.iter().map(|series| series.metric.chars().count()).max().unwrap_or(0);
    for SampledMetric { metric, values } in shown {
        let values =
            values.iter().map(|value| value.map_or_else(|| "-".to_owned(), |value| value.to_string()));
        let values: Vec<_> = values.collect();
        let _ = writeln!(text, "    {:width$}  {}", output::escape_line(metric), values.join(" "));
    }
    if changed.len() > shown.len() {
        let _ = writeln!(text, "    and {} more: see --json", changed.len() - shown.len());
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_subsystem::wire::{Event, EventKind};

    use super::*;

    fn report() -> CrashReport {
        let series = |metric: &str, values: [Option<i64>; 2]| SampledMetric {
            metric: metric.to_owned(),
            values: values.to_vec(),
        };
        CrashReport {
            number: 3,
            at_ms: 1_763_692_415_332,
            path: "orchestrator/queue/reader".to_owned(),
            incarnation: 2,
            kind: "panicked".to_owned(),
            message: "index out of bounds".to_owned(),
            location: Some("actors/queue/src/lines.rs:12:5".to_owned()),
            in_progress: Some("ReadPart".to_owned()),
            events: vec![Event {
                seq: 1,
                at_ms: 1_763_692_413_132,
                path: "orchestrator/queue/inotify".to_owned(),
                kind: EventKind::LinkDown { reason: "gone".to_owned() },
            }],
            samples: Some(Samples {
                at_ms: vec![1, 2],
                series: vec![
                    series("mailbox_depth", [None, Some(9)]),
                    series("mailbox_refused", [Some(0), Some(0)]),
                ],
            }),
            backtrace: vec!["queue::lines::split at lines.rs:12".to_owned()],
            left_out: vec!["3 frames".to_owned()],
        }
    }

    #[test]
    fn a_report_is_printed_with_all_its_parts() {
        let expected = "2025-11-21T02:33:35.332Z  queue/reader, incarnation 2\n  \
            panicked: index out of bounds\n  \
            at actors/queue/src/lines.rs:12:5\n  \
            in progress: ReadPart, which is lost\n  \
            events before:\n    \
            -2.2 s  orchestrator/queue/inotify  link_down  reason=\"gone\"\n  \
            metrics of the minute before, oldest value first (1 did not change):\n    \
            mailbox_depth  - 9\n  \
            backtrace:\n    \
            0: queue::lines::split at lines.rs:12\n  \
            left out, since a report has 64 KiB at most: 3 frames\n";
        assert_eq!(render(&Crashes { crashes: vec![report()], left_out: 0 }), expected);
        let many = render(&Crashes { crashes: vec![report()], left_out: 7 });
        assert!(many.ends_with("\n7 older reports are left out: name a child\n"), "{many}");
    }

    #[test]
    fn a_report_without_details_is_short() {
        let bare = CrashReport {
            location: None,
            in_progress: None,
            events: Vec::new(),
            samples: None,
            backtrace: Vec::new(),
            left_out: Vec::new(),
            kind: "failed".to_owned(),
            message: "no room".to_owned(),
            ..report()
        };
        let expected = "2025-11-21T02:33:35.332Z  queue/reader, incarnation 2\n  failed: no room\n";
        assert_eq!(render(&Crashes { crashes: vec![bare], left_out: 0 }), expected);
        assert_eq!(render(&Crashes { crashes: Vec::new(), left_out: 0 }), "no child has crashed\n");
    }
}
