//! Towards the workers: a ZMTP ROUTER of our own.
//!
//! [`Egress`] holds a queue for each worker, known or not yet connected; it is made once and outlives the children. [`factory`] is the
//! child that listens, and moves queues into connections; [`spill_factory`] the one that keeps on disk what is over a worker's budget.
//! No worker is ever waited for in favour of another: who reads nothing fills its own queue only.
//!
//! Order is kept for each worker over memory, disk and connections. What a connection has not written whole goes out again, whole, over
//! the worker's next one. What the kernel took is out: as with any ROUTER it is lost when the connection is.

mod connection;
mod display;
mod kernel_queue;
mod limits;
mod listener;
mod message;
mod peer_state;
mod peers;
#[cfg(test)]
mod properties;
mod queue;
mod server;
mod spill;
mod spill_file;
mod staging;
mod standing;

use std::{net::SocketAddr, sync::Arc, time::Instant};

use orchestrator_supervise::{ChildSpec, Durable, DurableGuard};
use tokio::sync::Notify;

pub use server::factory;
pub use spill::spill_factory;

use self::peers::{Offer, Peers};
pub use self::{limits::EgressLimits, message::Message, peer_state::PeerState};

/// Neither memory nor disk may take more for this worker now: wait for [`Egress::room`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker's queue is full: wait until it has room")]
pub struct Full;

/// The workers' queues. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct Egress {
    inner: Arc<Inner>,
}

/// Finds out whether workers can be listened for at `address`.
///
/// # Errors
/// They cannot; the text says what to do.
pub fn probe(address: SocketAddr) -> Result<(), String> {
    listener::probe(address).map_err(|error| error.to_string())
}

#[derive(Debug)]
struct Inner {
    limits: EgressLimits,
    made: Instant,
    /// A lock, not messages: one is taken for a burst of up to 256 events, where a message for each event and worker would cost 0.2 us of the 10 us
    /// that 100,000 events in a second leave for everything.
    peers: Durable<Peers>,
    /// Somebody who was refused may find room now.
    room: Notify,
    /// There is work for the disk.
    disk: Notify,
}

impl Egress {
    /// No queues yet.
    pub fn new(limits: EgressLimits) -> Self {
        let peers = Durable::new("worker_queues", Peers::new(&limits));
        let inner = Inner { limits, made: Instant::now(), peers, room: Notify::new(), disk: Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Declares the queues as state of `child`, which outlives its restarts.
    pub fn declare(&self, child: ChildSpec) -> ChildSpec {
        child.durable(&self.inner.peers)
    }

    /// Queues `message` for `worker`, behind all that is queued for it. A worker that is not connected is waited for.
    ///
    /// # Errors
    /// [`Full`]: it was not queued.
    pub fn try_send(&self, worker: &str, message: &Arc<Message>) -> Result<(), Full> {
        self.burst().try_send(worker, message)
    }

    /// Takes the queues for a burst of messages. Whoever else wants them waits until it is dropped: soon, that is.
    pub fn burst(&self) -> Burst<'_> {
        Burst { egress: self, at_ms: self.now_ms(), peers: self.lock(), disk: false }
    }

    /// Waits until what `worker` was last refused would be taken, or [`Egress::purge`] is called.
    pub async fn room(&self, worker: &str) {
        let _waiting = Waiting::new(self);
        loop {
            let mut notified = std::pin::pin!(self.inner.room.notified());
            // Asked for before looking, so that nothing is missed between.
            notified.as_mut().enable();
            if self.lock().has_room(worker) {
                return;
            }
            notified.await;
        }
    }

    /// A new mapping begins: all that waits is dropped, and workers without a connection are forgotten. When this returns nothing of
    /// the old mapping is sent any more.
    ///
    /// A connection that may still carry some of it is reset, and the worker dials again: if anything waited for the worker, or was
    /// written in part, or is in the kernel's hands; and, where the old mapping was not `finished`, if it was sent anything at all,
    /// since what the worker's socket has received cannot be told from what it has read.
    pub fn purge(&self, finished: bool) {
        self.lock().purge(finished);
        self.inner.room.notify_waiters();
        self.inner.disk.notify_one();
    }

    /// All workers that are known, in no order.
    pub fn peers(&self) -> Vec<PeerState> {
        let now_ms = self.now_ms();
        self.lock().states(now_ms)
    }

    /// Where workers are listened for; None before the child of [`factory`] is up for the first time. With port 0 it tells which it is.
    pub fn listening_at(&self) -> Option<SocketAddr> {
        self.lock().listening_at
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.inner.made.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> DurableGuard<'_, Peers> {
        // What runs under the lock leaves whole data behind, a panic too.
        self.inner.peers.lock()
    }

    /// Tells who waits for room and the disk's thread, as far as `news` says.
    fn tell(&self, news: peers::News) {
        if news.room {
            self.inner.room.notify_waiters();
        }
        if news.disk {
            self.inner.disk.notify_one();
        }
    }
}

/// A burst of messages, under one lock and one look at the clock.
#[derive(Debug)]
pub struct Burst<'a> {
    egress: &'a Egress,
    at_ms: u64,
    peers: DurableGuard<'a, Peers>,
    /// There is work for the disk.
    disk: bool,
}

impl Burst<'_> {
    /// As [`Egress::try_send`].
    ///
    /// # Errors
    /// [`Full`]: it was not queued.
    pub fn try_send(&mut self, worker: &str, message: &Arc<Message>) -> Result<(), Full> {
        match self.peers.offer(worker, message, self.at_ms) {
            Offer::Taken => Ok(()),
            Offer::TakenForDisk => {
                self.disk = true;
                Ok(())
            }
            Offer::Refused => Err(Full),
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

/// Counts who waits for room, so that nobody is told where nobody waits.
struct Waiting<'a>(&'a Egress);

impl<'a> Waiting<'a> {
    fn new(egress: &'a Egress) -> Self {
        egress.lock().waiting += 1;
        Self(egress)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}
