//! The error of a call.

use std::time::Duration;

use crate::edge::amqp::DEAD_LETTER;

/// Why it is not known that all rows of a call are stored. Some, or all, may be; adding them again changes nothing that is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The workers of this process took too long.
    #[error(
        "the rows were not stored in time: look at the writer in `orchestrator tree`, then add them again"
    )]
    Unstored,
    /// The servers took longer than whoever called could wait.
    #[error(
        "the rows were not acknowledged in time: see that the servers run and keep up, then add them again; a row that can never be stored is never acknowledged, the queue {queue} has it with the reason",
        queue = DEAD_LETTER
    )]
    Unacknowledged,
    /// The broker has no queue for a message.
    #[error("no server has declared the queue {0}: start a server that owns this range")]
    Unroutable(String),
    /// The broker does not take a message.
    #[error("the broker does not take a request: see its log, and whether it has memory and disk left")]
    Refused,
    /// No response came in time.
    #[error(
        "{received} of {expected} items are stored, and no further response came within {waited:?}: see that the servers run and keep up, then try again; a row that can never be stored is never acknowledged, the queue {queue} has it with the reason",
        queue = DEAD_LETTER
    )]
    TimedOut {
        /// Items that responses told of.
        received: u64,
        /// Items that were sent.
        expected: u64,
        /// How long the last wait was.
        waited: Duration,
    },
    /// Responses tell of more items than were sent: they count something else.
    #[error(
        "responses tell of {received} items where {expected} were sent: see that only one server owns each range, then try again"
    )]
    TooManyAcks {
        /// Items that responses told of.
        received: u64,
        /// Items that were sent.
        expected: u64,
    },
    /// The client ends.
    #[error("the client is stopping: try again when it is back")]
    Stopping,
}
