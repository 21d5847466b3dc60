//! The figures that the store thread declares, the one source of tree and metrics.

use orchestrator_supervise::{Figure, FigureKind, Vitals};

/// Counters since the process began; they go on over restarts of the child.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) groups: Figure,
    pub(crate) jobs: Figure,
    pub(crate) no_jobs: Figure,
    pub(crate) finished: Figure,
    pub(crate) undone: Figure,
    pub(crate) rows: Figure,
    pub(crate) retries: Figure,
    pub(crate) wal: Figure,
    pub(crate) left: Figure,
}

impl Figures {
    pub(crate) fn declare(vitals: &Vitals) -> Self {
        let counter = |name, unit| vitals.declare(name, unit, FigureKind::Counter);
        Self {
            groups: counter("groups", "commits"),
            jobs: counter("handed_out", "jobs"),
            no_jobs: counter("answered_empty", "requests"),
            finished: counter("finished", "jobs"),
            undone: counter("undone", "jobs"),
            rows: counter("ingested", "rows"),
            retries: counter("retried", "groups"),
            left: counter("left_to_others", "milliseconds"),
            wal: vitals.declare("write_ahead_log", "pages", FigureKind::Gauge),
        }
    }

    pub(crate) fn answered(&self, with_job: bool) {
        if with_job { self.jobs.add(1) } else { self.no_jobs.add(1) }
    }
}
