//! Address of a server, and connecting to it.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::Duration,
};

use tokio::{net::UnixStream, time::timeout};

use super::Proxy;
#[cfg(feature = "tls")]
use crate::tls::TlsClient;
use crate::{HostPort, PeerError, PeerErrorKind, Sent, SettingError, Transport, dial};

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
    /// Proxy on the way to another endpoint.
    Proxied(Proxy, Box<Endpoint>),
}

/// Stream of a new connection.
pub(super) struct Dialed {
    pub(super) stream: Box<dyn Transport>,
    /// Second handle on the socket, if requested.
    pub(super) socket: Option<OwnedFd>,
    /// Proxy that the requests are addressed to.
    pub(super) proxy: Option<Proxy>,
}

impl Endpoint {
    /// Puts the endpoint behind the proxy that the environment names for it, if any.
    ///
    /// # Errors
    /// The proxy's address is none that is supported.
    pub fn with_proxy(self) -> Result<Self, SettingError> {
        let proxy = match &self {
            Self::Tcp(server) => Proxy::of_environment(false, server)?,
            #[cfg(feature = "tls")]
            Self::Tls(server, _) => Proxy::of_environment(true, server)?,
            Self::Unix(_) | Self::Proxied(..) => None,
        };
        Ok(match proxy {
            Some(proxy) => Self::Proxied(proxy, Box::new(self)),
            None => self,
        })
    }

    /// Connects within `time`, TLS included. `keep_socket` requests a second handle on the socket.
    pub(super) async fn dial(&self, time: Duration, keep_socket: bool) -> Result<Dialed, PeerError> {
        timeout(time, self.connect(keep_socket)).await.unwrap_or_else(|_| {
            Err(PeerError::new(PeerErrorKind::Timeout, Sent::No, format!("no connection within {time:?}")))
        })
    }

    async fn connect(&self, keep_socket: bool) -> Result<Dialed, PeerError> {
        let failed = |error: io::Error| PeerError::unconnected(&error);
        let clone_socket = |socket: &dyn AsFd| {
            let socket = keep_socket.then(|| socket.as_fd().try_clone_to_owned()).transpose();
            socket.map_err(failed)
        };
        let (proxy, server) = match self {
            Self::Proxied(proxy, server) => (Some(proxy), &**server),
            server => (None, server),
        };
        let address = match server {
            Self::Tcp(address) => address,
            #[cfg(feature = "tls")]
            Self::Tls(address, _) => address,
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(failed)?;
                return Ok(Dialed { socket: clone_socket(&stream)?, stream: Box::new(stream), proxy: None });
            }
            Self::Proxied(..) => return Err(failed(io::ErrorKind::Unsupported.into())),
        };
        let stream = match proxy {
            Some(proxy) => proxy.connect().await?,
            None => dial(&address.host, address.port).await?,
        };
        // Otherwise the last part of a body waits up to 40 ms for an acknowledgement (Nagle).
        stream.set_nodelay(true).map_err(failed)?;
        let socket = clone_socket(&stream)?;
        #[cfg(feature = "tls")]
        if let Self::Tls(address, tls) = server {
            let mut stream = stream;
            if let Some(proxy) = proxy {
                proxy.tunnel(&mut stream, address).await?;
            }
            let stream = tls.secure(stream, address).await?;
            return Ok(Dialed { stream: Box::new(stream), socket, proxy: None });
        }
        Ok(Dialed { stream: Box::new(stream), socket, proxy: proxy.cloned() })
    }
}
