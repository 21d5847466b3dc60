//! What can go wrong at the edges that are not SQLite.

use std::{io, path::PathBuf};

/// An error of an edge that no waiting mends; what passes by itself is a link state, not an error.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// Somebody answers there.
    #[error("worker socket {path} belongs to a running instance: stop that one, or give this one a socket of its own", path = .path.display())]
    SocketInUse {
        /// The socket.
        path: PathBuf,
    },
    /// A file or a directory is in the way.
    #[error("{path} is not a socket: remove it, or name another path for the worker socket", path = .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} {path}: check that the path exists and its permissions", path = .path.display())]
    Refused {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

impl EdgeError {
    pub(crate) fn refused(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Refused { action, path, source }
    }
}
