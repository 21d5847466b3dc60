//! The unix socket that workers connect to (CONTRACT QP01 to QP14).
//!
//! One future owns the listener and all connections, so that dropping it ends them. A connection
//! has one request in progress at a time. All requests go into one inbox in order of arrival, so
//! that a flooding client waits its turn.

mod connection;
mod listener;
mod slots;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_edge::{ConnectionEvent, ConnectionSlots, LinkState, RetryPolicy, SocketAccess};
use orchestrator_observe::{LinkFailure, Metric, metrics};
use orchestrator_queue_rules::protocol::ProtocolError;
use orchestrator_queue_store::LastRequest;
use orchestrator_supervise::{Factory, Fault, Outbox, StartCx, StopToken};
use tokio::{
    net::UnixStream,
    time::{MissedTickBehavior, interval},
};

pub(crate) use listener::{WorkerListener, check};

use self::{
    connection::{ConnectionError, Shared, WorkerConnection},
    slots::{connection_limit, longest_idle},
};
use crate::{edge::error::EdgeError, messages::StoreRequest, workers_seen::WorkersSeen};

/// Interval of checks that the socket file was not replaced.
const CHECK: Duration = Duration::from_secs(1);
/// Minimum interval of lines of the log about what is not a request.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The child fails if another process serves `path` ([`WorkerListener::bind`]). Other bind errors are a state
/// of the link and tried again. A socket file that was deleted or replaced is bound again. On a stop,
/// requests in progress are finished within `last_answer` and the socket is removed; while paused no request
/// is started.
pub(crate) fn factory(
    path: PathBuf,
    access: SocketAccess,
    requests: Outbox<StoreRequest>,
    (last_request, workers): (LastRequest, WorkersSeen),
    last_answer: Duration,
) -> Factory {
    Factory::task(move |cx: StartCx| {
        let (path, requests) = (path.clone(), requests.clone());
        let (last_request, workers) = (last_request.clone(), workers.clone());
        async move {
            let link = LinkState::new(&cx, "unix socket", path.display().to_string(), RetryPolicy::LOCAL);
            let Some(listener) = bind(&path, access, &link).await? else { return Ok(()) };
            let shared = Shared::new(requests, last_request, cx.child.clone(), last_answer);
            workers.begin();
            serve(listener, link, shared, workers, cx.stop).await;
            Ok(())
        }
    })
}

/// Binds `path` and repeats failed tries. Returns None when asked to stop.
async fn bind(path: &Path, access: SocketAccess, link: &LinkState) -> Result<Option<WorkerListener>, Fault> {
    loop {
        match WorkerListener::bind(path, access).await {
            Ok(listener) => {
                link.succeeded();
                return Ok(Some(listener));
            }
            Err(error @ EdgeError::Refused { .. }) => {
                if !link.retry(&error).await {
                    return Ok(None);
                }
            }
            Err(error) => return Err(Fault::from_error(&error)),
        }
    }
}

/// Serves `listener` until `stop`, then finishes requests in progress.
async fn serve(
    listener: WorkerListener,
    link: LinkState,
    shared: Shared,
    workers: WorkersSeen,
    stop: StopToken,
) {
    let metrics = SocketMetrics::register(shared.vitals());
    let slots = ConnectionSlots::new(connection_limit(), longest_idle, metrics.connected, metrics.evicted);
    let malformed = MalformedRequests { count: metrics.malformed, logged_at: None, unlogged: 0 };
    let server = WorkerServer { listener, link, shared: Arc::new(shared), workers, malformed };
    // Connections take turns already; tokio's budget would only cause needless wake-ups.
    tokio::task::unconstrained(server.run(slots, stop)).await;
}

/// Name of a connection in the record of attempts.
fn name_of(id: u64, peer: &str) -> String {
    format!("{id} ({peer})")
}

/// Process and user of the peer, as the kernel recorded them at the connect.
fn process(stream: &UnixStream) -> String {
    match stream.peer_cred() {
        // A process of another PID namespace has no PID here.
        Ok(peer) => format!("pid {} uid {}", peer.pid().unwrap_or(0), peer.uid()),
        Err(_) => "unknown".to_owned(),
    }
}

metrics! {
    /// Metrics of the worker socket.
    struct SocketMetrics {
        /// Worker connections open.
        connected: gauge("connections") as "connections",
        /// Idle connections closed to make room for new ones.
        evicted: counter("connections") as "evicted",
        /// Connections closed because of something that is not a request.
        malformed: counter("requests") as "malformed",
    }
}

/// Count of what is not a request, with a line of the log for the first one in each [`LOG_INTERVAL`].
struct MalformedRequests {
    count: Metric,
    logged_at: Option<Instant>,
    /// Number since the last line of the log.
    unlogged: u64,
}

impl MalformedRequests {
    fn record(&mut self, connection: u64, peer: &str, error: ProtocolError) {
        self.count.add(1);
        if self.logged_at.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            self.unlogged += 1;
            return;
        }
        self.logged_at = Some(Instant::now());
        let not_logged = std::mem::take(&mut self.unlogged);
        tracing::warn!(connection, %peer, not_logged, "worker connection closed: {error}");
    }
}

struct WorkerServer {
    listener: WorkerListener,
    link: LinkState,
    shared: Arc<Shared>,
    workers: WorkersSeen,
    malformed: MalformedRequests,
}

impl WorkerServer {
    async fn run(mut self, mut slots: ConnectionSlots<String, Result<(), ConnectionError>>, stop: StopToken) {
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
                _ = check.tick(), if !stopping => self.rebind_if_replaced().await,
                event = slots.next_event(async || self.listener.accept().await, !stopping) => match event {
                    ConnectionEvent::Accepted(stream) => {
                        let shared = self.shared.clone();
                        let peer = process(&stream);
                        slots.serve(peer.clone(), |id, slot| {
                            let name: Arc<str> = name_of(id, &peer).into();
                            self.workers.opened(&name);
                            WorkerConnection::new(stream, slot, shared, name).run()
                        });
                    }
                    ConnectionEvent::Ended { id, peer, end } => {
                        self.workers.closed(&name_of(id, &peer));
                        self.log_end(id, &peer, end);
                    }
                },
            }
        }
    }

    fn log_end(&mut self, connection: u64, peer: &str, end: Option<Result<(), ConnectionError>>) {
        match end {
            Some(Ok(())) => {}
            Some(Err(ConnectionError::Protocol(error))) => self.malformed.record(connection, peer, error),
            Some(Err(end)) => tracing::info!(connection, %peer, "worker connection closed: {end}"),
            None => tracing::error!(connection, %peer, "worker connection panicked"),
        }
    }

    /// Binds the path again if the socket file was deleted or replaced. Open connections continue.
    async fn rebind_if_replaced(&mut self) {
        let path = self.listener.path();
        if self.listener.is_current() {
            return;
        }
        let bound = match check(path) {
            Ok(()) => WorkerListener::bind(path, self.listener.access()).await,
            Err(error) => Err(error),
        };
        match bound {
            Ok(listener) => {
                tracing::warn!(?path, "the worker socket was deleted or replaced: bound it again");
                self.listener = listener;
                self.link.succeeded();
            }
            Err(error) => {
                let failure = LinkFailure::from(&error);
                let reason =
                    format!("worker socket {} was deleted or replaced: {}", path.display(), failure.reason);
                self.link.not_ready(LinkFailure { reason, ..failure }, CHECK);
            }
        }
    }
}
