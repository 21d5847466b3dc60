//! Metrics of the queue store.

use orchestrator_supervise::metrics;

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
        /// Transactions that failed and are tried again; nothing is lost.
        pub(crate) retried: counter("transactions"),
        /// Time for which the store paused so that other processes could write to the database.
        pub(crate) paused: counter("milliseconds") as "paused_for_other_writers",
        /// Pages of 4096 bytes in the database's write-ahead log.
        pub(crate) wal: gauge("pages") as "write_ahead_log",
    }
}

impl StoreMetrics {
    pub(crate) fn answered(&self, with_job: bool) {
        if with_job { self.jobs.add(1) } else { self.no_jobs.add(1) }
    }

    /// Returns the number of hand-outs and ends of jobs.
    pub(crate) fn worked(&self) -> i64 {
        self.jobs.get() + self.finished.get()
    }
}
