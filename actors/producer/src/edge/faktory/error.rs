//! Errors of the Faktory client, by what the caller may do next.

/// Error of a connection attempt or of an `INFO`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaktoryError {
    /// The connection or its handshake failed.
    #[error("cannot connect to faktory at {endpoint}: {reason}")]
    Connect {
        /// Address of the server, without its password.
        endpoint: String,
        /// Text of the server or the system, and what to do.
        reason: String,
    },
    /// The connection is closed, timed out, or sent an invalid reply.
    #[error("the connection to faktory is lost: {0}")]
    Lost(String),
    /// The server refused the command; the connection is still usable.
    #[error("faktory refuses to answer INFO: {0}")]
    Refused(String),
}

/// A job that the server refused. All others of its batch are enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Position in the batch, from 0.
    pub index: usize,
    /// Text of the server.
    pub reason: String,
}

/// Reason why a batch is not known to be enqueued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// No job can have reached a queue: the same jobs may be pushed again under the same jids.
    #[error("the jobs were not sent: {0}")]
    NotSent(String),
    /// The server refused the whole batch: the same jobs may be pushed again under the same jids.
    #[error("faktory refuses the jobs: {0}")]
    Refused(String),
    /// Any of the jobs may be enqueued. They may be pushed again only under new jids, which Faktory requires to be unique.
    #[error("the reply was lost, so the jobs may or may not be queued: {0}")]
    Ambiguous(String),
}
