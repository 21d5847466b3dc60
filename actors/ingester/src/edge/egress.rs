//! Sending to workers: a ZMTP ROUTER.
//!
//! [`Egress`] holds a queue for each worker, connected or not. It outlives the children.
//! [`factory`] is the child that listens and writes queues to connections. [`spill_factory`] is the
//! child that keeps on disk the messages beyond a worker's memory budget. A slow worker fills its
//! own queue only.
//!
//! Messages reach each worker in order over memory, disk and connections. A message that a lost
//! connection wrote in part is sent again, whole. Messages in the kernel's socket buffer are lost
//! with the connection, as with any ROUTER.

mod connection;
mod eviction;
mod forwarding;
mod idle_worker;
mod kernel_queue;
mod limits;
mod listener;
mod locate;
mod message;
mod metrics_exporter;
mod peer_state;
mod peers;
mod progress;
#[cfg(test)]
mod properties;
mod queue;
mod server;
mod slow_worker;
mod spill;
mod spill_file;
mod staging;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_observe::millis;
use orchestrator_supervise::{ChildSpec, Durable, DurableGuard};
use tokio::sync::Notify;

pub(crate) use server::factory;
pub(crate) use spill::spill_factory;

use self::peers::{OfferOutcome, Peers};
pub(crate) use self::{
    limits::EgressLimits,
    locate::Place,
    message::Message,
    peer_state::PeerState,
    progress::{FinishedEvent, ReportsRead},
    slow_worker::WorkerCause,
};
use crate::assignment::Assignment;

/// The worker's queue is full in memory and on disk; wait for [`Egress::wait_for_room`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker's queue is full")]
pub(crate) struct Full;

/// Queues of all workers. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Egress {
    inner: Arc<Inner>,
}

/// Checks that `address` is free to listen on.
///
/// # Errors
/// It is not; the text says what to do.
pub(crate) fn probe(address: SocketAddr) -> Result<(), String> {
    listener::probe(address).map_err(|error| error.to_string())
}

#[derive(Debug)]
struct Inner {
    limits: EgressLimits,
    created: Instant,
    /// A lock for bursts of up to 256 events. A message for each event and worker would take 0.2 us
    /// of the 10 us available at 100,000 events a second.
    peers: Durable<Peers>,
    /// Notified when a refused sender may find room.
    room: Notify,
    /// Notified when the spill thread has work.
    disk: Notify,
}

