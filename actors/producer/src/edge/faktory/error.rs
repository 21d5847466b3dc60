//! Errors of the Faktory client. [`Sent`] tells which jobs may be pushed again under the same jids.

use orchestrator_edge::{PeerError, PeerErrorKind, Sent};

/// Error of a connection that is closed, timed out, or sent an invalid reply.
pub(super) fn connection_lost(reason: &str) -> PeerError {
    PeerError::lost(format!("the connection to faktory is lost: {reason}"))
}

/// Error of jobs that cannot have reached a queue. They may be pushed again under the same jids.
pub(super) fn not_sent(reason: &str) -> PeerError {
    PeerError::new(PeerErrorKind::Lost, Sent::No, format!("the jobs were not sent: {reason}"))
}

/// Error of jobs any of which may be enqueued. They may be pushed again only under new jids, which Faktory
/// requires to be unique.
pub(super) fn ambiguous(reason: &str) -> PeerError {
    PeerError::lost(format!("the reply was lost, so the jobs may or may not be queued: {reason}"))
}

/// Error of a command that the server refused.
pub(super) fn refused(reason: &str) -> PeerError {
    PeerError::new(PeerErrorKind::Refused, Sent::Yes, format!("faktory: {reason}"))
}
