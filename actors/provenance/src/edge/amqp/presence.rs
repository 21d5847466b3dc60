//! Which of the queues have our consumer: what readiness is made of.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard},
};

use crate::policy::{Worker, binding_keys};

/// The queues of our workers, and which of them we do not consume now.
#[derive(Debug)]
pub struct Presence {
    missing: Mutex<BTreeSet<String>>,
    total: usize,
}

impl Presence {
    /// The queues of `workers`, none of them consumed yet.
    pub fn new(workers: impl IntoIterator<Item = Worker>) -> Self {
        let keys = workers.into_iter().flat_map(|worker| binding_keys(worker.exchange, worker.range));
        let missing: BTreeSet<String> = keys.collect();
        Self { total: missing.len(), missing: Mutex::new(missing) }
    }

    /// The queues without our consumer, in order. Ready when there is none.
    pub fn missing(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    /// How many queues have our consumer.
    pub fn consumed(&self) -> usize {
        self.total - self.lock().len()
    }

    pub(super) fn came(&self, queue: &str) {
        self.lock().remove(queue);
    }

    pub(super) fn left(&self, queues: impl IntoIterator<Item = String>) {
        self.lock().extend(queues);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // A set of names is whole whenever the lock is free.
        self.missing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
