//! Connecting to a server, or to the first of several that is of use, over a stream that keeps the limits.

use std::{
    io,
    net::IpAddr,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_user_timeout};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream, lookup_host},
};
use tokio_postgres::{
    Client, Config, Connection, NoTls,
    config::{Host, LoadBalanceHosts},
    tls::NoTlsStream,
};

use super::limits::{Budget, Follower};

/// Port of a server whose address names none.
const PORT: u16 = 5_432;
/// Time that sent bytes may go unacknowledged before the connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A stream that carries a connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A stream from a server that fails as soon as the server breaks a limit.
pub(super) struct Limited {
    stream: Box<dyn Stream>,
    follower: Follower,
    budget: Arc<Budget>,
}

/// A connection, before and after it was let in.
pub(super) type Wire = Connection<Limited, NoTlsStream>;

/// One address to be tried.
enum Target {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// Streams to the servers that `config` names, in the order in which they are to be tried.
pub(super) struct Dial<'a> {
    config: &'a Config,
    budget: Arc<Budget>,
    targets: std::vec::IntoIter<Target>,
}

impl<'a> Dial<'a> {
    /// All servers of `config`; what they send is spent from `budget`.
    pub(super) fn new(config: &'a Config, budget: Arc<Budget>) -> Self {
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let mut targets: Vec<Target> = (0..hosts.len().max(addresses.len()))
            .map(|index| {
                let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
                match (addresses.get(index), hosts.get(index)) {
                    (Some(address), _) => Target::Tcp(IpAddr::to_string(address), port),
                    (None, Some(Host::Tcp(host))) => Target::Tcp(host.clone(), port),
                    (None, Some(Host::Unix(directory))) => {
                        Target::Unix(directory.join(format!(".s.PGSQL.{port}")))
                    }
                    (None, None) => unreachable!("the index is below the longer one's length"),
                }
            })
            .collect();
        if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            fastrand::shuffle(&mut targets);
        }
        Self { config, budget, targets: targets.into_iter() }
    }

    /// Connects to the next server; None when there is no further one.
    pub(super) async fn next(&mut self) -> Option<Result<(Client, Wire), Failure>> {
        let target = self.targets.next()?;
        let connected = async {
            let stream = target.connect().await.map_err(Failure::Connect)?;
            self.budget.renew();
            let stream = Limited { stream, follower: Follower::default(), budget: self.budget.clone() };
            self.config.connect_raw(stream, NoTls).await.map_err(Failure::Greeting)
        };
        Some(connected.await)
    }
}

/// Why there is no connection.
pub(super) enum Failure {
    Connect(io::Error),
    Greeting(tokio_postgres::Error),
}

impl Target {
    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let (host, port) = match self {
            Self::Tcp(host, port) => (host.as_str(), *port),
            Self::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        };
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        for address in lookup_host((host, port)).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    set_socket_keepalive(&stream, true)?;
                    set_tcp_keepidle(&stream, SILENCE_MAX)?;
                    set_tcp_user_timeout(&stream, SILENCE_MAX.as_millis() as u32)?;
                    return Ok(Box::new(stream));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let followed = this.follower.follow(&buffer.filled()[before..], &this.budget);
        Poll::Ready(followed.map_err(|excess| io::Error::new(io::ErrorKind::InvalidData, excess)))
    }
}

impl AsyncWrite for Limited {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
