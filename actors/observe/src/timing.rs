//! Histograms of durations of a child, one for each value of a label.

use std::{sync::Arc, time::Duration};

use crate::histogram::Histogram;

/// Registered histogram of durations. Clones share it.
///
/// Name and label are constants of the program, so that peers cannot add series.
#[derive(Debug, Clone)]
pub struct Timing {
    /// Name within the child, for example `call_duration`.
    pub name: &'static str,
    /// Help text, one sentence about its meaning.
    pub help: &'static str,
    /// Name and value of the label, for example `("method", "content_add")`.
    pub label: (&'static str, &'static str),
    /// Recorded durations.
    pub histogram: Arc<Histogram>,
}

impl Timing {
    pub(crate) fn new(
        name: &'static str,
        help: &'static str,
        label: (&'static str, &'static str),
        resolution: Duration,
    ) -> Self {
        debug_assert!(!help.is_empty(), "metric {name} has no help text");
        Self { name, help, label, histogram: Arc::new(Histogram::with_resolution(resolution)) }
    }

    /// Adds one duration.
    pub fn record(&self, span: Duration) {
        self.histogram.record(span);
    }
}
