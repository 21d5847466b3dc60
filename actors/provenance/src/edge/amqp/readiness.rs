//! Readiness of the consumers: the queues of this process that are not consumed.

use std::{collections::BTreeSet, fmt::Write};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    method::Method,
    policy::{RangeSet, Worker, binding_keys, parse_binding_key},
};

/// Queues of this process's workers, and the ones without a consumer.
#[derive(Debug)]
pub struct ConsumerReadiness {
    missing: Mutex<BTreeSet<String>>,
    total: usize,
    changed: Notify,
}

impl ConsumerReadiness {
    /// Returns the queues of `workers`, none of them consumed.
    pub fn new(workers: impl IntoIterator<Item = Worker>) -> Self {
        let keys = workers.into_iter().flat_map(|worker| binding_keys(worker.exchange, worker.range));
        let missing: BTreeSet<String> = keys.collect();
        Self { total: missing.len(), missing: Mutex::new(missing), changed: Notify::new() }
    }

    /// Returns the queues without a consumer, in order. An empty list means ready.
    pub fn missing(&self) -> Vec<String> {
        self.missing.lock().iter().cloned().collect()
    }

    /// Returns the number of consumed queues.
    pub fn consumed(&self) -> usize {
        self.total - self.missing.lock().len()
    }

    /// Returns a text for operators: the number of queues without a consumer, and their ranges by
    /// method.
    pub fn describe_missing(&self) -> String {
        let missing = self.missing();
        let mut text = format!("{} of {} queues have no consumer", missing.len(), self.total);
        let known: Vec<_> = missing.iter().filter_map(|queue| parse_binding_key(queue).ok()).collect();
        let mut comma = ": ";
        for method in Method::ALL {
            let ranges: RangeSet =
                known.iter().filter(|(of, _)| *of == method).map(|&(_, range)| range).collect();
            if !ranges.is_empty() {
                // Writing to a String cannot fail.
                let _ = write!(text, "{comma}{method}.[{ranges}]");
                comma = ", ";
            }
        }
        text
    }

    pub(super) fn consumer_started(&self, queue: &str) {
        self.missing.lock().remove(queue);
        self.changed.notify_one();
    }

    pub(super) fn consumers_ended(&self, queues: impl IntoIterator<Item = String>) {
        self.missing.lock().extend(queues);
        self.changed.notify_one();
    }

    /// Waits until a queue gains or loses its consumer. Supports one waiting task.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_consumers_are_named_by_method() {
        let readiness = ConsumerReadiness::new(Worker::all());
        assert_eq!((readiness.missing().len(), readiness.consumed()), (160, 0));
        let queues: Vec<String> = readiness.missing();
        let kept = |queue: &&String| {
            [
                "origin_add.unknown.3",
                "content_add.unknown.0",
                "content_add.unknown.1",
                "content_add.unknown.c",
            ]
            .contains(&queue.as_str())
        };
        queues.iter().filter(|queue| !kept(queue)).for_each(|queue| readiness.consumer_started(queue));
        let text = "4 of 160 queues have no consumer: content_add.unknown.[0-1,c], origin_add.unknown.[3]";
        assert_eq!(readiness.describe_missing(), text);
    }
}
