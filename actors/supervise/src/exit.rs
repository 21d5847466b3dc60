//! Why a child ended, in OTP's terms.

use std::fmt;

use crate::text::sanitize;

/// What a child reports when it cannot go on. The text says what the operator can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    message: String,
}

impl Fault {
    /// A fault with a text in lower case, without full stop, that says what to do. The text is kept as [`sanitize`] gives it.
    pub fn new(message: impl AsRef<str>) -> Self {
        Self { message: sanitize(message.as_ref()) }
    }

    /// A fault made of an error and its sources, joined by `: `.
    pub fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::new(message)
    }
}

/// Why one incarnation of a child ended (OTP: the exit reason).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// The child finished by itself.
    Normal,
    /// The child was asked to stop and did, within its deadline.
    Shutdown,
    /// The child gave up with a fault.
    Failed(Fault),
    /// The child panicked; the text is the panic's payload.
    Panicked(String),
    /// The child was dropped at its deadline, or could not be and was left behind.
    Killed,
}

impl Exit {
    /// OTP's abnormal exit: everything but `normal` and `shutdown`. A transient child is restarted after these only.
    pub fn is_abnormal(&self) -> bool {
        !matches!(self, Exit::Normal | Exit::Shutdown)
    }

    /// One word for metrics and logs.
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
