//! Interface to the queue server.

use crate::{pair::Pair, queue_state::QueueState};

/// Error of the queue server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueError {
    /// The server is unavailable.
    #[error("{0}")]
    Unavailable(String),
    /// The jobs at these positions are refused or their reply is lost. All others are enqueued.
    #[error("{reason}")]
    Unacknowledged {
        /// Positions in the pushed slice, from 0.
        positions: Vec<usize>,
        /// Reason of the first one, and what to do.
        reason: String,
    },
}

/// Input of a jid besides the job's pair. No seed is used twice for a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JidSeed {
    /// Epoch of the lease.
    pub epoch: u64,
    /// Attempt within the epoch.
    pub attempt: u32,
}

/// Queue server.
pub(crate) trait Queue {
    /// Reads lengths of queues and sets.
    fn read(&mut self) -> impl Future<Output = Result<QueueState, QueueError>>;

    /// Pushes jobs in this order. Without a seed the jids are random, as the original's.
    fn push(
        &mut self,
        pairs: &[Pair],
        jid_seed: Option<JidSeed>,
    ) -> impl Future<Output = Result<(), QueueError>>;
}
