//! Requests to the outbox.

use orchestrator_supervise::Reply;

use crate::outbox_event::OutboxEvent;

/// Request of the collector or of a hook's child. The outbox answers after the commit.
#[derive(Debug)]
pub(crate) enum OutboxRequest {
    /// Asks for the position of the collector in the failed jobs; None before the first [`Self::Append`] with
    /// one.
    Position { reply: Reply<Option<i64>> },
    /// Stores occurrences for each hook that reports them, and the position after them.
    Append { events: Vec<OutboxEvent>, position: Option<i64>, reply: Reply<()> },
    /// Asks for the oldest occurrence that waits for a hook.
    Oldest { hook: String, reply: Reply<Option<Waiting>> },
    /// Removes an occurrence that the receiver has accepted.
    Remove { hook: String, number: i64, reply: Reply<()> },
    /// Keeps an occurrence that the receiver refuses, so that it waits no more.
    PutAside { hook: String, number: i64, reason: String, reply: Reply<()> },
    /// Lets those that were put aside wait again, behind the others.
    SendAgain { hook: String, reply: Reply<()> },
}

/// Occurrences of one hook in the outbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Number of those that wait.
    pub(crate) waiting: u64,
    /// Number of those that were put aside.
    pub(crate) put_aside: u64,
    /// The last one that was put aside: its id, and the reason.
    pub(crate) last: Option<(String, String)>,
}

/// Occurrence that waits for a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Number in the outbox.
    pub(crate) number: i64,
    pub(crate) id: String,
    pub(crate) json: String,
}
