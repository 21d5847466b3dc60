//! Slots for long-lived connections. Each socket has its own limit, so that unauthenticated clients on TCP cannot block operators on the
//! unix socket.

use std::sync::Arc;

use orchestrator_supervise::Metric;
use parking_lot::Mutex;

/// The slots of one socket. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionSlots {
    max: usize,
    socket: usize,
    taken: Arc<Mutex<[usize; 2]>>,
    gauge: Metric,
}

/// A taken slot, free again when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot(ConnectionSlots);

impl ConnectionSlots {
    /// Creates `max` slots for each of two sockets. `gauge` is the number of taken slots of both.
    pub(crate) fn pair(max: usize, gauge: Metric) -> [Self; 2] {
        gauge.set(0);
        let taken = Arc::new(Mutex::new([0; 2]));
        [0, 1].map(|socket| Self { max, socket, taken: taken.clone(), gauge: gauge.clone() })
    }

    /// Takes a slot if one is free.
    pub(crate) fn take(&self) -> Option<ConnectionSlot> {
        let mut taken = self.taken.lock();
        if taken[self.socket] >= self.max {
            return None;
        }
        taken[self.socket] += 1;
        self.update_gauge(&taken);
        Some(ConnectionSlot(self.clone()))
    }

    /// Returns the number of slots of this socket.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    fn update_gauge(&self, taken: &[usize; 2]) {
        // The caller holds the lock, so that an older number cannot overwrite a newer one.
        self.gauge.set(taken.iter().sum::<usize>() as u64);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.0.taken.lock();
        taken[self.0.socket] -= 1;
        self.0.update_gauge(&taken);
    }
}
