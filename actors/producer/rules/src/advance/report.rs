//! Phases and notices for operators.

use std::fmt;

use crate::{
    queue_state::Blocker,
    stencil::{InvalidDocument, Set},
};

/// Notice that is logged once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A set is empty, so the stencil has no jobs for now.
    NoHeadroom {
        /// Name of the stencil.
        stencil: String,
        /// Empty set.
        set: Set,
    },
    /// A stencil without jobs has some now.
    Reopened(String),
    /// A document is invalid and keeps its TCN from being complete.
    InvalidDocument(InvalidDocument),
    /// Faktory processed fewer jobs than were pushed. They are pushed again.
    JobsLost {
        /// Pushed jobs.
        pushed: u64,
        /// Jobs processed since, of any type.
        done: u64,
    },
    /// A stencil's sets changed while its jobs were being processed. It is pushed again.
    SetsChanged {
        /// Name of the stencil.
        stencil: String,
        /// True after the last attempt, when it is not pushed again.
        given_up: bool,
    },
    /// A TCN is complete.
    Completed(i64),
    /// The last TCN is complete.
    Finished(i64),
}

impl Notice {
    /// Returns true if an operator should look into it.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::Reopened(_) | Self::Completed(_) | Self::Finished(_))
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeadroom { stencil, set } => {
                write!(f, "{stencil} has no jobs: there are no {set}; it is checked again at every tick")
            }
            Self::Reopened(stencil) => write!(f, "{stencil} has jobs now"),
            Self::InvalidDocument(invalid) => write!(f, "the TCN cannot be completed: {invalid}"),
            Self::JobsLost { pushed, done } => write!(
                f,
                "Faktory lost jobs, by a flush or with its data: {pushed} were pushed, {done} processed; pushing them again"
            ),
            Self::SetsChanged { stencil, given_up: false } => {
                write!(
                    f,
                    "{stencil}: its tangles changed while its jobs were being processed; pushing it again"
                )
            }
            Self::SetsChanged { stencil, given_up: true } => write!(
                f,
                "{stencil}: its tangles changed again after several attempts; some pairs may be missing: set its state to 0 once they no longer change"
            ),
            Self::Completed(tcn) => write!(f, "TCN {tcn} is complete"),
            Self::Finished(tcn) => write!(f, "TCN {tcn} is complete, and the last: max_tcn is reached"),
        }
    }
}

/// Phase of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Taking the lease.
    Starting,
    /// Waiting for the lease of another producer.
    Standby,
    /// Checking database and queue.
    Checking,
    /// Pushing the jobs of this stencil.
    Pushing(String),
    /// Between two readings that find nothing in the way of the TCN's completion.
    Completing,
    /// Jobs or documents keep the TCN from being complete.
    Blocked {
        /// Jobs that are not done.
        jobs: Vec<Blocker>,
        /// Documents that cannot be read.
        documents: Vec<InvalidDocument>,
        /// Open stencils that strict mode never pushes (CONTRACT SX05).
        stencils: u64,
    },
    /// `max_tcn` is complete.
    Finished,
}
