//! Counters and log lines for the outcomes of messages.

use orchestrator_ingester_protocols::Outcome;

use crate::source::SourceCx;

/// Effect of a message dropped within a series whose items match events by position.
const SHIFT: &str = "message dropped, so later frames go to earlier events";

/// Counter of one run's outcomes.
#[derive(Debug)]
pub(super) struct OutcomeCounter {
    cx: SourceCx,
    invalid: u64,
    /// Items carry the numbers of their events, so a dropped message shifts none.
    numbers_events: bool,
    /// The series has begun: items have been taken.
    has_begun: bool,
    /// The sender publishes to whoever listens, so that what precedes a series is not news.
    publishes: bool,
}

impl OutcomeCounter {
    pub(super) fn new(cx: SourceCx) -> Self {
        Self { cx, invalid: 0, numbers_events: false, has_begun: false, publishes: false }
    }

    /// Does not announce a shift of items to earlier events if `numbers_events`.
    pub(super) fn numbering_events(self, numbers_events: bool) -> Self {
        Self { numbers_events, ..self }
    }

    /// Does not call it an error if messages of another kind precede a series.
    pub(super) fn publishing(self, publishes: bool) -> Self {
        Self { publishes, ..self }
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Taken => self.has_begun = true,
            Outcome::Ignored => {}
            Outcome::Outside => self.cx.counts.outside.add(1),
            Outcome::Invalid(reason) => self.log_invalid(&reason, self.effect()),
        }
    }

    /// Counts an invalid part of a series.
    pub(super) fn invalid(&mut self, reason: &str) {
        self.log_invalid(reason, SHIFT);
    }

    /// Effect of a dropped message on the events.
    fn effect(&self) -> &'static str {
        match (self.numbers_events, self.has_begun) {
            (true, _) => "message dropped; other items keep their events",
            (false, false) => "message dropped before a series; unless it was the start, no event changes",
            (false, true) => SHIFT,
        }
    }

    /// Counts an invalid message. The 1st, 2nd, 4th, 8th .. is logged.
    fn log_invalid(&mut self, reason: &str, effect: &str) {
        self.cx.counts.invalid.add(1);
        self.invalid += 1;
        if self.invalid.is_power_of_two() {
            let so_far = self.invalid;
            // The original's levels.
            if self.publishes && !self.has_begun {
                tracing::warn!(stream = &*self.cx.stream, so_far, "{effect}: {reason}");
            } else {
                tracing::error!(stream = &*self.cx.stream, so_far, "{effect}: {reason}");
            }
        }
    }

    pub(super) fn outside(&self, count: u64) {
        self.cx.counts.outside.add(count);
    }

    pub(super) fn stream(&self) -> &str {
        &self.cx.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sources::support::bench;

    #[test]
    fn a_shift_is_announced_only_within_a_series_of_unnumbered_items() {
        bench(async |bench| {
            for numbers_events in [false, true] {
                let mut counter = OutcomeCounter::new(bench.cx("s")).numbering_events(numbers_events);
                counter.count(Outcome::Outside);
                assert_ne!(counter.effect(), SHIFT);
                counter.count(Outcome::Taken);
                assert_eq!(counter.effect() == SHIFT, !numbers_events);
            }
        });
    }
}
