//! Seats for those who stay: a bounded number on each socket, so that strangers on one cannot take an operator's on the
//! other.

use std::sync::Arc;

use orchestrator_supervise::Metric;
use parking_lot::Mutex;

/// The seats of one socket. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Seats {
    max: usize,
    socket: usize,
    taken: Arc<Mutex<[usize; 2]>>,
    shown: Metric,
}

/// A seat; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Seat(Seats);

impl Seats {
    /// `max` seats for each of two sockets; `shown` is how many are taken on both.
    pub(crate) fn pair(max: usize, shown: Metric) -> [Self; 2] {
        shown.set(0);
        let taken = Arc::new(Mutex::new([0; 2]));
        [0, 1].map(|socket| Self { max, socket, taken: taken.clone(), shown: shown.clone() })
    }

    /// A seat, if one is free.
    pub(crate) fn take(&self) -> Option<Seat> {
        let mut taken = self.taken.lock();
        if taken[self.socket] >= self.max {
            return None;
        }
        taken[self.socket] += 1;
        self.show(&taken);
        Some(Seat(self.clone()))
    }

    /// How many there are.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    fn show(&self, taken: &[usize; 2]) {
        // Under the lock: else an older number could overwrite a newer one.
        self.shown.set(taken.iter().sum::<usize>() as u64);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.0.taken.lock();
        taken[self.0.socket] -= 1;
        self.0.show(&taken);
    }
}
