//! Sockets for lapin that check the limits of [`frames`](super::frames) and use the TLS of this crate.
//!
//! The TLS of lapin needs 44 more packages, and trusts the public authorities beside the configured ones.

use std::{
    fmt,
    io::{self, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd},
    pin::Pin,
    sync::{Arc, OnceLock, Weak},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use futures_util::{AsyncRead, AsyncWrite, Stream};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, uri::AMQPUri};
use orchestrator_observe::LinkRequest;
use tokio::time::{Sleep, sleep};
use tokio_util::{
    compat::{Compat, TokioAsyncReadCompatExt},
    sync::{CancellationToken, DropGuard},
};

use super::frames::{FrameTracker, UnreadDeliveries};
use crate::{
    dial::lookup,
    limited_stream::{FrameLimit, LimitError, LimitedStream, Transport},
    tls::TlsClient,
};

/// Time for connecting and the handshake.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Set at the end of the handshake, with the wait for the broker's next bytes.
pub(super) type Established = OnceLock<Weak<LinkRequest>>;

/// Connects to `uri`, over `tls` if set, with frames of at most `frame_max` bytes. Received messages are
/// counted in `unread`, the caller sets `established`, and `closed` is cancelled when lapin drops the socket,
/// also by a panic of its thread.
pub(super) async fn connect(
    uri: AMQPUri,
    tls: Option<TlsClient>,
    properties: ConnectionProperties,
    frame_max: u32,
    unread: Arc<UnreadDeliveries>,
    established: Arc<Established>,
    closed: CancellationToken,
) -> lapin::Result<Connection> {
    let tokio = Tokio::current();
    let sockets = Sockets { tokio: tokio.clone(), tls, frame_max, unread, established, closed };
    let runtime = Runtime::new(RuntimeParts::new(tokio, sockets));
    let dial = async |uri: AMQPUri, runtime: Runtime<RuntimeParts<Tokio, Sockets>>| {
        let addresses = lookup(&uri.authority.host, uri.authority.port).await.map_err(io::Error::other)?;
        Ok(AsyncTcpStream::connect(&runtime, addresses).await?)
    };
    Connection::connector(uri, runtime, dial, properties).await
}

/// Reactor of tokio that adds TLS and limits to each new socket.
#[derive(Clone)]
struct Sockets {
    tokio: Tokio,
    tls: Option<TlsClient>,
    frame_max: u32,
    unread: Arc<UnreadDeliveries>,
    established: Arc<Established>,
    closed: CancellationToken,
}

/// Limit on received frames and on the time of the handshake.
///
/// It fails the stream if the broker closes it or is silent during the handshake. lapin would wait for ever,
/// with one thread for each such connection.
struct BrokerLimit {
    tracker: FrameTracker,
    established: Arc<Established>,
    /// Deadline of the handshake.
    deadline: Pin<Box<Sleep>>,
    /// Reports the end of the socket when dropped.
    _closed: DropGuard,
}

impl FrameLimit for BrokerLimit {
    fn received(&mut self, bytes: &mut [u8]) -> Result<usize, LimitError> {
        let established = self.established.get();
        if let Some(silence) = established.and_then(Weak::upgrade) {
            silence.renew();
        }
        Ok(self.tracker.track(bytes, established.is_some())?)
    }

    fn ended(&mut self) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the broker closed the connection"))
    }

    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.established.get().is_some() {
            return Poll::Pending;
        }
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the broker does not end the handshake");
        self.deadline.as_mut().poll(cx).map(|()| late())
    }
}

impl Reactor for Sockets {
    type TcpStream = Compat<LimitedStream<Box<dyn Transport>, BrokerLimit>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.tokio.register(socket)
    }

    fn sleep(&self, dur: Duration) -> Self::Sleep {
        self.tokio.sleep(dur)
    }

    fn interval(&self, dur: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.tokio.interval(dur)
    }

    fn tcp_connect_addr(
        &self,
        addr: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let (connected, tls) = (self.tokio.tcp_connect_addr(addr), self.tls.clone());
        let tracker = FrameTracker::new(self.frame_max, self.unread.clone());
        let (established, closed) = (self.established.clone(), self.closed.clone());
        async move {
            let stream = connected.await?.into_inner();
            let stream: Box<dyn Transport> = match tls {
                None => Box::new(stream),
                Some(tls) => Box::new(tls.secure(stream, addr).await.map_err(io::Error::other)?),
            };
            let deadline = Box::pin(sleep(CONNECT_TIMEOUT));
            let _closed = closed.drop_guard();
            Ok(LimitedStream::new(stream, BrokerLimit { tracker, established, deadline, _closed }).compat())
        }
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets").field("frame_max", &self.frame_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
