//! Input that a child expects at intervals, such as a file every eight hours.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use orchestrator_text::sanitize;

use crate::{
    clock::{millis, now_ms, steady_ms},
    snapshot::ExpectedInputSnapshot,
};

/// Input that arrives at least once in a period, unless its sender has failed. Clones share the time of the
/// last arrival.
#[derive(Debug, Clone)]
pub struct ExpectedInput {
    name: Arc<str>,
    every: Duration,
    help: Arc<str>,
    /// Last arrival, or the declaration, by the steady clock in milliseconds; negative before the start of
    /// the process.
    last_ms: Arc<AtomicI64>,
}

impl ExpectedInput {
    /// Creates an input whose period begins now.
    pub(crate) fn new(name: &str, every: Duration, help: &str) -> Self {
        let last_ms = Arc::new(AtomicI64::new(signed(steady_ms())));
        Self { name: sanitize(name).into(), every, help: sanitize(help).into(), last_ms }
    }

    /// Keeps the last arrival.
    pub(crate) fn with(&self, every: Duration, help: &str) -> Self {
        Self { every, help: sanitize(help).into(), ..self.clone() }
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        *self.name == *sanitize(name)
    }

    /// Records that input has just arrived. It reads the clock, so a child calls it once a batch.
    pub fn arrived(&self) {
        self.arrived_before(Duration::ZERO);
    }

    /// Records that the last input arrived `ago`, for a child that knows it from a file or a database.
    pub fn arrived_before(&self, ago: Duration) {
        self.last_ms.store(signed(steady_ms()).saturating_sub(signed(millis(ago))), Relaxed);
    }

    pub(crate) fn snapshot(&self) -> ExpectedInputSnapshot {
        self.snapshot_at(signed(steady_ms()), now_ms())
    }

    fn snapshot_at(&self, steady_ms: i64, wall_ms: u64) -> ExpectedInputSnapshot {
        let silent_ms = steady_ms.saturating_sub(self.last_ms.load(Relaxed)).max(0).unsigned_abs();
        let every_ms = millis(self.every);
        ExpectedInputSnapshot {
            name: self.name.to_string(),
            every_ms,
            last_ms: wall_ms.saturating_sub(silent_ms),
            late_ms: silent_ms.saturating_sub(every_ms),
            help: self.help.to_string(),
        }
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_late_after_its_period() {
        let input = ExpectedInput::new("github", Duration::from_secs(60), "start it");
        let start = input.last_ms.load(Relaxed);
        let late_ms = |after_ms: i64| input.snapshot_at(start + after_ms, 1_000_000).late_ms;
        assert_eq!([-5, 0, 60_000, 60_001, 90_000].map(late_ms), [0, 0, 0, 1, 30_000]);
        assert_eq!(input.snapshot_at(start + 90_000, 1_000_000).last_ms, 910_000);
        // A database may know an arrival before the start of the process.
        input.arrived_before(Duration::from_secs(3_600));
        let late_ms = input.snapshot().late_ms;
        assert!((3_540_000..3_600_000).contains(&late_ms), "{late_ms}");
        let longer = input.with(Duration::from_secs(7_200), "start it");
        assert_eq!(longer.snapshot().late_ms, 0, "the last arrival stays");
        longer.arrived();
        assert_eq!(input.snapshot().late_ms, 0);
    }
}
