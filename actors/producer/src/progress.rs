//! The line that shows how far a producer is.

use orchestrator_supervise::MetricSnapshot;

fn value(metrics: &[MetricSnapshot], name: &str) -> i64 {
    metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
}

/// Returns the line that a terminal shows, from the metrics of the actor.
pub(crate) fn line(metrics: &[MetricSnapshot], rate: i64) -> String {
    let value = |name: &str| value(metrics, name);
    let (tcn, pushed, total) = (value("tcn"), value("stencil_pushed"), value("stencil_total"));
    text(tcn, pushed, total, rate, value("blocked") > 0)
}

fn text(tcn: i64, pushed: i64, total: i64, rate: i64, waits: bool) -> String {
    if waits {
        return format!(
            "TCN {tcn}: all is pushed, waiting for workers: `orchestrator producer status` says for what"
        );
    }
    let left = total.saturating_sub(pushed);
    let eta = if rate > 0 { format!(", {} s left", (left + rate - 1) / rate) } else { String::new() };
    format!("TCN {tcn}: {pushed} of {total} jobs of its stencil are pushed, {rate}/s{eta}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_is_left_at_this_speed() {
        assert_eq!(
            text(5, 40, 100, 25, false),
            "TCN 5: 40 of 100 jobs of its stencil are pushed, 25/s, 3 s left"
        );
        assert_eq!(text(5, 40, 100, 0, false), "TCN 5: 40 of 100 jobs of its stencil are pushed, 0/s");
        assert!(text(5, 100, 100, 0, true).starts_with("TCN 5: all is pushed, waiting"));
    }
}
