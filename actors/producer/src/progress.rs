//! Progress line at a terminal.

use orchestrator_observe::MetricSnapshot;

fn value(metrics: &[MetricSnapshot], name: &str) -> i64 {
    metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
}

pub(crate) fn line(metrics: &[MetricSnapshot], rate: i64) -> String {
    let value = |name: &str| value(metrics, name);
    let (tcn, pushed, total) = (value("tcn"), value("stencil_pushed"), value("stencil_total"));
    text(tcn, pushed, total, rate, value("blocked") > 0)
}

fn text(tcn: i64, pushed: i64, total: i64, rate: i64, awaiting: bool) -> String {
    if awaiting {
        return format!(
            "TCN {tcn}: everything is pushed, waiting for workers: see `orchestrator producer status`"
        );
    }
    let left = total.saturating_sub(pushed);
    let eta = if rate > 0 { format!(", {} s left", (left + rate - 1) / rate) } else { String::new() };
    format!("TCN {tcn}: {pushed} of {total} jobs of the current stencil are pushed, {rate}/s{eta}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_progress_and_time_left() {
        assert_eq!(
            text(5, 40, 100, 25, false),
            "TCN 5: 40 of 100 jobs of the current stencil are pushed, 25/s, 3 s left"
        );
        assert_eq!(
            text(5, 40, 100, 0, false),
            "TCN 5: 40 of 100 jobs of the current stencil are pushed, 0/s"
        );
        assert!(text(5, 100, 100, 0, true).starts_with("TCN 5: everything is pushed, waiting"));
    }
}
