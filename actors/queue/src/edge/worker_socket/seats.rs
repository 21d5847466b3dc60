//! Who is connected, who is idle, and how many there may be.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use orchestrator_edge::raise_descriptor_limit;
use tokio::sync::Notify;

/// Descriptors left to the rest of the process.
const RESERVE: u64 = 64;

/// More connections than this are never held, whatever the limit on descriptors.
const CONNECTIONS_MAX: u64 = 16_384;

/// Idle since never: a request is in work.
const BUSY: u64 = u64::MAX;

/// How many connections the limit on descriptors allows, raised as far as it goes, less a reserve for the rest of the process.
pub(super) fn connection_limit() -> usize {
    let descriptors = raise_descriptor_limit();
    let connections = descriptors.saturating_sub(RESERVE).clamp(1, CONNECTIONS_MAX);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// One connection, as the house sees it.
#[derive(Debug)]
pub(super) struct Seat {
    /// The turn at which it became idle, or [`BUSY`].
    idle_since: AtomicU64,
    clock: Arc<AtomicU64>,
    closing: AtomicBool,
    closed: Notify,
}

impl Seat {
    pub(super) fn begin_work(&self) {
        self.idle_since.store(BUSY, Relaxed);
    }

    pub(super) fn end_work(&self) {
        self.idle_since.store(self.clock.fetch_add(1, Relaxed), Relaxed);
    }

    /// Whether it is to take no further request.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Waits until it is to take no further request.
    pub(super) async fn closing(&self) {
        self.closed.notified().await;
    }

    fn close(&self) {
        self.closing.store(true, Relaxed);
        self.closed.notify_one();
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: HashMap<u64, Arc<Seat>>,
    /// Counts turns from work to idleness: an order in time without a clock.
    clock: Arc<AtomicU64>,
    next_id: u64,
}

impl Seats {
    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    pub(super) fn take(&mut self) -> (u64, Arc<Seat>) {
        let id = self.next_id;
        self.next_id += 1;
        let seat = Arc::new(Seat {
            idle_since: AtomicU64::new(self.clock.fetch_add(1, Relaxed)),
            clock: self.clock.clone(),
            closing: AtomicBool::new(false),
            closed: Notify::new(),
        });
        self.taken.insert(id, seat.clone());
        (id, seat)
    }

    pub(super) fn leave(&mut self, id: u64) {
        self.taken.remove(&id);
    }

    /// Asks the connection that has been idle longest to end. False if all are at work.
    pub(super) fn close_longest_idle(&mut self) -> bool {
        let idle = self.taken.values().filter(|seat| !seat.is_closing());
        let oldest = idle.min_by_key(|seat| seat.idle_since.load(Relaxed));
        let found = oldest.filter(|seat| seat.idle_since.load(Relaxed) != BUSY);
        found.inspect(|seat| seat.close()).is_some()
    }

    pub(super) fn close_all(&mut self) {
        self.taken.values().for_each(|seat| seat.close());
    }
}
