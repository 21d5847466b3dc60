//! The peer of a connection, as the operating system reports it.

use std::{fmt, net::SocketAddr};

use tokio::net::UnixStream;

/// Peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    Unix { uid: u32, pid: Option<i32> },
    Unknown,
}

impl Peer {
    pub(crate) fn of_unix(stream: &UnixStream) -> Self {
        stream.peer_cred().map_or(Self::Unknown, |cred| Self::Unix { uid: cred.uid(), pid: cred.pid() })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => write!(f, "{address} over tcp"),
            Peer::Unix { uid, pid: Some(pid) } => write!(f, "uid {uid}, pid {pid} over the admin socket"),
            Peer::Unix { uid, pid: None } => write!(f, "uid {uid} over the admin socket"),
            Peer::Unknown => f.write_str("unknown"),
        }
    }
}
