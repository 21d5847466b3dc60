//! Failed delivery.

use orchestrator_observe::LinkFailure;

use crate::PeerError;

/// Reason why a receiver did not accept a document.
#[derive(Debug)]
pub(super) struct NotDelivered {
    /// The reason, with what helps.
    pub(super) failure: LinkFailure,
    /// True if the receiver answers and refuses this document, and may accept others.
    pub(super) for_content: bool,
}

impl From<String> for NotDelivered {
    fn from(reason: String) -> Self {
        Self { failure: reason.into(), for_content: false }
    }
}

impl From<PeerError> for NotDelivered {
    fn from(error: PeerError) -> Self {
        Self { failure: (&error).into(), for_content: false }
    }
}
