//! Error of a peer outside the process.

use std::{fmt, io};

use orchestrator_observe::{FailureKind, LinkFailure};

/// Failure to connect to a peer, of a request to it, or of its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerError {
    /// Kind of the failure.
    pub kind: PeerErrorKind,
    /// Description for operators, without secrets.
    pub text: String,
    /// Progress of the request.
    pub sent: Sent,
    /// Command, statement or setting that helps, if the peer's code or the system's tells it.
    pub advice: Option<String>,
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
    /// The peer refused the request. The connection is still usable, unless the peer refused to open it.
    Refused,
    /// The peer answers, but is not the one that is wanted.
    Unsuitable,
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
        Self { kind, text: text.into(), sent, advice: None }
    }

    /// Creates the error of a connection that ended during a request, or between two.
    pub fn lost(text: impl Into<String>) -> Self {
        Self::new(PeerErrorKind::Lost, Sent::Maybe, text)
    }

    /// Creates the error of a socket that failed to connect, in the system's words.
    pub fn unconnected(error: &io::Error) -> Self {
        Self::new(PeerErrorKind::Connect, Sent::No, error.to_string())
    }

    /// Adds the command, statement or setting that helps, if there is one.
    #[must_use]
    pub fn with_advice(self, advice: impl Into<Option<String>>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// Returns this error with another text.
    #[must_use]
    pub fn map_text(self, text: impl FnOnce(&str) -> String) -> Self {
        Self { text: text(&self.text), ..self }
    }
}

impl From<&PeerError> for LinkFailure {
    fn from(error: &PeerError) -> Self {
        let kind = match error.kind {
            PeerErrorKind::Connect => FailureKind::Closed,
            PeerErrorKind::Timeout | PeerErrorKind::Lost => FailureKind::Down,
            PeerErrorKind::Refused => FailureKind::Refused,
            PeerErrorKind::Tls
            | PeerErrorKind::Unsuitable
            | PeerErrorKind::Malformed
            | PeerErrorKind::TooLarge => FailureKind::Unusable,
        };
        Self { reason: error.text.clone(), kind, help: error.advice.clone() }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.advice.as_ref().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl std::error::Error for PeerError {}
