//! Jobs that other subsystems offer (CONTRACT QO12).

use orchestrator_exchange::{JobFinished, JobId};

/// Number of the only run of an owner.
pub(crate) const OWNER_RUN: i64 = 0;

/// The name of another subsystem has a dot.
pub(crate) fn is_owner(fetcher: &str) -> bool {
    fetcher.contains('.')
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfferState {
    /// It waits or is in flight.
    Open,
    /// A worker reported it done.
    Finished(JobFinished),
}

/// End of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Seconds since its hand-out.
    pub(crate) seconds: i64,
    /// The job that another subsystem offered.
    pub(crate) offered: Option<JobId>,
}
