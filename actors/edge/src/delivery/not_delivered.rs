//! Failed delivery.

/// Reason why a receiver did not accept a document.
#[derive(Debug)]
pub(super) struct NotDelivered {
    /// Text that says what to do.
    pub(super) reason: String,
    /// True if the receiver answers and refuses this document, and may accept others.
    pub(super) for_content: bool,
}

impl From<String> for NotDelivered {
    fn from(reason: String) -> Self {
        Self { reason, for_content: false }
    }
}
