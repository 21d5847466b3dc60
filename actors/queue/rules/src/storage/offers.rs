//! Jobs that other subsystems offer (CONTRACT QO12).

use std::sync::Arc;

/// Number of the only run of an owner.
pub const OWNER_RUN: i64 = 0;

/// The name of another subsystem has a dot.
pub fn is_owner(fetcher: &str) -> bool {
    fetcher.contains('.')
}

/// Job that another subsystem offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedJob {
    owner: Arc<str>,
    attr_path: Arc<str>,
    claim: Arc<str>,
}

impl OfferedJob {
    /// `owner` has a dot. `claim` tells apart jobs of one attribute path that follow each other.
    pub fn new(
        owner: impl Into<Arc<str>>,
        attr_path: impl Into<Arc<str>>,
        claim: impl Into<Arc<str>>,
    ) -> Self {
        Self { owner: owner.into(), attr_path: attr_path.into(), claim: claim.into() }
    }

    /// Owner and attribute path, without the claim.
    pub fn owned_path(&self) -> (Arc<str>, Arc<str>) {
        (self.owner.clone(), self.attr_path.clone())
    }

    /// The subsystem.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Path that workers see.
    pub fn attr_path(&self) -> &str {
        &self.attr_path
    }

    /// The end of a job counts only for the claim under which it was handed out.
    pub fn claim(&self) -> &str {
        &self.claim
    }
}

/// A worker's report on an offered job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferEnd {
    /// Exit code.
    pub exit_code: i64,
    /// Seconds from hand-out to report.
    pub seconds: i64,
}

/// State of an offered job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferState {
    /// It waits or is in flight.
    Open,
    /// A worker reported it done.
    Finished(OfferEnd),
}

/// End of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Seconds since its hand-out.
    pub seconds: i64,
    /// The job that another subsystem offered.
    pub offered: Option<OfferedJob>,
}
