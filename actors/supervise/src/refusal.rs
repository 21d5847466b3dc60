//! The reasons why a message is not taken, or not answered.

use std::{fmt, time::Duration};

/// A message was refused; it is handed back.
#[derive(thiserror::Error)]
#[error("the mailbox is full ({capacity} messages): slow down or retry later")]
pub struct Refused<M> {
    /// The message.
    pub message: M,
    /// The mailbox's bound.
    pub capacity: usize,
}

impl<M> fmt::Debug for Refused<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// Why an `ask` has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The mailbox is at its bound.
    #[error("the mailbox is full ({0} messages): retry later")]
    Full(usize),
    /// No answer in time; the message may still be handled.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The message was lost: the child ended while it had it in hand, or a purge dropped it.
    #[error("the child ended or was purged before it answered: retry")]
    Lost,
}
