//! Metrics of the queue store.

use orchestrator_supervise::metrics;

metrics! {
    /// Counters since the process began; they go on over restarts of the child.
    pub(crate) struct StoreMetrics {
        /// Transactions; requests that wait share one.
        pub(crate) groups: counter("commits"),
        /// Jobs handed out.
        pub(crate) jobs: counter("jobs") as "handed_out",
        /// Requests answered with `NOJOBS`.
        pub(crate) no_jobs: counter("requests") as "answered_empty",
        /// Jobs that workers reported done.
        pub(crate) finished: counter("jobs"),
        /// Hand-outs taken back because nobody received them.
        pub(crate) undone: counter("jobs"),
        /// Rows stored.
        pub(crate) rows: counter("rows") as "ingested",
        /// Transactions that the storage refused; they are tried again.
        pub(crate) retries: counter("groups") as "retried",
        /// Time for which the database was left alone for another process that writes.
        pub(crate) left: counter("milliseconds") as "left_to_others",
        /// Pages of 4096 bytes in the database's write-ahead log.
        pub(crate) wal: gauge("pages") as "write_ahead_log",
    }
}

impl StoreMetrics {
    pub(crate) fn answered(&self, with_job: bool) {
        if with_job { self.jobs.add(1) } else { self.no_jobs.add(1) }
    }
}
