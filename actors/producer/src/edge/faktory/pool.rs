//! Pool of connections with a byte bound for each connection's queue.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel},
    },
    task::{Context, Poll},
    time::Duration,
};

use orchestrator_edge::PeerError;
use orchestrator_observe::LinkStatus;
use orchestrator_supervise::{AskError, ChildSpec, Outbox, Shutdown, Tree, inbox, reply};
use tokio::sync::Semaphore;

use super::{
    connection_task::{BatchRequest, InfoRequest, factory},
    error::{ambiguous, connection_lost, not_sent},
    server::{Server, Timeouts},
};
use orchestrator_producer_rules::{batch::Batch, queue_state::QueueState};

use crate::queue::Unacknowledged;

/// Upper bound of the batches that wait for a connection.
const BATCHES: usize = 1_024;
/// Upper bound of the `INFO` requests that wait for a connection.
const INFOS: usize = 16;

/// Shutdown time-out: the producer stops first and waits for the reply in flight.
const STOP_TIMEOUT: Shutdown = Shutdown::After(Duration::from_secs(1));

/// Tree id of the pool.
const POOL: &str = "faktory";

/// Size of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolOptions {
    /// Connections, 1 to 4.
    pub connections: usize,
    /// Bytes of the batches that wait for one connection or are in flight on it. A larger batch goes alone.
    pub bytes: usize,
    /// Gauges of all queues and sets of the server.
    pub queue_gauges: bool,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { connections: 1, bytes: 4 * Batch::BYTES_MAX, queue_gauges: false }
    }
}

/// Handle of a pool. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Faktory {
    connections: Arc<[ConnectionHandle]>,
    info_timeout: Duration,
    bytes: u32,
}

#[derive(Debug)]
struct ConnectionHandle {
    batches: Outbox<BatchRequest>,
    infos: Outbox<InfoRequest>,
    free_bytes: Arc<Semaphore>,
}

/// Future of a batch's result: the jobs that the server refused.
#[derive(Debug)]
pub struct PendingPush {
    outcome: orchestrator_supervise::Pending<Result<Option<Unacknowledged>, PeerError>>,
    claimed: Arc<AtomicBool>,
}

/// Returns a handle to `server` and the pool of children that own its connections.
pub fn child_spec(server: Server, options: PoolOptions) -> (Faktory, ChildSpec) {
    let Timeouts { connect, handshake, reply, .. } = server.timeouts;
    let bytes = u32::try_from(options.bytes).unwrap_or(u32::MAX).max(1);
    let connection = |_| {
        let ((batches, batch_slot), (infos, info_slot)) = (inbox(BATCHES), inbox(INFOS));
        let free_bytes = Arc::new(Semaphore::new(bytes as usize));
        (ConnectionHandle { batches, infos, free_bytes }, (batch_slot, info_slot))
    };
    let (handles, slots): (Vec<_>, Vec<_>) = (0..options.connections.clamp(1, 4)).map(connection).unzip();
    let count = slots.len();
    let child = move |index: usize| {
        // The first connection answers requests for INFO.
        factory(server.clone(), &slots[index].0, &slots[index].1, options.queue_gauges && index == 0)
    };
    let pool = ChildSpec::pool(POOL, count, child).shutdown(STOP_TIMEOUT);
    // An INFO may wait for a batch in flight and for a new connection.
    let info_timeout = connect + handshake + reply * 3;
    (Faktory { connections: handles.into(), info_timeout, bytes }, pool)
}

/// Reason of the first connection that is down or unanswered. `path` is that of the pool in the tree.
pub(crate) fn outage(tree: &Tree, path: &str) -> Option<String> {
    let links = tree.node(path)?.children.into_iter().filter_map(|connection| connection.link);
    links
        .filter(|link| matches!(link.state, LinkStatus::Down | LinkStatus::Unanswered))
        .find_map(|link| link.reason)
}

impl Faktory {
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Queues `batch` for connection number `connection`, modulo their number, once its queue has room. The
    /// batches of one connection are pushed in the order of these calls. A batch whose [`PendingPush`] is
    /// dropped before is not sent.
    pub async fn submit(&self, connection: usize, batch: Batch) -> PendingPush {
        let handle = &self.connections[connection % self.connections.len()];
        let (reply, outcome) = reply();
        let claimed = Arc::new(AtomicBool::new(false));
        let pending = PendingPush { outcome, claimed: claimed.clone() };
        let size = u32::try_from(batch.bytes()).unwrap_or(u32::MAX).min(self.bytes);
        let Some(command) = batch.into_command() else {
            let _ = reply.send(Ok(None));
            return pending;
        };
        // The semaphore is never closed.
        let permit = handle.free_bytes.clone().acquire_many_owned(size).await.ok();
        let request = BatchRequest { command, reply, claimed, _permit: permit };
        // Refused only when the process ends.
        if let Err(refused) = handle.batches.send(request).await {
            let _ = refused.message.reply.send(Err(not_sent("the process ends")));
        }
        pending
    }

    /// Requests the lengths of queues and sets over the first connection, after the batch in flight there.
    ///
    /// # Errors
    /// There is none, without a delay while the server is unavailable.
    pub async fn info(&self) -> Result<QueueState, PeerError> {
        let lost = |reason: &str| Err(connection_lost(reason));
        match self.connections[0].infos.ask(|reply| reply, self.info_timeout).await {
            Ok(info) => info,
            Err(AskError::Full(_)) => lost("too many INFO requests wait"),
            Err(AskError::Lost) => lost("the connection's child ended before the reply"),
            Err(AskError::TimedOut(limit)) => lost(&format!("no answer within {limit:?}")),
        }
    }
}

impl PendingPush {
    /// Withdraws the batch if it is not being sent yet. Returns false if it is; then await the result.
    pub fn withdraw(&self) -> bool {
        !self.claimed.swap(true, AcqRel)
    }
}

impl Future for PendingPush {
    type Output = Result<Option<Unacknowledged>, PeerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(cx).map(|outcome| {
            outcome.unwrap_or_else(|_| Err(ambiguous("the connection's child ended before the reply")))
        })
    }
}