impl Egress {
    /// Starts without queues.
    pub(crate) fn new(limits: EgressLimits) -> Self {
        let peers = Durable::new("worker_queues", Peers::new(&limits));
        let inner =
            Inner { limits, created: Instant::now(), peers, room: Notify::new(), disk: Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Adds the queues to `child` as durable state.
    pub(crate) fn add_durable_state(&self, child: ChildSpec) -> ChildSpec {
        child.durable(&self.inner.peers)
    }

    /// Locks the queues for a burst of messages. Drop it soon: connections wait for the lock.
    pub(crate) fn burst(&self) -> Burst<'_> {
        Burst { egress: self, at_ms: self.now_ms(), peers: self.lock(), disk: false }
    }

    /// Waits until `worker`'s queue would take the message it refused last, or until
    /// [`Egress::purge`].
    pub(crate) async fn wait_for_room(&self, worker: &str) {
        let _waiting = RoomWaiter::new(self);
        loop {
            let mut notified = std::pin::pin!(self.inner.room.notified());
            // Registers before the check, so that no notification is missed.
            notified.as_mut().enable();
            if self.lock().has_room(worker) {
                return;
            }
            notified.await;
        }
    }

    /// Drops all queued messages for a new mapping and forgets workers without a connection. When
    /// this returns, nothing of the old mapping is sent any more.
    ///
    /// A connection is reset if it may still carry messages of the old mapping: queued, partly
    /// written, or unsent in the kernel. If the old mapping was not `finished`, every connection
    /// that was used is reset, since the worker may not have read all that its socket received.
    pub(crate) fn purge(&self, finished: bool) {
        self.lock().purge(finished);
        self.inner.room.notify_waiters();
        self.inner.disk.notify_one();
    }

    /// State of all known workers, in any order.
    pub(crate) fn peers(&self) -> Vec<PeerState> {
        let now_ms = self.now_ms();
        self.lock().states(now_ms)
    }

    /// Records the events that are assigned to each worker, before they are sent.
    pub(crate) fn record_assigned(&self, events: &[Assignment]) {
        let mut last = HashMap::new();
        for Assignment { event, streams } in events {
            last.extend(streams.iter().flat_map(|(_, workers)| workers).map(|worker| (worker, *event)));
        }
        let mut peers = self.lock();
        last.into_iter().for_each(|(worker, event)| peers.record_assigned(worker, event));
    }

    /// Time after which a worker that has not finished its last event counts as idle.
    pub(crate) fn worker_idle(&self) -> Duration {
        self.inner.limits.worker_idle
    }

    /// Number of the mapping, if a worker may be idle, which its reports tell.
    pub(crate) fn wants_reports(&self) -> Option<u64> {
        let now_ms = self.now_ms();
        let peers = self.lock();
        let is_overdue = |state| idle_worker::overdue(state, self.worker_idle()).is_some();
        peers.states(now_ms).iter().any(is_overdue).then(|| peers.epoch())
    }

    /// Records events that workers finished in the mapping `epoch` of [`Egress::wants_reports`].
    pub(crate) fn record_finished(&self, epoch: u64, reports: &[FinishedEvent]) {
        self.lock().record_finished(epoch, reports);
    }

    /// Records that all reports of the mapping `epoch` were recorded.
    pub(crate) fn record_reports_read(&self, epoch: u64, read: ReportsRead) {
        self.lock().record_reports_read(epoch, read);
    }

    /// True if all sending waits for room in a worker's queue.
    fn holds_senders(&self) -> bool {
        self.lock().waiting_senders > 0
    }

    /// Address of the workers' port; None before [`factory`]'s child has started once.
    #[cfg(test)]
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.lock().local_addr
    }

    fn now_ms(&self) -> u64 {
        millis(self.inner.created.elapsed())
    }

    fn lock(&self) -> DurableGuard<'_, Peers> {
        // A panic under the lock leaves the queues consistent.
        self.inner.peers.lock()
    }

    /// Wakes senders and the spill thread as `wakeups` says.
    fn wake(&self, wakeups: peers::Wakeups) {
        if wakeups.room {
            self.inner.room.notify_waiters();
        }
        if wakeups.disk {
            self.inner.disk.notify_one();
        }
    }
}

/// A burst of messages under one lock and one time stamp.
#[derive(Debug)]
pub(crate) struct Burst<'a> {
    egress: &'a Egress,
    at_ms: u64,
    peers: DurableGuard<'a, Peers>,
    /// The spill thread has work.
    disk: bool,
}

impl Burst<'_> {
    /// Queues `message` for `worker`. Messages wait for a worker that is not connected.
    ///
    /// # Errors
    /// [`Full`]: it was not queued.
    pub(crate) fn try_send(&mut self, worker: &str, message: &Arc<Message>) -> Result<(), Full> {
        match self.peers.offer(worker, message, self.at_ms) {
            OfferOutcome::Queued => Ok(()),
            OfferOutcome::QueuedForDisk => {
                self.disk = true;
                Ok(())
            }
            OfferOutcome::Refused => Err(Full),
        }
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        if self.disk {
            self.egress.inner.disk.notify_one();
        }
    }
}

/// Counts waiting senders, so that they are only notified while there are any.
struct RoomWaiter<'a>(&'a Egress);

impl<'a> RoomWaiter<'a> {
    fn new(egress: &'a Egress) -> Self {
        egress.lock().waiting_senders += 1;
        Self(egress)
    }
}

impl Drop for RoomWaiter<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting_senders -= 1;
    }
}
