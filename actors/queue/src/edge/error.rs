//! Errors of files and sockets.

use std::{io, path::PathBuf};

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

impl EdgeError {
    pub(crate) fn refused(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Refused { action, path, source }
    }
}
