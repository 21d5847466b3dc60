//! Sockets of lapin's that are secured by the TLS of this crate. lapin has one of its own, which brings 44 more packages (to read key
//! stores of formats that nobody here has), and trusts the public authorities beside the given ones.

use std::{
    fmt,
    io::{self, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd},
    time::{Duration, Instant},
};

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use futures_util::{AsyncRead, AsyncWrite, Stream};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, uri::AMQPUri};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};

use crate::tls::{ServerName, TlsConnector};

/// What secures connections to one host.
#[derive(Clone)]
pub(super) struct Secured {
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
}

/// Connects to `uri` over TLS.
pub(super) async fn connect(
    uri: AMQPUri,
    secured: Secured,
    properties: ConnectionProperties,
) -> lapin::Result<Connection> {
    let tokio = Tokio::current();
    let runtime = Runtime::new(RuntimeParts::new(tokio.clone(), Sockets { tokio, secured }));
    let dial = async |uri: AMQPUri, runtime: Runtime<RuntimeParts<Tokio, Sockets>>| {
        let address = runtime.to_socket_addrs((uri.authority.host, uri.authority.port));
        Ok(AsyncTcpStream::connect(&runtime, address).await?)
    };
    Connection::connector(uri, runtime, dial, properties).await
}

/// tokio's sockets, each secured as soon as it is connected.
#[derive(Clone)]
struct Sockets {
    tokio: Tokio,
    secured: Secured,
}

impl Reactor for Sockets {
    type TcpStream = Compat<TlsStream<TcpStream>>;
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
        let (connected, Secured { connector, name }) =
            (self.tokio.tcp_connect_addr(addr), self.secured.clone());
        async move {
            let stream = connected.await?.into_inner();
            let secured = connector.connect(name, stream).await;
            secured.map(TokioAsyncReadCompatExt::compat).map_err(|error| {
                io::Error::other(format!(
                    "TLS: {error}: see that the broker speaks TLS at this port, and whose its certificate is"
                ))
            })
        }
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets").field("name", &self.secured.name).finish_non_exhaustive()
    }
}
