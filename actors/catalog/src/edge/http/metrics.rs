//! Metrics of requests.

use std::time::Duration;

use hyper::StatusCode;
use orchestrator_observe::{GaugeGuard, Metric, MetricKind, Timing, metrics};
use orchestrator_supervise::Vitals;

/// Classes of status codes, by first digit.
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

metrics! {
    /// Metrics of all requests.
    struct RequestMetrics {
        /// Reads answered with 304: the catalog has not changed.
        not_modified: counter("requests"),
        /// Writes answered with 412.
        precondition_failed: counter("requests"),
        /// Transactions that the server aborted because of a conflict (503); each is retried at
        /// once, except claims, after which another poll follows.
        aborted: counter("requests"),
        /// Requests in flight.
        in_flight: gauge("requests"),
    }
}

pub(super) struct HttpMetrics {
    requests: [Metric; CLASSES.len()],
    metrics: RequestMetrics,
    reading: Timing,
    writing: Timing,
}

impl HttpMetrics {
    pub(super) fn register(vitals: &Vitals) -> Self {
        let help = "Time from sending a request to its response, or to giving up.";
        let timing = |method| vitals.register_timing("request_duration", help, ("method", method));
        Self {
            requests: CLASSES.map(|class| {
                let help = "Requests by the class of the answer's status; `none`: no answer.";
                vitals.register_labelled("requests", "requests", MetricKind::Counter, help, ("status", class))
            }),
            metrics: RequestMetrics::register(vitals),
            reading: timing("get"),
            writing: timing("put"),
        }
    }

    /// Counts a request as in flight until the returned guard is dropped.
    pub(super) fn begin(&self) -> GaugeGuard {
        self.metrics.in_flight.hold()
    }

    /// Records the end of a request; `status` is None without an answer.
    pub(super) fn count(&self, status: Option<StatusCode>, is_get: bool, span: Duration) {
        let class = status.map_or(CLASSES.len(), |status| usize::from(status.as_u16() / 100));
        // Statuses beyond 5xx count as no answer.
        self.requests[class.clamp(1, CLASSES.len()) - 1].add(1);
        match status {
            Some(StatusCode::NOT_MODIFIED) => self.metrics.not_modified.add(1),
            Some(StatusCode::PRECONDITION_FAILED) => self.metrics.precondition_failed.add(1),
            _ => {}
        }
        if is_get { &self.reading } else { &self.writing }.record(span);
    }

    pub(super) fn count_aborted(&self) {
        self.metrics.aborted.add(1);
    }
}
