//! Errors of files and sockets.

use std::{io, path::PathBuf};

use orchestrator_edge::file_failure;
use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_supervise::Fault;

/// Error that does not pass with time. Temporary errors are shown as link state instead.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// Another process listens on the socket.
    #[error("worker socket {path} is served by another process: stop that one, or set another path in queue.socket", path = .path.display())]
    SocketInUse {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The path is another kind of file.
    #[error("{path} is not a socket: remove it, or set another path in queue.socket", path = .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// An operation of the operating system failed.
    #[error("cannot {action} {path}: check that the path exists and its permissions", path = .path.display())]
    Refused {
        /// Operation that failed.
        action: &'static str,
        /// Path of the operation.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Reason and help for the link of a socket.
impl From<&EdgeError> for LinkFailure {
    fn from(error: &EdgeError) -> Self {
        let reason = Fault::from_error(error).to_string();
        match error {
            EdgeError::SocketInUse { path } | EdgeError::NotASocket { path } => {
                let help = format!("fuser -v {}", path.display());
                Self::new(FailureKind::Unusable, reason).with_help(help)
            }
            EdgeError::Refused { path, source, .. } => file_failure(reason, path, source),
        }
    }
}

impl EdgeError {
    pub(crate) fn refused(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Refused { action, path, source }
    }
}
