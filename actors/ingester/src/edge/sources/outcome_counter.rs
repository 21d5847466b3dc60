//! Counters and log lines for the outcomes of messages.

use crate::{protocol::Outcome, source::SourceCx};

/// Counter of one run's outcomes.
#[derive(Debug)]
pub(super) struct OutcomeCounter {
    cx: SourceCx,
    invalid: u64,
}

impl OutcomeCounter {
    pub(super) fn new(cx: SourceCx) -> Self {
        Self { cx, invalid: 0 }
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Taken | Outcome::Ignored => {}
            Outcome::Outside => self.cx.counts.outside.add(1),
            Outcome::Invalid(reason) => self.invalid(&reason),
        }
    }

    /// Counts an invalid message. The 1st, 2nd, 4th, 8th .. is logged.
    pub(super) fn invalid(&mut self, reason: &str) {
        self.cx.counts.invalid.add(1);
        self.invalid += 1;
        if self.invalid.is_power_of_two() {
            let so_far = self.invalid;
            tracing::error!(
                stream = &*self.cx.stream,
                so_far,
                "message dropped, so later frames go to earlier events: {reason}"
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
