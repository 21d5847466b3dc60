//! The child's figures.

use std::{cell::Cell, time::Duration};

use hyper::StatusCode;
use orchestrator_supervise::{Metric, MetricKind, Timing, Vitals, metrics};

/// Classes of status codes, by their first digit.
const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

metrics! {
    /// Metrics of all requests.
    struct RequestMetrics {
        /// Questions answered with 304: nothing has changed.
        not_modified: counter("requests"),
        /// Writes answered with 412.
        precondition_failed: counter("requests"),
        /// Transactions that the server aborted because they met others (503), each tried again at once.
        aborted: counter("requests"),
        /// Requests under way.
        in_flight: gauge("requests"),
    }
}

pub(super) struct Figures {
    requests: [Metric; CLASSES.len()],
    metrics: RequestMetrics,
    under_way: Cell<u64>,
    reading: Timing,
    writing: Timing,
}

/// A request under way.
pub(super) struct UnderWay<'a>(&'a Figures);

impl Figures {
    pub(super) fn declare(vitals: &Vitals) -> Self {
        let help = "Time from sending a request to its response, or to giving up.";
        let timing = |method| vitals.register_timing("request_duration", help, ("method", method));
        Self {
            requests: CLASSES.map(|class| {
                let help = "Requests by the class of the answer's status; `none`: no answer.";
                vitals.register_labelled("requests", "requests", MetricKind::Counter, help, ("status", class))
            }),
            metrics: RequestMetrics::register(vitals),
            under_way: Cell::default(),
            reading: timing("get"),
            writing: timing("put"),
        }
    }

    /// A request begins; it is under way until what is given is dropped.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.under_way.set(self.under_way.get() + 1);
        self.metrics.in_flight.set(self.under_way.get());
        UnderWay(self)
    }

    /// A request was answered with `status`, or with nothing.
    pub(super) fn count(&self, status: Option<StatusCode>, is_get: bool, span: Duration) {
        let class = status.map_or(CLASSES.len(), |status| usize::from(status.as_u16() / 100));
        // What a server makes up beyond 5xx is as good as nothing.
        self.requests[class.clamp(1, CLASSES.len()) - 1].add(1);
        match status {
            Some(StatusCode::NOT_MODIFIED) => self.metrics.not_modified.add(1),
            Some(StatusCode::PRECONDITION_FAILED) => self.metrics.precondition_failed.add(1),
            _ => {}
        }
        if is_get { &self.reading } else { &self.writing }.record(span);
    }

    /// A transaction was aborted.
    pub(super) fn count_aborted(&self) {
        self.metrics.aborted.add(1);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let Self(figures) = self;
        figures.under_way.set(figures.under_way.get().saturating_sub(1));
        figures.metrics.in_flight.set(figures.under_way.get());
    }
}
