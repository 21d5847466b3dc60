//! Which of the queues have our consumer: what readiness is made of.

use std::{collections::BTreeSet, fmt::Write};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    method::Method,
    policy::{RangeSet, Worker, binding_keys, parse_binding_key},
};

/// The queues of our workers, and which of them we do not consume now.
#[derive(Debug)]
pub struct Presence {
    missing: Mutex<BTreeSet<String>>,
    total: usize,
    changed: Notify,
}

impl Presence {
    /// The queues of `workers`, none of them consumed yet.
    pub fn new(workers: impl IntoIterator<Item = Worker>) -> Self {
        let keys = workers.into_iter().flat_map(|worker| binding_keys(worker.exchange, worker.range));
        let missing: BTreeSet<String> = keys.collect();
        Self { total: missing.len(), missing: Mutex::new(missing), changed: Notify::new() }
    }

    /// The queues without our consumer, in order. Ready when there is none.
    pub fn missing(&self) -> Vec<String> {
        self.missing.lock().iter().cloned().collect()
    }

    /// How many queues have our consumer.
    pub fn consumed(&self) -> usize {
        self.total - self.missing.lock().len()
    }

    /// For an operator: how many queues have no consumer, and which, the ranges of each method in brackets.
    pub fn describe_missing(&self) -> String {
        let missing = self.missing();
        let mut text = format!("{} of {} queues have no consumer", missing.len(), self.total);
        let known: Vec<_> = missing.iter().filter_map(|queue| parse_binding_key(queue).ok()).collect();
        let mut comma = ": ";
        for method in Method::ALL {
            let ranges: RangeSet =
                known.iter().filter(|(of, _)| *of == method).map(|&(_, range)| range).collect();
            if !ranges.is_empty() {
                // Writing into a text never fails.
                let _ = write!(text, "{comma}{method}.[{ranges}]");
                comma = ", ";
            }
        }
        text
    }

    pub(super) fn came(&self, queue: &str) {
        self.missing.lock().remove(queue);
        self.changed.notify_one();
    }

    pub(super) fn left(&self, queues: impl IntoIterator<Item = String>) {
        self.missing.lock().extend(queues);
        self.changed.notify_one();
    }

    /// Waits until a queue got or lost its consumer. One waits at a time.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_by_method() {
        let presence = Presence::new(Worker::all());
        assert_eq!((presence.missing().len(), presence.consumed()), (160, 0));
        let queues: Vec<String> = presence.missing();
        let kept = |queue: &&String| {
            [
                "origin_add.unknown.3",
                "content_add.unknown.0",
                "content_add.unknown.1",
                "content_add.unknown.c",
            ]
            .contains(&queue.as_str())
        };
        queues.iter().filter(|queue| !kept(queue)).for_each(|queue| presence.came(queue));
        let text = "4 of 160 queues have no consumer: content_add.unknown.[0-1,c], origin_add.unknown.[3]";
        assert_eq!(presence.describe_missing(), text);
    }
}
