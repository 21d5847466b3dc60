//! The HTTP server on whatever sockets are open. One worker: an operator's tool must not take a core from the work.

use std::{io, time::Duration};

use actix_web::{
    App, HttpServer,
    dev::Server,
    http::KeepAlive,
    web::{Data, PayloadConfig},
};

use crate::{access::Access, listeners::Listeners, peer::Peer, router::routes, wire::BODY_LIMIT};

/// A client that has not sent its request line and headers by then is cut off.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections at once; more wait in the backlog.
const CONNECTIONS_MAX: usize = 256;
/// What running requests may take at a graceful stop. Commands answer at once then, see `command.rs`.
const DRAIN_SECS: u64 = 1;

/// Builds the server; polling it runs it, dropping it ends it.
pub(crate) fn build(listeners: &Listeners, access: &Access) -> io::Result<Server> {
    let access = Data::new(access.clone());
    let payload = PayloadConfig::new(BODY_LIMIT);
    let app = move || App::new().app_data(access.clone()).app_data(payload.clone()).configure(routes);
    let mut server = HttpServer::new(app)
        .workers(1)
        .worker_max_blocking_threads(1)
        .disable_signals()
        .max_connections(CONNECTIONS_MAX)
        .client_request_timeout(REQUEST_TIMEOUT)
        .client_disconnect_timeout(Duration::from_secs(1))
        // Short-lived clients only: no idle connection holds up a stop.
        .keep_alive(KeepAlive::Disabled)
        .shutdown_timeout(DRAIN_SECS)
        .on_connect(Peer::remember);
    if let Some(listener) = &listeners.tcp {
        server = server.listen(listener.try_clone()?)?;
    }
    if let Some(socket) = &listeners.unix {
        server = server.listen_uds(socket.listener.try_clone()?)?;
    }
    Ok(server.run())
}
