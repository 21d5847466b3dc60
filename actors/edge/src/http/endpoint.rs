//! Address of a server, and connecting to it.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::Duration,
};

use tokio::{
    net::{TcpStream, UnixStream},
    time::timeout,
};

#[cfg(feature = "tls")]
use crate::tls::TlsClient;
use crate::{HostPort, PeerError, PeerErrorKind, Sent, Transport};

/// Address of a server.
#[derive(Clone)]
pub enum Endpoint {
    /// TCP.
    Tcp(HostPort),
    /// TLS over TCP.
    #[cfg(feature = "tls")]
    Tls(HostPort, TlsClient),
    /// Unix socket.
    Unix(PathBuf),
}

/// Stream of a new connection.
pub(super) struct Dialed {
    pub(super) stream: Box<dyn Transport>,
    /// Second handle on the socket, if requested.
    pub(super) socket: Option<OwnedFd>,
}

impl Endpoint {
    /// Connects within `time`, TLS included. `keep_socket` requests a second handle on the socket.
    pub(super) async fn dial(&self, time: Duration, keep_socket: bool) -> Result<Dialed, PeerError> {
        timeout(time, self.connect(keep_socket)).await.unwrap_or_else(|_| {
            Err(PeerError::new(PeerErrorKind::Timeout, Sent::No, format!("no connection within {time:?}")))
        })
    }

    async fn connect(&self, keep_socket: bool) -> Result<Dialed, PeerError> {
        let failed = |error: io::Error| PeerError::new(PeerErrorKind::Connect, Sent::No, error.to_string());
        let clone_socket = |socket: &dyn AsFd| {
            let socket = keep_socket.then(|| socket.as_fd().try_clone_to_owned()).transpose();
            socket.map_err(failed)
        };
        let address = match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(failed)?;
                return Ok(Dialed { socket: clone_socket(&stream)?, stream: Box::new(stream) });
            }
            Self::Tcp(address) => address,
            #[cfg(feature = "tls")]
            Self::Tls(address, _) => address,
        };
        let stream = TcpStream::connect((&*address.host, address.port)).await.map_err(failed)?;
        // Otherwise the last part of a body waits up to 40 ms for an acknowledgement (Nagle).
        stream.set_nodelay(true).map_err(failed)?;
        let socket = clone_socket(&stream)?;
        #[cfg(feature = "tls")]
        if let Self::Tls(_, tls) = self {
            let stream = tls.connect(stream).await;
            let stream =
                stream.map_err(|error| PeerError::new(PeerErrorKind::Tls, Sent::No, error.to_string()))?;
            return Ok(Dialed { stream: Box::new(stream), socket });
        }
        Ok(Dialed { stream: Box::new(stream), socket })
    }
}
