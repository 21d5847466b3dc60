//! Who is at the other end of a connection, as far as the kernel of the operating system tells.

use std::{any::Any, cell::Cell, fmt, net::SocketAddr};

use actix_web::dev::Extensions;
use orchestrator_supervise::Metric;
use tokio::net::{TcpStream, UnixStream};

/// One connection's other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    Unix { uid: u32, pid: Option<i32> },
    Unknown,
}

impl Peer {
    /// Notes the peer of a fresh connection in its data, and the connection itself, which `malformed` counts if it ends without a request.
    pub(crate) fn remember(connection: &dyn Any, data: &mut Extensions, malformed: &Metric) {
        let tcp = |stream: &TcpStream| stream.peer_addr().ok().map(Peer::Tcp);
        let unix = |stream: &UnixStream| {
            stream.peer_cred().ok().map(|cred| Peer::Unix { uid: cred.uid(), pid: cred.pid() })
        };
        let peer = connection
            .downcast_ref()
            .and_then(tcp)
            .or_else(|| connection.downcast_ref().and_then(unix))
            .unwrap_or(Peer::Unknown);
        data.insert(peer);
        data.insert(Visit { peer, served: Cell::new(false), malformed: malformed.clone() });
    }
}

/// One connection. Dropped without a request, it is counted and logged with its peer: the HTTP library refuses malformed requests by
/// itself and does not name their sender.
pub(crate) struct Visit {
    peer: Peer,
    served: Cell<bool>,
    malformed: Metric,
}

impl Visit {
    /// Notes that a request was understood.
    pub(crate) fn has_request(&self) {
        self.served.set(true);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if !self.served.get() {
            self.malformed.add(1);
            tracing::info!(peer = %self.peer, "a connection ended without a request that is HTTP");
        }
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
