//! The unix socket that workers talk to (CONTRACT QP01 to QP14).
//!
//! One future owns the listener and every connection, so that dropping it ends them all. A connection has one request
//! in work at a time, and requests queue in one inbox, first come first served: a flooding client waits its turn.
//! What a request does is the store's business; nothing here knows jobs beyond handing them over.

mod connection;
mod listener;
mod slots;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orchestrator_edge::{ConnectionEvent, ConnectionSlots, Reconnect};
use orchestrator_supervise::{Backoff, Factory, Fault, Outbox, StartCx, StopToken, Vitals, metrics};
use tokio::{
    net::{UnixStream, unix::UCred},
    time::{MissedTickBehavior, interval, sleep},
};

pub use listener::{WorkerListener, check};

use self::{
    connection::{Conversation, End, Shared},
    slots::{connection_limit, longest_idle},
};
use crate::{edge::error::EdgeError, messages::StoreRequest};

/// Waits before a path that the operating system refuses is bound again.
const RETRY: Backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(5) };

/// Interval of checks that the path still stands for the socket.
const CHECK: Duration = Duration::from_secs(1);

/// How the socket is served.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// The most connections at a time. When one more comes, the one that has been idle longest is closed (CONTRACT QR29).
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

/// The child that binds `path` and serves it. It fails if the path is somebody else's ([`WorkerListener::bind`]); a path that the
/// operating system refuses is a state of the link, and tried again. Likewise a socket whose file was deleted or replaced is bound anew.
/// Stopped, it lets the requests in work end and removes the socket; paused, it takes no further request in work.
pub fn factory(path: PathBuf, service: Service, requests: Outbox<StoreRequest>) -> Factory {
    Factory::task(move |cx: StartCx| {
        let (path, requests) = (path.clone(), requests.clone());
        async move {
            let link = cx.vitals.link("unix socket", path.display().to_string());
            let mut tries = Reconnect::new(link, RETRY);
            let Some(listener) = bind(&path, &mut tries, &cx.stop).await? else { return Ok(()) };
            serve(listener, tries, service, requests, &cx.vitals, cx.stop).await;
            Ok(())
        }
    })
}

/// Binds `path`, waiting as long as the operating system refuses; None when asked to stop meanwhile.
async fn bind(path: &Path, tries: &mut Reconnect, stop: &StopToken) -> Result<Option<WorkerListener>, Fault> {
    loop {
        let fault = match WorkerListener::bind(path).await {
            Ok(listener) => {
                tries.succeeded();
                return Ok(Some(listener));
            }
            Err(error @ EdgeError::Refused { .. }) => Fault::from_error(&error),
            Err(error) => return Err(Fault::from_error(&error)),
        };
        let delay = tries.failed(fault.to_string());
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(None),
            () = sleep(delay) => {}
        }
    }
}

/// Serves `listener` until `stop`; then lets the requests in work end.
async fn serve(
    listener: WorkerListener,
    tries: Reconnect,
    service: Service,
    requests: Outbox<StoreRequest>,
    vitals: &Arc<Vitals>,
    stop: StopToken,
) {
    let metrics = SocketMetrics::register(vitals);
    let slots = ConnectionSlots::new(
        service.connections_max.unwrap_or_else(connection_limit),
        longest_idle,
        metrics.connected,
        metrics.evicted,
    );
    let shared = Arc::new(Shared::new(requests, service.write_stall, vitals.clone()));
    let server = WorkerServer { listener, tries, shared };
    // The children of this future have a fair order of their own; tokio's budget would only wake it up in vain.
    tokio::task::unconstrained(server.run(slots, stop)).await;
}

/// Process at the other end of a connection, as the kernel saw it when it connected.
struct Peer(Option<UCred>);

impl Peer {
    fn of(stream: &UnixStream) -> Self {
        Self(stream.peer_cred().ok())
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // A process of another namespace has no number here.
            Some(peer) => write!(f, "pid {} uid {}", peer.pid().unwrap_or(0), peer.uid()),
            None => f.write_str("unknown"),
        }
    }
}

metrics! {
    /// Metrics of the socket.
    struct SocketMetrics {
        /// Workers connected.
        connected: gauge("connections") as "connections",
        /// Idle workers cut off to make room for new ones.
        evicted: counter("connections") as "connections_evicted",
    }
}

struct WorkerServer {
    listener: WorkerListener,
    tries: Reconnect,
    shared: Arc<Shared>,
}

impl WorkerServer {
    async fn run(mut self, mut slots: ConnectionSlots<Peer, Result<(), End>>, stop: StopToken) {
        let mut check = interval(CHECK);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopping = false;
        while !(stopping && slots.is_empty()) {
            tokio::select! {
                biased;
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    slots.close_all();
                }
                _ = check.tick(), if !stopping => self.stay_reachable().await,
                event = slots.next_event(async || self.listener.accept().await, !stopping) => match event {
                    ConnectionEvent::Accepted(stream) => {
                        let shared = self.shared.clone();
                        let peer = Peer::of(&stream);
                        slots.serve(peer, |_, slot| Conversation::new(stream, slot, shared).run());
                    }
                    ConnectionEvent::Ended { end: Some(Ok(())), .. } => {}
                    ConnectionEvent::Ended { id, peer, end: Some(Err(end)) } => {
                        tracing::info!(connection = id, %peer, "worker connection closed: {end}");
                    }
                    ConnectionEvent::Ended { id, peer, end: None } => {
                        tracing::error!(connection = id, %peer, "worker connection panicked");
                    }
                },
            }
        }
    }

    /// Binds the path anew if the socket's file was deleted or replaced. Connections that stand go on.
    async fn stay_reachable(&mut self) {
        let path = self.listener.path();
        if self.listener.is_current() {
            return;
        }
        let bound = match check(path) {
            Ok(()) => WorkerListener::bind(path).await,
            Err(error) => Err(error),
        };
        match bound {
            Ok(listener) => {
                tracing::warn!(?path, "the worker socket was deleted or replaced: it is bound anew");
                self.listener = listener;
                self.tries.succeeded();
            }
            Err(error) => {
                let why = Fault::from_error(&error);
                let reason = format!("worker socket {} was deleted or replaced: {why}", path.display());
                self.tries.not_ready(reason, CHECK);
            }
        }
    }
}
