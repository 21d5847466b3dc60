//! The HTTP servers, one for each open socket. Each has its own connection limit and thread, so that a flood
//! of requests over TCP does not affect the unix socket or the probes.
//!
//! A client cannot hold a connection for long: `orchestrator_edge::http` limits the head, the body has a
//! time-out in `body.rs`, and an unread response has [`UNREAD_TIMEOUT`]. A connection serves one request, so
//! that pipelined ones take no memory. `router.rs` answers it: it checks the caller, finds the route in its
//! table, and calls the route's handler, an async function of a [`Request`](crate::request::Request).

use std::{
    future::pending, io, net::TcpListener, os::unix::net::UnixListener, sync::Arc, thread, time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use orchestrator_edge::{ConnectionEvent, ConnectionSlots, http};
use orchestrator_supervise::StopToken;
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net, runtime,
    sync::oneshot,
    time::{sleep, timeout},
};

use crate::{
    connection_limit::{Admission, GRACE, connections_max, oldest, places},
    handler_context::HandlerContext,
    listeners::Listeners,
    peer::Peer,
    router::{Served, answer},
};

/// Time for running requests at a graceful stop. Commands return at once then, see `command_executor.rs`.
const DRAIN: Duration = Duration::from_secs(1);
/// Time without an acknowledgement of sent data after which a TCP connection is closed.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of concurrent connections on the socket of the probes. More wait in the backlog.
const PROBE_CONNECTIONS_MAX: usize = 32;

/// The servers of the open sockets. Dropping them stops them.
pub(crate) struct Servers {
    closing: StopToken,
    /// Reasons of the ends of the threads; an error if there is none.
    ends: FuturesUnordered<oneshot::Receiver<io::Error>>,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Servers {
    /// Starts a server for each open socket, with the contexts for TCP, for the unix socket and for the
    /// probes.
    pub(crate) fn start(listeners: &Listeners, [tcp, unix, probe]: [HandlerContext; 3]) -> io::Result<Self> {
        let servers = Self { closing: tcp.closing.clone(), ends: FuturesUnordered::new() };
        if let Some(listener) = &listeners.tcp {
            servers.add(Socket::Tcp(listener.try_clone()?), tcp, Served::All)?;
        }
        if let Some(listener) = &listeners.probe {
            servers.add(Socket::Tcp(listener.try_clone()?), probe, Served::Probes)?;
        }
        if let Some(socket) = &listeners.unix {
            servers.add(Socket::Unix(socket.listener.try_clone()?), unix, Served::All)?;
        }
        Ok(servers)
    }

    fn add(&self, socket: Socket, context: HandlerContext, served: Served) -> io::Result<()> {
        let (ended, end) = oneshot::channel();
        let run = move || {
            if let Err(error) = run(socket, context, served) {
                let _ = ended.send(error);
            }
        };
        thread::Builder::new().name("admin".to_owned()).spawn(run)?;
        self.ends.push(end);
        Ok(())
    }

    /// Waits until a server ends by itself.
    pub(crate) async fn ended_early(&mut self) -> io::Error {
        match self.ends.next().await {
            Some(Ok(error)) => error,
            Some(Err(_)) => io::Error::other("the server ended unexpectedly"),
            // There are no sockets.
            None => pending().await,
        }
    }

    /// Ends event streams at once, and lets other running requests finish.
    pub(crate) async fn stop(mut self) {
        self.closing.cancel();
        while self.ends.next().await.is_some() {}
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// Serves a socket on this thread until the endpoint closes it.
fn run(socket: Socket, context: HandlerContext, served: Served) -> io::Result<()> {
    let context = Arc::new(context);
    // Handlers that block are run one at a time.
    let runtime = runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
    let ended = runtime.block_on(async {
        match socket {
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                let listener = net::TcpListener::from_std(listener)?;
                let accept = async move || {
                    let (stream, address) = listener.accept().await?;
                    let timeout = u32::try_from(UNREAD_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
                    // This fails only if the connection is closed already.
                    let _ = set_tcp_user_timeout(&stream, timeout);
                    Ok((stream, Peer::Tcp(address)))
                };
                serve(accept, &context, served).await;
            }
            Socket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                let listener = net::UnixListener::from_std(listener)?;
                let accept = async move || {
                    let (stream, _) = listener.accept().await?;
                    let peer = Peer::of_unix(&stream);
                    Ok((stream, peer))
                };
                serve(accept, &context, served).await;
            }
        }
        Ok(())
    });
    runtime.shutdown_background();
    ended
}

/// Serves the connections that `accept` returns until the endpoint closes, then those with a request for at
/// most [`DRAIN`].
async fn serve<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    accept: impl AsyncFn() -> io::Result<(S, Peer)>,
    context: &Arc<HandlerContext>,
    served: Served,
) {
    let max = match served {
        Served::All => connections_max(),
        Served::Probes => connections_max().min(PROBE_CONNECTIONS_MAX),
    };
    let places = places(max);
    // The slots accept one connection more.
    let mut slots = ConnectionSlots::new(max - 1, oldest, None, context.metrics.evicted.clone());
    loop {
        let event = tokio::select! {
            biased;
            () = context.closing.cancelled() => break,
            // All connections were too new to be closed.
            () = sleep(GRACE), if slots.is_full() => {
                slots.evict();
                continue;
            }
            event = slots.next_event(&accept, true) => event,
        };
        if let ConnectionEvent::Accepted((stream, peer)) = event {
            let (context, places) = (context.clone(), places.clone());
            slots.serve((), |_, slot| {
                serve_connection(stream, peer, context, served, Admission::new(slot, places))
            });
        }
    }
    // Further connections are refused.
    drop(accept);
    let drain = async {
        while !slots.is_empty() {
            slots.next_event(async || pending::<io::Result<()>>().await, false).await;
        }
    };
    // Slower requests are dropped.
    let _ = timeout(DRAIN, drain).await;
}

/// Answers the request of one connection. A connection that ends without a valid request is counted and
/// logged with its peer. One that was closed for another one, or brought nothing, such as a check of the
/// port, is not.
async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    context: Arc<HandlerContext>,
    served: Served,
    admission: Admission,
) {
    let answer = |request| answer(&context, peer, &admission, served, request);
    tokio::select! {
        biased;
        () = admission.evicted() => {}
        is_valid = http::serve_one(stream, context.closing.cancelled(), answer) => if !is_valid {
            context.metrics.malformed.add(1);
            tracing::info!(%peer, "connection closed without a valid HTTP request");
        },
    }
}
