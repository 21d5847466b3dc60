//! What can be wrong with the endpoint itself. What a request gets told is `api_error.rs`.

use std::{io, net::SocketAddr, path::PathBuf};

/// Why the endpoint cannot be configured or opened.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The `listen` key is no socket address.
    #[error(
        "admin.listen = \"{0}\" is no address: write IP:PORT such as 127.0.0.1:7117, or \"\" to keep off tcp"
    )]
    NoAddress(String),
    /// The `listen` key names an address that others could reach.
    #[error(
        "admin.listen = \"{0}\" is not a loopback address: whoever reaches it could stop the work; set \
         admin.tokens_file, or listen on 127.0.0.1 or [::1] and come in over ssh"
    )]
    NotLoopback(SocketAddr),
    /// A name in `allowed_hosts` is none.
    #[error("admin.allowed_hosts has \"{0}\", which is no host name: write it without scheme and port")]
    NoHost(String),
    /// The tokens file cannot be read.
    #[error("cannot read {}: {source}: make the file that admin.tokens_file names", path.display())]
    TokensFile {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The tokens file is not as it must be.
    #[error("admin.tokens_file: {}", problems.join("; "))]
    Tokens {
        /// Each names file and line.
        problems: Vec<String>,
    },
    /// The TCP port could not be opened.
    #[error(
        "cannot listen on {address}: {source}: free the port, or set admin.listen to another one or to \"\""
    )]
    Tcp {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The unix socket could not be opened.
    #[error("cannot make the socket {}: {source}: check the directory, or set admin.unix_socket", path.display())]
    Unix {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process answers on the unix socket.
    #[error("another process listens on {}: stop it, or set admin.unix_socket to another path", .0.display())]
    InUse(PathBuf),
    /// What is there is not a socket, so it is not ours to replace.
    #[error("{} is there and is no socket: move it away, or set admin.unix_socket to another path", .0.display())]
    NotASocket(PathBuf),
    /// The HTTP server did not start.
    #[error("the http server does not start: {0}: see the limits on threads and open files")]
    Server(io::Error),
}
