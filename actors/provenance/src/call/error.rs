//! Error of a call.

use std::time::Duration;

use crate::edge::amqp::DEAD_LETTER;

/// Reason why a call does not know whether all its rows are stored. Adding the rows again changes
/// nothing that is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The workers of this process exceeded the time-out.
    #[error("the rows were not stored in time: check the writer in `orchestrator tree`, then add them again")]
    Unstored,
    /// The servers exceeded the caller's time-out.
    #[error(
        "the rows were not acknowledged in time: check that the servers run and keep up, or raise provenance.client.wait_min_secs, then add the rows again; a refused row is never acknowledged, it is in the queue {queue} with the reason",
        queue = DEAD_LETTER
    )]
    Unacknowledged,
    /// The broker returned a message because no queue is bound for it.
    #[error("no server has declared the queue {0}: start a server that owns this range")]
    Unroutable(String),
    /// The broker refused a message.
    #[error("the broker refused a request: check its log, memory and disk space")]
    Refused,
    /// No response came in time.
    #[error(
        "{received} of {expected} items are stored, and no further response came within {waited:?}: check that the servers run and keep up, or raise provenance.client.wait_min_secs (with --swh-config: --wait-min-secs), then try again; a refused row is never acknowledged, it is in the queue {queue} with the reason",
        queue = DEAD_LETTER
    )]
    TimedOut {
        /// Items reported as stored by responses.
        received: u64,
        /// Items sent.
        expected: u64,
        /// Time-out of the missing response.
        waited: Duration,
    },
    /// Responses report more items than were sent.
    #[error(
        "responses report {received} items where {expected} were sent: check that only one server owns each range, then try again"
    )]
    TooManyAcks {
        /// Items reported as stored by responses.
        received: u64,
        /// Items sent.
        expected: u64,
    },
    /// The client is stopping.
    #[error("the client is stopping: try again when it is back")]
    Stopping,
}
