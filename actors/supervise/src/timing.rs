//! Durations that a child declares: a histogram for each value of one label, beside the metrics.

use std::{sync::Arc, time::Duration};

use crate::histogram::Histogram;

/// A declared histogram of durations. Clones share it.
///
/// Name and label are texts of the program, so their number is bounded by the program, never by what peers send.
#[derive(Debug, Clone)]
pub struct Timing {
    name: &'static str,
    help: &'static str,
    label: (&'static str, &'static str),
    histogram: Arc<Histogram>,
}

impl Timing {
    pub(crate) fn new(name: &'static str, help: &'static str, label: (&'static str, &'static str)) -> Self {
        debug_assert!(!help.is_empty(), "metric {name} has no help text");
        Self { name, help, label, histogram: Arc::default() }
    }

    /// Its name within the child, e.g. `call_duration`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Help text: the meaning of the metric, one sentence.
    pub fn help(&self) -> &'static str {
        self.help
    }

    /// What tells it from others of the name: the label's name and its value, e.g. `("method", "content_add")`.
    pub fn label(&self) -> (&'static str, &'static str) {
        self.label
    }

    /// Adds one duration.
    pub fn record(&self, span: Duration) {
        self.histogram.record(span);
    }

    /// What was recorded.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }
}
