//! Errors of sending a message and of asking.

use std::{fmt, time::Duration};

/// Error of a refused message, which returns the message.
#[derive(thiserror::Error)]
#[error("the mailbox is full ({capacity} messages): slow down or retry later")]
pub struct Refused<M> {
    /// The refused message.
    pub message: M,
    /// Capacity of the mailbox.
    pub capacity: usize,
}

impl<M> fmt::Debug for Refused<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// Reason why an `ask` has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The mailbox is full; the number is its capacity.
    #[error("the mailbox is full ({0} messages): retry later")]
    Full(usize),
    /// No answer came in time; the message may still be handled.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The message was lost: the child ended while handling it, or a purge dropped it.
    #[error("the child ended or was purged before it answered: retry")]
    Lost,
}
