//! Error of a peer outside the process.

/// Failure to connect to a peer, of a request to it, or of its connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PeerError {
    /// Kind of the failure.
    pub kind: PeerErrorKind,
    /// Description for operators, without secrets.
    pub text: String,
    /// Progress of the request.
    pub sent: Sent,
}

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerErrorKind {
    /// Connecting failed.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// Connecting, or the answer, took too long.
    Timeout,
    /// The connection ended.
    Lost,
    /// The peer refused the request. The connection is still usable.
    Refused,
    /// The answer does not follow the protocol.
    Malformed,
    /// The answer is larger than its limit.
    TooLarge,
}

/// Progress of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The peer cannot have received the request.
    No,
    /// The peer may have received the request, and processed it.
    Maybe,
    /// The peer answered, at least in part.
    Yes,
}

impl PeerError {
    /// Creates an error.
    pub fn new(kind: PeerErrorKind, sent: Sent, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), sent }
    }

    /// Creates the error of a connection that ended during a request, or between two.
    pub fn lost(text: impl Into<String>) -> Self {
        Self::new(PeerErrorKind::Lost, Sent::Maybe, text)
    }
}
