//! Reports of the rules to people.

use std::fmt;

use crate::{
    reading::Blocker,
    stencil::{Misread, Set},
};

/// What people should hear once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A set is empty: the stencil is left for later.
    NoHeadroom {
        /// Which.
        stencil: String,
        /// What is empty.
        set: Set,
    },
    /// The set of a stencil without jobs has filled: it is taken up.
    Reopened(String),
    /// A document cannot be read; it blocks.
    Misread(Misread),
    /// Fewer jobs were done than pushed: the queue's server lost some. They are pushed again.
    Vanished {
        /// Jobs that were pushed.
        pushed: u64,
        /// Jobs that were done since, of any type.
        done: u64,
    },
    /// Tangles were inserted into, or deleted from, the sets of a stencil while its jobs were out: it is grafted again.
    Changed {
        /// Which.
        stencil: String,
        /// Is it given up, after several times?
        given_up: bool,
    },
    /// A TCN is complete.
    Completed(i64),
    /// The last TCN is complete.
    Finished(i64),
}

impl News {
    /// Should somebody look at it?
    pub fn is_trouble(&self) -> bool {
        !matches!(self, Self::Reopened(_) | Self::Completed(_) | Self::Finished(_))
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeadroom { stencil, set } => {
                write!(f, "{stencil} has no jobs: there are no {set}; it is looked at again at every tick")
            }
            Self::Reopened(stencil) => write!(f, "{stencil} has jobs now"),
            Self::Misread(misread) => write!(f, "no TCN can be completed: {misread}"),
            Self::Vanished { pushed, done } => write!(
                f,
                "the queue's server lost jobs (flushed, or its data lost): {pushed} were pushed, {done} done; pushing them again"
            ),
            Self::Changed { stencil, given_up: false } => {
                write!(f, "{stencil}: its tangles changed while its jobs were out; grafting it again")
            }
            Self::Changed { stencil, given_up: true } => write!(
                f,
                "{stencil}: its tangles change again and again; some may not be grafted: set its state to 0 when they rest"
            ),
            Self::Completed(tcn) => write!(f, "TCN {tcn} is complete"),
            Self::Finished(tcn) => write!(f, "TCN {tcn} is complete, and the last: max_tcn is reached"),
        }
    }
}

/// What a machine is at, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Getting ready.
    Starting,
    /// Another producer works.
    Standby,
    /// Looking for work.
    Looking,
    /// Pushing a stencil's jobs.
    Pushing(String),
    /// Jobs or documents keep the TCN from being complete.
    Blocked {
        /// Jobs.
        jobs: Vec<Blocker>,
        /// Documents.
        documents: Vec<Misread>,
        /// Stencils that are open although nobody will push them (CONTRACT SX05).
        stencils: u64,
    },
    /// `max_tcn` is complete.
    Finished,
}
