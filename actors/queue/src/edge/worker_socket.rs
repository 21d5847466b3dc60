//! The unix socket that workers talk to (contract: worker socket).
//!
//! One future owns the listener and every connection, so that dropping it ends them all. A connection has one request
//! in work at a time, and requests queue in one inbox, first come first served: a flooding client waits its turn.
//! What a request does is the store's business; nothing here knows jobs beyond handing them over.

mod connection;
mod listener;
mod seats;

use std::{io, panic::AssertUnwindSafe, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use orchestrator_supervise::{Factory, Fault, Figure, FigureKind, Outbox, StartCx, StopToken, Vitals};
use tokio::{
    net::UnixStream,
    time::{Instant, sleep_until},
};

pub use listener::{WorkerListener, check};

use self::{
    connection::{Conversation, Shared},
    seats::{Seats, connection_limit},
};
use crate::messages::StoreRequest;

/// How long accepting rests at the most when the system is out of descriptors or memory.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How the socket is served.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// The most connections at a time. When one more comes, the one that has been idle longest is closed (R29).
    /// None: as many as the limit on open files allows, which is raised as far as it goes.
    pub connections_max: Option<usize>,
    /// A peer that reads nothing for so long loses its reply and its connection.
    pub write_stall: Duration,
}

impl Default for Service {
    fn default() -> Self {
        Self { connections_max: None, write_stall: Duration::from_secs(10) }
    }
}

/// The child that binds `path` and serves it. It fails if the path cannot be bound ([`WorkerListener::bind`]).
/// Stopped, it lets the requests in work end and removes the socket; paused, it takes no further request in work.
pub fn factory(path: PathBuf, service: Service, requests: Outbox<StoreRequest>) -> Factory {
    Factory::task(move |cx: StartCx| {
        let (path, requests) = (path.clone(), requests.clone());
        async move {
            let link = cx.vitals.link("unix socket", path.display().to_string());
            let listener = WorkerListener::bind(&path).await.map_err(|error| Fault::from_error(&error))?;
            link.up();
            serve(listener, service, requests, &cx.vitals, cx.stop).await;
            Ok(())
        }
    })
}

/// Serves `listener` until `stop`; then lets the requests in work end.
async fn serve(
    listener: WorkerListener,
    service: Service,
    requests: Outbox<StoreRequest>,
    vitals: &Arc<Vitals>,
    stop: StopToken,
) {
    let house = House {
        listener,
        connections_max: service.connections_max.unwrap_or_else(connection_limit),
        connected: vitals.declare("connections", "connections", FigureKind::Gauge),
        evicted: vitals.declare("connections_evicted", "connections", FigureKind::Counter),
        shared: Arc::new(Shared::new(requests, service.write_stall, vitals.clone())),
    };
    // The children of this future have a fair order of their own; tokio's budget would only wake it up in vain.
    tokio::task::unconstrained(house.run(stop)).await;
}

struct House {
    listener: WorkerListener,
    connections_max: usize,
    connected: Figure,
    evicted: Figure,
    shared: Arc<Shared>,
}

impl House {
    async fn run(self, stop: StopToken) {
        let mut seats = Seats::default();
        let mut connections = FuturesUnordered::new();
        let mut resting = None;
        let mut stopping = false;
        while !(stopping && connections.is_empty()) {
            self.connected.set(seats.len() as u64);
            // One more than the limit may come in; then one has to be gone before the next.
            let may_accept = !stopping && resting.is_none() && seats.len() <= self.connections_max;
            tokio::select! {
                biased;
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    seats.close_all();
                }
                Some(id) = connections.next(), if !connections.is_empty() => {
                    seats.leave(id);
                    resting = None;
                }
                () = sleep_until(resting.unwrap_or_else(Instant::now)), if resting.is_some() => resting = None,
                accepted = self.listener.accept(), if may_accept => match accepted {
                    Ok(stream) => {
                        connections.push(self.admit(stream, &mut seats));
                        if seats.len() > self.connections_max {
                            self.evict(&mut seats);
                        }
                    }
                    // Its peer gave up while it waited.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a worker: closing the connection idle longest");
                        self.evict(&mut seats);
                        // Until that one is gone, or something else has given back what is missing.
                        resting = Some(Instant::now() + ACCEPT_REST);
                    }
                }
            }
        }
    }

    fn admit(&self, stream: UnixStream, seats: &mut Seats) -> impl Future<Output = u64> + use<> {
        let (id, seat) = seats.take();
        let conversation = Conversation::new(stream, seat, self.shared.clone()).run();
        async move {
            // A panic ends its own connection only.
            match AssertUnwindSafe(conversation).catch_unwind().await {
                Ok(Ok(())) => {}
                Ok(Err(end)) => tracing::info!(connection = id, "worker connection closed: {end}"),
                Err(_) => tracing::error!(connection = id, "worker connection panicked"),
            }
            id
        }
    }

    fn evict(&self, seats: &mut Seats) {
        self.evicted.add(u64::from(seats.close_longest_idle()));
    }
}
