//! What the producer needs of the queue's server.

use crate::{pair::Pair, reading::Reading};

/// Why the server did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// It is away.
    #[error("{0}")]
    Away(String),
    /// It took all jobs but those at these positions, as far as is known: it refused them, or its reply was lost.
    #[error("{reason}")]
    NotTaken {
        /// Positions among the jobs that were sent.
        positions: Vec<usize>,
        /// What it says of the first, and what to do.
        reason: String,
    },
}

/// What makes a job's jid besides its pair: no jid is ever used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Epoch of the lease.
    pub epoch: u64,
    /// Which attempt within it.
    pub attempt: u32,
}

/// A queue that takes jobs.
pub trait Queue {
    /// What the server says of itself.
    fn read(&mut self) -> impl Future<Output = Result<Reading, QueueError>>;

    /// Pushes jobs in this order. None: jids are random, as the original's.
    fn push(&mut self, pairs: &[Pair], stamp: Option<Stamp>) -> impl Future<Output = Result<(), QueueError>>;
}
