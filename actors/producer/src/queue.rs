//! Interface to the queue server.

use orchestrator_edge::PeerError;
use orchestrator_producer_rules::{pair::Pair, queue_state::QueueState};

/// Jobs that are refused, or whose reply is lost. All others of a push are enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unacknowledged {
    /// Positions of the jobs among those that were pushed, from 0.
    pub positions: Vec<usize>,
    /// Reason of the first one, and what to do.
    pub reason: String,
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
    fn read(&mut self) -> impl Future<Output = Result<QueueState, PeerError>>;

    /// Pushes jobs in this order. Without a seed the jids are random, as the original's.
    fn push(
        &mut self,
        pairs: &[Pair],
        jid_seed: Option<JidSeed>,
    ) -> impl Future<Output = Result<(), Unacknowledged>>;
}
