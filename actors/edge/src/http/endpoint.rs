//! Server that is connected to.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::Duration,
};

use tokio::{
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::HttpError;
#[cfg(feature = "tls")]
use crate::tls::TlsClient;
use crate::{HostPort, Transport};

/// Address of a server.
#[derive(Clone)]
pub enum Endpoint {
    /// Over TCP.
    Tcp(HostPort),
    /// Over TCP, secured.
    #[cfg(feature = "tls")]
    Tls(HostPort, TlsClient),
    /// A unix socket.
    Unix(PathBuf),
}

/// A connected stream.
pub(super) struct Dialled {
    pub(super) stream: Box<dyn Transport>,
    /// The same socket once more, where that was asked for.
    pub(super) socket: Option<OwnedFd>,
}

impl Endpoint {
    /// Connects, TLS included, within `time`. `twice`: the socket is wanted beside its stream.
    pub(super) async fn dial(&self, time: Duration, twice: bool) -> Result<Dialled, HttpError> {
        timeout(time, self.connect(twice)).await.unwrap_or(Err(HttpError::ConnectTimeout(time)))
    }

    async fn connect(&self, twice: bool) -> Result<Dialled, HttpError> {
        let once_more = |socket: &dyn AsFd| {
            let socket = twice.then(|| socket.as_fd().try_clone_to_owned()).transpose();
            socket.map_err(HttpError::Connect)
        };
        let at = match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(HttpError::Connect)?;
                return Ok(Dialled { socket: once_more(&stream)?, stream: Box::new(stream) });
            }
            Self::Tcp(at) => at,
            #[cfg(feature = "tls")]
            Self::Tls(at, _) => at,
        };
        let stream = TcpStream::connect((&*at.host, at.port)).await.map_err(HttpError::Connect)?;
        // Else the last piece of a body waits for the acknowledgement of the piece before, 40 ms.
        stream.set_nodelay(true).map_err(HttpError::Connect)?;
        let socket = once_more(&stream)?;
        #[cfg(feature = "tls")]
        if let Self::Tls(_, tls) = self {
            let stream = tls.connect(stream).await.map_err(HttpError::Tls)?;
            return Ok(Dialled { stream: Box::new(stream), socket });
        }
        Ok(Dialled { stream: Box::new(stream), socket })
    }
}
