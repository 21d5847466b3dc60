//! Sockets of lapin's that keep the limits of [`frames`](super::frames), secured by the TLS of this crate where that is wanted. lapin has
//! one of its own, which brings 44 more packages (to read key stores of formats that nobody here has), and trusts the public authorities
//! beside the given ones.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, IoSlice, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use futures_util::{AsyncRead, AsyncWrite, Stream};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, uri::AMQPUri};
use tokio::time::{Sleep, sleep};
use tokio_util::compat::TokioAsyncReadCompatExt;

use super::frames::{Follower, Inflow};
use crate::tls::{ServerName, TlsConnector};

/// A broker that takes longer to let us in counts as away.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// TLS for connections to one host.
#[derive(Clone)]
pub(super) struct Secured {
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
}

/// Connects to `uri`, over TLS if it is to be `secured`, with frames of `frame_max` bytes at most. What comes in is counted in `inflow`.
pub(super) async fn connect(
    uri: AMQPUri,
    secured: Option<Secured>,
    properties: ConnectionProperties,
    frame_max: u32,
    inflow: Arc<Inflow>,
) -> lapin::Result<Connection> {
    let tokio = Tokio::current();
    let is_established = Arc::new(AtomicBool::new(false));
    let sockets =
        Sockets { tokio: tokio.clone(), secured, frame_max, inflow, is_established: is_established.clone() };
    let runtime = Runtime::new(RuntimeParts::new(tokio, sockets));
    let dial = async |uri: AMQPUri, runtime: Runtime<RuntimeParts<Tokio, Sockets>>| {
        let address = runtime.to_socket_addrs((uri.authority.host, uri.authority.port));
        Ok(AsyncTcpStream::connect(&runtime, address).await?)
    };
    let connection = Connection::connector(uri, runtime, dial, properties).await?;
    is_established.store(true, Relaxed);
    Ok(connection)
}

/// tokio's sockets, each secured as soon as it is connected.
#[derive(Clone)]
struct Sockets {
    tokio: Tokio,
    secured: Option<Secured>,
    frame_max: u32,
    inflow: Arc<Inflow>,
    /// Set at the end of the handshake.
    is_established: Arc<AtomicBool>,
}

/// A stream that carries a connection.
trait Carrier: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carrier for T {}

/// A stream from a broker that fails as soon as the broker breaks a limit, closes the stream, or takes too long for the handshake: lapin
/// waits for ever for the rest of a handshake, even on a stream that has ended, with a thread for each such connection.
struct Limited {
    stream: Box<dyn Carrier>,
    follower: Follower,
    is_established: Arc<AtomicBool>,
    /// End of the handshake's time.
    deadline: Pin<Box<Sleep>>,
    /// Beginning of a frame that is looked into as a whole; one frame at the most.
    held: Vec<u8>,
    /// Such a frame, whole, as far as it was not taken yet.
    whole: VecDeque<u8>,
}

impl Limited {
    /// Receives bytes; the end of the stream is an error.
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(read) => read?,
            Poll::Pending if self.is_established.load(Relaxed) => return Poll::Pending,
            Poll::Pending => {
                let late =
                    || io::Error::new(io::ErrorKind::TimedOut, "the broker does not end the handshake");
                return self.deadline.as_mut().poll(cx).map(|()| Err(late()));
            }
        };
        if read == 0 {
            let closed = io::Error::new(io::ErrorKind::UnexpectedEof, "the broker closed the connection");
            return Poll::Ready(Err(closed));
        }
        Poll::Ready(Ok(read))
    }
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let breach = |excess| io::Error::new(io::ErrorKind::InvalidData, excess);
        loop {
            if !this.whole.is_empty() || buffer.is_empty() {
                return Poll::Ready(this.whole.read(buffer));
            }
            let established = this.is_established.load(Relaxed);
            if this.held.is_empty() {
                let read = ready!(this.poll_receive(cx, buffer))?;
                let passed = this.follower.follow(&mut buffer[..read], established).map_err(breach)?;
                this.held.extend_from_slice(&buffer[passed..read]);
                if passed > 0 {
                    return Poll::Ready(Ok(passed));
                }
            } else {
                let missing = this.follower.missing(&this.held).map_err(breach)?.min(buffer.len());
                let read = ready!(this.poll_receive(cx, &mut buffer[..missing]))?;
                this.held.extend_from_slice(&buffer[..read]);
                let passed = this.follower.follow(&mut this.held, established).map_err(breach)?;
                this.whole.extend(this.held.drain(..passed));
            }
        }
    }
}

impl AsyncWrite for Limited {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

impl Reactor for Sockets {
    type TcpStream = Limited;
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
        let (connected, secured) = (self.tokio.tcp_connect_addr(addr), self.secured.clone());
        let follower = Follower::new(self.frame_max, self.inflow.clone());
        let is_established = self.is_established.clone();
        async move {
            let stream = connected.await?;
            let limited = |stream| Limited {
                stream,
                follower,
                is_established,
                deadline: Box::pin(sleep(CONNECT_TIMEOUT)),
                held: Vec::new(),
                whole: VecDeque::new(),
            };
            let Some(Secured { connector, name }) = secured else {
                return Ok(limited(Box::new(stream)));
            };
            let secured = connector.connect(name, stream.into_inner()).await.map_err(|error| {
                io::Error::other(format!(
                    "TLS: {error}: see that the broker speaks TLS at this port, and whose its certificate is"
                ))
            })?;
            Ok(limited(Box::new(secured.compat())))
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
