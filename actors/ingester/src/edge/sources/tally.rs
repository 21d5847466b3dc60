//! What recognisers say of messages, counted and told.

use crate::{protocol::Verdict, source::SourceCx};

/// Counts the messages of one run.
#[derive(Debug)]
pub(super) struct Tally {
    cx: SourceCx,
    invalid: u64,
}

impl Tally {
    pub(super) fn new(cx: SourceCx) -> Self {
        Self { cx, invalid: 0 }
    }

    pub(super) fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Taken | Verdict::Ignored => {}
            Verdict::Outside => self.cx.counts.outside.add(1),
            Verdict::Invalid(reason) => self.invalid(&reason),
        }
    }

    /// Counts one. All are counted, but of a flood not all are logged.
    pub(super) fn invalid(&mut self, reason: &str) {
        self.cx.counts.invalid.add(1);
        self.invalid += 1;
        if self.invalid.is_power_of_two() {
            let so_far = self.invalid;
            tracing::error!(
                stream = &*self.cx.stream,
                so_far,
                "thrown away, so that later frames go to earlier events: {reason}"
            );
        }
    }

    pub(super) fn outside(&self, count: u64) {
        self.cx.counts.outside.add(count);
    }

    pub(super) fn stream(&self) -> &str {
        &self.cx.stream
    }
}
