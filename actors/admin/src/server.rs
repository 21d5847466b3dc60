//! The HTTP servers: one for each socket that is open, each with connections and a worker thread of its own, so that
//! strangers who fill up TCP leave the unix socket, an operator's last way in, alone. One worker each: an operator's tool
//! must not take a core from the work.
//!
//! Nobody can hold a connection for long: not with headers that do not come ([`REQUEST_TIMEOUT`], 128 KiB at most), not
//! with a body that does not come (`body.rs`), not by not reading the answer ([`UNREAD_MAX`]).

use std::{any::Any, io, net::TcpListener, os::unix::net::UnixListener, time::Duration};

use actix_web::{
    App, HttpServer,
    dev::{Extensions, Server, ServerHandle},
    http::KeepAlive,
    web::{Data, PayloadConfig},
};
use futures_util::future::{join_all, try_join_all};
use orchestrator_supervise::{Metric, StopToken};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::net::TcpStream;

use crate::{
    access::Access, connection_limit::connections_max, listeners::Listeners, peer::Peer, router::routes,
};
use orchestrator_subsystem::wire::BODY_LIMIT;

/// A client that has not sent its request line and headers by then is cut off.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// What running requests may take at a graceful stop. Commands answer at once then, see `steering.rs`.
const DRAIN_SECS: u64 = 1;
/// A TCP peer that takes nothing of what was sent, or does not even acknowledge it, for so long is cut off.
const UNREAD_MAX: Duration = Duration::from_secs(10);

/// The servers of one turn; polling runs them, dropping ends them.
pub(crate) struct Servers {
    servers: Vec<Server>,
    closing: StopToken,
}

/// Stops them.
pub(crate) struct Handle {
    handles: Vec<ServerHandle>,
    closing: StopToken,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Servers {
    /// Builds a server for each open socket: for TCP with the first access, for the unix socket with the second.
    pub(crate) fn build(listeners: &Listeners, [tcp, unix]: [Access; 2]) -> io::Result<Self> {
        let closing = tcp.closing.clone();
        let mut servers = Vec::new();
        if let Some(listener) = &listeners.tcp {
            servers.push(server(Socket::Tcp(listener.try_clone()?), tcp)?);
        }
        if let Some(socket) = &listeners.unix {
            servers.push(server(Socket::Unix(socket.listener.try_clone()?), unix)?);
        }
        Ok(Self { servers, closing })
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle { handles: self.servers.iter().map(Server::handle).collect(), closing: self.closing.clone() }
    }

    /// Serves until all are stopped, or one has ended by itself, which is an error.
    pub(crate) async fn run(self) -> io::Result<()> {
        if self.servers.is_empty() {
            self.closing.cancelled().await;
        }
        let closing = &self.closing;
        let running = self.servers.into_iter().map(|server| async move {
            server.await?;
            if closing.is_cancelled() { Ok(()) } else { Err(io::Error::other("it ended by itself")) }
        });
        try_join_all(running).await.map(drop)
    }
}

impl Handle {
    /// Lets running requests end, and readers of events at once, who never end by themselves.
    pub(crate) async fn stop(&self) {
        self.closing.cancel();
        join_all(self.handles.iter().map(|handle| handle.stop(true))).await;
    }
}

fn server(socket: Socket, access: Access) -> io::Result<Server> {
    let malformed = access.tally.malformed.clone();
    let access = Data::new(access);
    let payload = PayloadConfig::new(BODY_LIMIT);
    let app = move || App::new().app_data(access.clone()).app_data(payload.clone()).configure(routes);
    let server = HttpServer::new(app)
        .workers(1)
        .worker_max_blocking_threads(1)
        .disable_signals()
        .max_connections(connections_max())
        .client_request_timeout(REQUEST_TIMEOUT)
        .client_disconnect_timeout(Duration::from_secs(1))
        // Short-lived clients only: no idle connection holds up a stop.
        .keep_alive(KeepAlive::Disabled)
        .shutdown_timeout(DRAIN_SECS)
        .on_connect(move |connection, data| greet(connection, data, &malformed));
    let server = match socket {
        Socket::Tcp(listener) => server.listen(listener)?,
        Socket::Unix(listener) => server.listen_uds(listener)?,
    };
    Ok(server.run())
}

fn greet(connection: &dyn Any, data: &mut Extensions, malformed: &Metric) {
    if let Some(stream) = connection.downcast_ref::<TcpStream>() {
        let patience = u32::try_from(UNREAD_MAX.as_millis()).unwrap_or(u32::MAX);
        // A connection that is gone already needs none.
        let _ = set_tcp_user_timeout(stream, patience);
    }
    Peer::remember(connection, data, malformed);
}
