//! The HTTP servers, one for each open socket. Each has its own connection limit and worker thread, so that a
//! flood of requests over TCP does not affect the unix socket or the probes.
//!
//! A client cannot hold a connection for long: the headers (128 KiB at most) have [`REQUEST_TIMEOUT`], the
//! body has a time-out in `body.rs`, and an unread response has [`UNREAD_TIMEOUT`]. A connection serves one
//! request, so that pipelined ones take no memory.

use std::{
    any::Any, future::ready, io, net::TcpListener, os::unix::net::UnixListener, sync::Arc, time::Duration,
};

use actix_http::{HttpService, error::DispatchError};
use actix_service::{IntoServiceFactory, ServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::{
    App,
    dev::{AppConfig, Extensions, Server, ServerHandle},
    http::KeepAlive,
    web::{Data, PayloadConfig},
};
use futures_util::future::{join_all, try_join_all};
use orchestrator_edge::OneRequest;
use orchestrator_supervise::{Metric, StopToken};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use crate::{
    connection_limit::{ConnectionLimit, LimitedConnection, connections_max},
    handler_context::HandlerContext,
    listeners::Listeners,
    peer::Peer,
    router::{probe_routes, routes},
};
use orchestrator_subsystem::wire::BODY_LIMIT;

/// Time within which the request line and headers have to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for running requests at a graceful stop, in seconds. Commands return at once then, see
/// `command_executor.rs`.
const DRAIN_SECS: u64 = 1;
/// Time without an acknowledgement of sent data after which a TCP connection is closed.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of concurrent connections on the socket of the probes. More wait in the backlog.
const PROBE_CONNECTIONS_MAX: usize = 32;

/// The servers of the open sockets. Polling runs them, dropping stops them.
pub(crate) struct Servers {
    servers: Vec<Server>,
    closing: StopToken,
}

/// Handle that stops the servers.
pub(crate) struct Handle {
    handles: Vec<ServerHandle>,
    closing: StopToken,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Servers {
    /// Builds a server for each open socket, with the contexts for TCP, for the unix socket and for the
    /// probes.
    pub(crate) fn build(listeners: &Listeners, [tcp, unix, probe]: [HandlerContext; 3]) -> io::Result<Self> {
        let closing = tcp.closing.clone();
        let mut servers = Vec::new();
        if let Some(listener) = &listeners.tcp {
            servers.push(server(Socket::Tcp(listener.try_clone()?), tcp, Served::All)?);
        }
        if let Some(listener) = &listeners.probe {
            servers.push(server(Socket::Tcp(listener.try_clone()?), probe, Served::Probes)?);
        }
        if let Some(socket) = &listeners.unix {
            servers.push(server(Socket::Unix(socket.listener.try_clone()?), unix, Served::All)?);
        }
        Ok(Self { servers, closing })
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle { handles: self.servers.iter().map(Server::handle).collect(), closing: self.closing.clone() }
    }

    /// Serves until all servers are stopped.
    ///
    /// # Errors
    /// A server has ended by itself.
    pub(crate) async fn run(self) -> io::Result<()> {
        if self.servers.is_empty() {
            self.closing.cancelled().await;
        }
        let closing = &self.closing;
        let running = self.servers.into_iter().map(|server| async move {
            server.await?;
            if closing.is_cancelled() {
                Ok(())
            } else {
                Err(io::Error::other("the server ended unexpectedly"))
            }
        });
        try_join_all(running).await.map(drop)
    }
}

impl Handle {
    /// Ends event streams at once, and lets other running requests finish.
    pub(crate) async fn stop(&self) {
        self.closing.cancel();
        join_all(self.handles.iter().map(|handle| handle.stop(true))).await;
    }
}

/// Routes of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    All,
    /// `/livez`, `/readyz` and `/metrics`, for everybody.
    Probes,
}

impl Served {
    fn connections_max(self) -> usize {
        match self {
            Self::All => connections_max(),
            Self::Probes => connections_max().min(PROBE_CONNECTIONS_MAX),
        }
    }
}

fn server(socket: Socket, context: HandlerContext, served: Served) -> io::Result<Server> {
    let context = Data::new(context);
    let server = Server::build()
        .workers(1)
        .worker_max_blocking_threads(1)
        .disable_signals()
        .max_concurrent_connections(served.connections_max())
        .shutdown_timeout(DRAIN_SECS);
    let stop = server.graceful_shutdown_signal();
    let stopped = move || {
        let stop = stop.clone();
        async move { stop.notified().await }
    };
    let server = match socket {
        Socket::Tcp(listener) => {
            server.listen("admin", listener, move || service(context.clone(), stopped.clone(), served))?
        }
        Socket::Unix(listener) => {
            server.listen_uds("admin", listener, move || service(context.clone(), stopped.clone(), served))?
        }
    };
    Ok(server.run())
}

/// Service for connections `S`. `stopped` waits for a graceful stop.
fn service<S: AsyncRead + AsyncWrite + Unpin + 'static, Stopped: Future<Output = ()> + 'static>(
    context: Data<HandlerContext>,
    stopped: impl Fn() -> Stopped + 'static,
    served: Served,
) -> impl ServiceFactory<S, Config = (), Response = (), Error = DispatchError, InitError = ()> {
    let malformed = context.metrics.malformed.clone();
    let limit = Arc::new(ConnectionLimit::new(served.connections_max(), context.metrics.evicted.clone()));
    let app = App::new().app_data(context).app_data(PayloadConfig::new(BODY_LIMIT)).configure(match served {
        Served::All => routes,
        Served::Probes => probe_routes,
    });
    let http = HttpService::build()
        .graceful_shutdown_signal(stopped)
        .client_request_timeout(REQUEST_TIMEOUT)
        .client_disconnect_timeout(Duration::from_secs(1))
        // Idle connections would delay a stop.
        .keep_alive(KeepAlive::Disabled)
        .on_connect_ext(move |connection: &OneRequest<LimitedConnection<S>>, data: &mut Extensions| {
            on_connect(connection.get_ref(), data, &malformed);
        })
        .h1(map_config(app.into_factory(), |()| AppConfig::default()));
    let limited = move |connection: S| OneRequest::new(LimitedConnection::new(connection, limit.open()));
    fn_service(move |connection: S| ready(Ok((limited(connection), None)))).and_then(http)
}

fn on_connect<S: 'static>(connection: &LimitedConnection<S>, data: &mut Extensions, malformed: &Metric) {
    let stream: &dyn Any = connection.stream();
    if let Some(stream) = stream.downcast_ref::<TcpStream>() {
        let timeout = u32::try_from(UNREAD_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
        // This fails only if the connection is closed already.
        let _ = set_tcp_user_timeout(stream, timeout);
    }
    Peer::attach(stream, connection.slot(), data, malformed);
}
