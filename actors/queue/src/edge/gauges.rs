//! Gauges of waiting and in-flight jobs. They are counted at intervals, since SQLite has no cheap count, and
//! when an operator looks at jobs.

use std::time::{Duration, Instant};

use orchestrator_observe::metrics;
use orchestrator_queue_rules::storage::{Sample, StorageError};
use orchestrator_queue_store::unix_time;
use orchestrator_supervise::Vitals;

/// Minimum interval of the counts.
const INTERVAL: Duration = Duration::from_secs(15);
/// Interval of the tries while the database cannot be read.
const RETRY: Duration = Duration::from_secs(1);
/// The same for counts that an operator looks at.
const LOOKED_AT: (Duration, u32) = (Duration::from_secs(1), 50);
/// Minimum interval as a multiple of the duration of a count.
const INTERVAL_FACTOR: u32 = 200;

metrics! {
    /// Gauges of the queue, as of the last count.
    struct JobGauges {
        /// Jobs that wait for a worker, including those whose attribute path is held.
        waiting: gauge("jobs"),
        /// Jobs handed out and not reported done, however long ago.
        in_flight: gauge("jobs"),
        /// Time since the first run with a waiting job was added; 0 without a waiting job.
        oldest_waiting: gauge("seconds"),
        /// Unix time of the last DONE; 0 if there was none.
        last_done: gauge("timestamp_seconds"),
        /// Jobs reported done in the last 24 hours with exit code 0, of the attempts that are kept.
        done_in_a_day: gauge("jobs"),
        /// Jobs reported done in the last 24 hours with another exit code, of the attempts that are kept.
        failed_in_a_day: gauge("jobs"),
        /// Unix time from which the jobs of the last 24 hours are counted: later than 24 hours ago if older
        /// attempts are not kept.
        day_counted_since: gauge("timestamp_seconds"),
        /// Time until no job waits at the rate of the last hour; 0 if fewer than 10 jobs ended in it, or none
        /// waits.
        time_to_empty: gauge("seconds"),
        /// Unix time at which the gauges of jobs were counted; 0 before the first count.
        counted: gauge("timestamp_seconds"),
    }
}

/// The gauges, and the time of the next count.
pub(super) struct Gauges {
    metrics: JobGauges,
    next_sample: Instant,
    /// Time before which nobody's look causes a count.
    earliest: Instant,
}

impl Gauges {
    pub(super) fn new(vitals: &Vitals) -> Self {
        let now = Instant::now();
        Self { metrics: JobGauges::register(vitals), next_sample: now, earliest: now }
    }

    pub(super) fn next_sample(&self) -> Instant {
        self.next_sample
    }

    /// After a failure the gauges keep their values.
    pub(super) fn sample(&mut self, count: impl FnOnce() -> Result<Sample, StorageError>) {
        let begun = Instant::now();
        let counted = count();
        let interval = match counted {
            Ok(sample) => {
                self.set(&sample);
                INTERVAL
            }
            // The store has not opened the database yet, or the disk fails.
            Err(error) => {
                tracing::debug!(%error, "cannot count for the metrics");
                RETRY
            }
        };
        let (now, took) = (Instant::now(), begun.elapsed());
        self.next_sample = now + interval.max(took * INTERVAL_FACTOR);
        self.earliest = now + LOOKED_AT.0.max(took * LOOKED_AT.1);
    }

    /// Counts soon: an operator looks at jobs, and compares their number.
    pub(super) fn hasten(&mut self) {
        self.next_sample = self.next_sample.min(self.earliest);
    }

    fn set(&self, sample: &Sample) {
        let seconds = |time: Option<i64>| u64::try_from(time.unwrap_or(0)).unwrap_or(0);
        self.metrics.waiting.set(sample.waiting);
        self.metrics.in_flight.set(sample.in_flight);
        self.metrics.oldest_waiting.set(seconds(sample.oldest_waiting.map(|added| unix_time() - added)));
        self.metrics.last_done.set(seconds(sample.last_done));
        self.metrics.done_in_a_day.set(sample.ends.done);
        self.metrics.failed_in_a_day.set(sample.ends.failed);
        self.metrics.day_counted_since.set(seconds(Some(sample.ends.since)));
        self.metrics.time_to_empty.set(sample.time_to_empty.unwrap_or(0));
        self.metrics.counted.set(seconds(Some(unix_time())));
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_supervise::testing;

    use orchestrator_queue_rules::storage::StorageErrorKind;

    use super::*;

    #[test]
    fn jobs_are_counted_soon_after_an_operator_looks_and_seldom_otherwise() {
        let mut gauges = Gauges::new(&testing::vitals("queue"));
        let begun = Instant::now();
        gauges.sample(|| Err(StorageError::new(StorageErrorKind::NotOpen, "q.db")));
        assert!(gauges.next_sample() >= begun + RETRY);
        gauges.sample(|| Ok(Sample { in_flight: 3, ..Sample::default() }));
        let took = begun.elapsed();
        assert!(gauges.next_sample() >= begun + INTERVAL);
        assert_eq!(gauges.metrics.in_flight.get(), 3);
        assert!(gauges.metrics.counted.get() > 0);
        gauges.hasten();
        let soon = LOOKED_AT.0.max(took * LOOKED_AT.1);
        assert!(gauges.next_sample() <= Instant::now() + soon);
        assert!(gauges.next_sample() >= begun + LOOKED_AT.0, "not at each look");
    }
}
