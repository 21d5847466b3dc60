//! Address of an admin endpoint.

use std::{fmt, net::SocketAddr, path::PathBuf};

use orchestrator_edge::HostPort;

/// Address of an admin endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// Host and port, and the prefix of every route.
    Tcp { at: HostPort, prefix: String },
    /// Default address of this host. Each connection checks who listens there.
    Default(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { at, prefix } => write!(f, "http://{at}{prefix}"),
            Address::Default(at) => write!(f, "http://{at}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
