//! Exit reasons, in OTP's terms.

use std::fmt;

use orchestrator_text::sanitize;

/// Error that ends an incarnation. The text says what the operator can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    message: String,
}

impl Fault {
    /// Creates a fault. The text is in lower case without full stop, and says what to do; it is escaped and
    /// limited by [`sanitize`].
    pub fn new(message: impl AsRef<str>) -> Self {
        Self { message: sanitize(message.as_ref()) }
    }

    /// Creates a fault from an error and its sources, joined by `: `. A source that ends with its error's
    /// words is left out.
    pub fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut message = error.to_string();
        let (mut last, mut source) = (message.clone(), error.source());
        while let Some(cause) = source {
            let text = cause.to_string();
            if last.is_empty() || !text.ends_with(&last) {
                message.push_str(": ");
                message.push_str(&text);
            }
            (last, source) = (text, cause.source());
        }
        Self::new(message)
    }
}

/// Exit of one incarnation (OTP: exit reason).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// The child ended by itself, without error.
    Normal,
    /// The child was asked to stop and did, within its deadline.
    Shutdown,
    /// The child ended with a fault.
    Failed(Fault),
    /// The child panicked, with this message.
    Panicked(String),
    /// The child was dropped at its deadline, or left behind if it is a thread.
    Killed,
}

impl Exit {
    /// All exits but `normal` and `shutdown` are abnormal. Only these restart a transient child.
    pub fn is_abnormal(&self) -> bool {
        !matches!(self, Exit::Normal | Exit::Shutdown)
    }

    /// Name in metrics and logs.
    pub fn kind(&self) -> &'static str {
        match self {
            Exit::Normal => "normal",
            Exit::Shutdown => "shutdown",
            Exit::Failed(_) => "failed",
            Exit::Panicked(_) => "panicked",
            Exit::Killed => "killed",
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Failed(fault) => write!(f, "failed: {fault}"),
            Exit::Panicked(text) => write!(f, "panicked: {text}"),
            other => f.write_str(other.kind()),
        }
    }
}
