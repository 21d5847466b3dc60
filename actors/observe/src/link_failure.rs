//! Reason why a link is down, with what helps.

use std::fmt;

use orchestrator_text::sanitize;

/// Reason why a link is down. The code that knows the reason also gives the help: a command, statement or
/// setting, by the peer's error code. Without help, the reader of the tree names a command that examines a
/// peer of the link's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFailure {
    /// The reason, in the peer's own words if it has answered.
    pub reason: String,
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Command or action that helps.
    pub help: Option<String>,
}

/// Kind of a link's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The peer is not reached, or the connection to it has ended.
    Down,
    /// The peer, or its host, answered that nothing listens there.
    Closed,
    /// The peer answered with a refusal.
    Refused,
    /// The peer answered, but cannot be used: another protocol, an invalid certificate.
    Unusable,
    /// The peer answers, but takes no messages until its alarm ends, so a late answer is no silence.
    Blocked,
    /// No space is left for what the peer writes.
    DiskFull,
}

impl FailureKind {
    /// Name in snapshots.
    pub fn name(self) -> &'static str {
        match self {
            Self::Down | Self::Closed => "down",
            Self::Refused => "refused",
            Self::Unusable => "unusable",
            Self::Blocked => "blocked",
            Self::DiskFull => "disk_full",
        }
    }
}

impl LinkFailure {
    /// Creates a failure without help.
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind, help: None }
    }

    /// Creates a refusal of the peer; `help` is the command or action after which it accepts.
    pub fn refused(reason: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, reason).with_help(help)
    }

    /// Adds the command or action that helps.
    #[must_use]
    pub fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// True if an answer came, so the peer does not count as silent.
    pub fn is_answer(&self) -> bool {
        self.kind != FailureKind::Down
    }

    /// Makes the texts safe for terminals and logs, see [`sanitize`].
    #[must_use]
    pub fn sanitized(self) -> Self {
        Self { reason: sanitize(&self.reason), help: self.help.map(sanitize), ..self }
    }
}

/// A connection that is lost, or a peer that is not reached.
impl From<String> for LinkFailure {
    fn from(reason: String) -> Self {
        Self::new(FailureKind::Down, reason)
    }
}

impl From<&LinkFailure> for LinkFailure {
    fn from(failure: &LinkFailure) -> Self {
        failure.clone()
    }
}

impl From<&str> for LinkFailure {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

impl fmt::Display for LinkFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, ": {help}"))
    }
}
