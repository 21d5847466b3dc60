//! Metrics of the queue store.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use orchestrator_observe::{GaugeGuard, Timing, metrics};
use orchestrator_queue_rules::storage::{Job, UNSENT_BYTES_MAX};
use orchestrator_supervise::Vitals;

metrics! {
    /// Metrics since the start of the process; they outlive restarts of the child.
    pub(crate) struct StoreMetrics {
        /// Transactions committed; waiting requests share one.
        pub(crate) commits: counter("commits"),
        /// Jobs handed out.
        pub(crate) jobs: counter("jobs") as "handed_out",
        /// Requests answered with `NOJOBS`.
        pub(crate) no_jobs: counter("requests") as "answered_empty",
        /// Jobs that workers reported done.
        pub(crate) finished: counter("jobs"),
        /// Hand-outs undone because their reply was not delivered.
        pub(crate) undone: counter("jobs"),
        /// Rows of fetcher files stored in the database.
        pub(crate) rows: counter("rows") as "ingested",
        /// Lines of fetcher files skipped because the database cannot store them.
        pub(crate) unstorable: counter("lines"),
        /// Transactions that failed and are tried again; nothing is lost.
        pub(crate) retried: counter("transactions"),
        /// Bytes of payloads that are being written to workers.
        unsent: gauge("bytes"),
    }
}

impl StoreMetrics {
    /// Registers the metrics and their memory.
    pub(crate) fn declare(vitals: &Arc<Vitals>) -> Self {
        let metrics = Self::register(vitals);
        metrics.unsent.set_bound(UNSENT_BYTES_MAX);
        metrics
    }

    /// Counts the payload of a job as unsent until the guard is dropped.
    pub(crate) fn hold_unsent(&self, job: &Job) -> GaugeGuard {
        self.unsent.hold_many(job.payload.len() as u64)
    }

    /// Payloads that are handed out and not written to their workers.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        u64::try_from(self.unsent.get()).unwrap_or_default()
    }

    pub(crate) fn answered(&self, with_job: bool) {
        if with_job { self.jobs.add(1) } else { self.no_jobs.add(1) }
    }

    /// Counts hand-outs and ends of jobs.
    pub(crate) fn worked(&self) -> i64 {
        self.jobs.get() + self.finished.get()
    }
}

/// A job that a worker reported done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedJob {
    pub(crate) exit_code: i64,
    /// Seconds since its hand-out; negative if the clock was set back.
    pub(crate) seconds: i64,
}

metrics! {
    /// Metrics of the jobs with one exit code.
    struct CodeMetrics by "exit_code" {
        /// Jobs that workers reported done, by exit code; codes outside 0 to 255 are `other`.
        done: counter("jobs"),
    }
}

/// Metrics of finished jobs by exit code and duration.
pub(crate) struct FinishedMetrics {
    vitals: Arc<Vitals>,
    /// Registered metrics; None stands for codes outside 0 to 255.
    by_code: BTreeMap<Option<u8>, CodeMetrics>,
    success: Timing,
    failure: Timing,
}

impl FinishedMetrics {
    pub(crate) fn register(vitals: &Arc<Vitals>) -> Self {
        let help = "Time from the hand-out of a job to its DONE, in whole seconds; failures have an exit code other than 0.";
        let timing = |result| {
            vitals.register_coarse_timing("job_duration", help, ("result", result), Duration::from_millis(1))
        };
        let mut metrics = Self {
            vitals: Arc::clone(vitals),
            by_code: BTreeMap::new(),
            success: timing("success"),
            failure: timing("failure"),
        };
        metrics.of_code(Some(0));
        metrics
    }

    /// Adds a job.
    pub(crate) fn record(&mut self, job: FinishedJob) {
        self.of_code(u8::try_from(job.exit_code).ok()).done.add(1);
        let timing = if job.exit_code == 0 { &self.success } else { &self.failure };
        timing.record(Duration::from_secs(u64::try_from(job.seconds).unwrap_or(0)));
    }

    fn of_code(&mut self, code: Option<u8>) -> &CodeMetrics {
        self.by_code.entry(code).or_insert_with(|| {
            let label = code.map_or_else(|| "other".to_owned(), |code| code.to_string());
            CodeMetrics::register(&self.vitals, &label)
        })
    }
}
