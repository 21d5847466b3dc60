//! The peer of a connection, as the operating system reports it.

use std::{any::Any, cell::Cell, fmt, net::SocketAddr, sync::Arc};

use actix_web::dev::Extensions;
use orchestrator_supervise::Metric;
use tokio::net::{TcpStream, UnixStream};

use crate::connection_limit::Slot;

/// Peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    Unix { uid: u32, pid: Option<i32> },
    Unknown,
}

impl Peer {
    /// Adds the peer and a [`Connection`] to the data of a new connection.
    pub(crate) fn attach(connection: &dyn Any, slot: &Arc<Slot>, data: &mut Extensions, malformed: &Metric) {
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
        data.insert(Connection {
            peer,
            slot: slot.clone(),
            served: Cell::new(false),
            malformed: malformed.clone(),
        });
    }
}

/// A connection. If it ends without a valid request, it is counted and logged with its peer, since the HTTP
/// library rejects malformed requests without naming their sender. One that was closed for another one, or
/// brought nothing, such as a check of the port, is not.
pub(crate) struct Connection {
    peer: Peer,
    slot: Arc<Slot>,
    served: Cell<bool>,
    malformed: Metric,
}

impl Connection {
    /// Records that a valid request was received. Returns the place of the connection.
    pub(crate) fn mark_served(&self) -> Arc<Slot> {
        self.served.set(true);
        self.slot.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.served.get() && !self.slot.is_evicted() && self.slot.has_input() {
            self.malformed.add(1);
            tracing::info!(peer = %self.peer, "connection closed without a valid HTTP request");
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
