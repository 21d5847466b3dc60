//! Errors of the endpoint itself. Errors of requests are in `api_error.rs`.

use std::{io, net::SocketAddr, path::PathBuf};

use orchestrator_edge::SettingError;

/// Reason why the endpoint cannot be configured or opened.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The key `listen` is not a socket address.
    #[error(
        "admin.listen = \"{0}\" is not an address: write IP:PORT such as 127.0.0.1:7117, or \"\" for no TCP port"
    )]
    InvalidAddress(String),
    /// The key `probe_listen` is not a socket address.
    #[error(
        "admin.probe_listen = \"{0}\" is not an address: write IP:PORT such as 0.0.0.0:9100, or \"\" for none"
    )]
    InvalidProbeAddress(String),
    /// The key `listen` names an address that other hosts can reach, without a tokens file.
    #[error(
        "admin.listen = \"{0}\" is not a loopback address, and other hosts could send commands to it: set \
         admin.tokens_file, or listen on 127.0.0.1 or [::1] and connect through ssh"
    )]
    NotLoopback(SocketAddr),
    /// An entry of `allowed_hosts` is not a host name.
    #[error("admin.allowed_hosts has \"{0}\", which is not a host name: write it without scheme and port")]
    InvalidHost(String),
    /// The tokens file cannot be read.
    #[error("admin.tokens_file = {}: cannot be read: {source}: create the file", path.display())]
    TokensFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The tokens file is invalid.
    #[error("admin.tokens_file: {}", problems.join("; "))]
    Tokens {
        /// Errors, each with file and line.
        problems: Vec<String>,
    },
    /// Mode, owner or group of the unix socket is invalid.
    #[error(transparent)]
    SocketAccess(#[from] SettingError),
    /// The TCP port could not be opened.
    #[error(
        "cannot listen on {address}: {source}{}: free the port, or set admin.listen to another one or to \"\"",
        owner.as_ref().map(|owner| format!(" by {owner}")).unwrap_or_default()
    )]
    Tcp {
        /// Address to listen on.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
        /// Program that listens on the address, if it is in use.
        owner: Option<String>,
    },
    /// The TCP port of the probes could not be opened.
    #[error("cannot listen on {address}: {source}: free the port, or set admin.probe_listen to another one")]
    ProbeTcp {
        /// Address to listen on.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The unix socket could not be opened.
    #[error("cannot create the socket {}: {source}: check the directory, or set admin.unix_socket", path.display())]
    Unix {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Another process listens on the unix socket.
    #[error("another process listens on {}: stop it, or set admin.unix_socket to another path", .0.display())]
    InUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("{} exists and is not a socket: move it away, or set admin.unix_socket to another path", .0.display())]
    NotASocket(PathBuf),
    /// The HTTP server did not start.
    #[error("cannot start the HTTP server: {0}: check the limits on threads and open files")]
    Server(io::Error),
}
