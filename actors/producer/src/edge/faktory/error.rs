//! What can go wrong with a Faktory server, by what the caller may do then.

/// Why there is no connection, or no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaktoryError {
    /// The configuration cannot be used: no try will help.
    #[error("{0}")]
    Config(String),
    /// The server does not let us in.
    #[error("cannot connect to faktory at {endpoint}: {reason}")]
    Connect {
        /// Which server.
        endpoint: String,
        /// What it, or the system, said, and what to do.
        reason: String,
    },
    /// The connection was lost.
    #[error("the connection to faktory is lost: {0}")]
    Lost(String),
    /// The server refuses to answer.
    #[error("faktory refuses to answer {what}: {reason}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// What it said.
        reason: String,
    },
}

impl FaktoryError {
    /// May another try succeed?
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Config(_))
    }
}

/// What became of a batch that the server answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pushed {
    /// The jobs that it did not take; all others are in their queues.
    pub refused: Vec<Refusal>,
}

/// A job that a server did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Position in the batch, from 0.
    pub index: usize,
    /// The server's words.
    pub reason: String,
}

/// Why a batch was not pushed, or not known to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// No job of it can have reached a queue: the same jobs may be pushed again as they are.
    #[error("the jobs were not sent: {0}")]
    NotSent(String),
    /// The server answered, and took none of it: the same jobs may be pushed again as they are.
    #[error("faktory refuses the jobs: {0}")]
    Refused(String),
    /// Any of its jobs may be in a queue, or none. The server offers no way to find out, and two jobs with one jid are illegal:
    /// whoever pushes the jobs again must give them new ones.
    #[error("whether the jobs are in their queues is not known: {0}")]
    Ambiguous(String),
}

impl PushError {
    /// Is the connection still good after it?
    pub(super) fn spares_connection(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}
