//! Readiness of the consumers: the queues of this process that are not consumed.

use std::{collections::BTreeSet, fmt::Write};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    method::Method,
    policy::{Range, RangeSet, Worker},
};

/// Queues of this process's workers, and the ones without a consumer.
#[derive(Debug)]
pub(crate) struct ConsumerReadiness {
    missing: Mutex<BTreeSet<(Method, Range)>>,
    total: usize,
    changed: Notify,
}

impl ConsumerReadiness {
    /// None of the queues is consumed yet.
    pub(crate) fn new(workers: impl IntoIterator<Item = Worker>) -> Self {
        let missing: BTreeSet<_> = workers.into_iter().flat_map(Worker::queues).collect();
        Self { total: missing.len(), missing: Mutex::new(missing), changed: Notify::new() }
    }

    /// Queues without a consumer; 0 means ready.
    pub(crate) fn missing(&self) -> usize {
        self.missing.lock().len()
    }

    pub(crate) fn consumed(&self) -> usize {
        self.total - self.missing()
    }

    /// For operators: the number of queues without a consumer, and their ranges by method.
    pub(crate) fn describe_missing(&self) -> String {
        let missing = self.missing.lock();
        let mut text = format!("{} of {} queues have no consumer", missing.len(), self.total);
        let mut comma = ": ";
        for method in Method::ALL {
            let ranges: RangeSet =
                missing.iter().filter(|(of, _)| *of == method).map(|&(_, range)| range).collect();
            if !ranges.is_empty() {
                // Writing to a String cannot fail.
                let _ = write!(text, "{comma}{method}.[{ranges}]");
                comma = ", ";
            }
        }
        text
    }

    pub(super) fn consumer_started(&self, method: Method, range: Range) {
        self.missing.lock().remove(&(method, range));
        self.changed.notify_one();
    }

    pub(super) fn consumers_ended(&self, worker: Worker) {
        self.missing.lock().extend(worker.queues());
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
    use crate::policy::binding_key;

    #[test]
    fn missing_consumers_are_named_by_method() {
        let readiness = ConsumerReadiness::new(Worker::all());
        assert_eq!((readiness.missing(), readiness.consumed()), (160, 0));
        let is_kept = |method, range| {
            [
                "origin_add.unknown.3",
                "content_add.unknown.0",
                "content_add.unknown.1",
                "content_add.unknown.c",
            ]
            .contains(&binding_key(method, range).as_str())
        };
        for (method, range) in Worker::all().flat_map(Worker::queues) {
            if !is_kept(method, range) {
                readiness.consumer_started(method, range);
            }
        }
        assert_eq!((readiness.missing(), readiness.consumed()), (4, 156));
        let text = "4 of 160 queues have no consumer: content_add.unknown.[0-1,c], origin_add.unknown.[3]";
        assert_eq!(readiness.describe_missing(), text);
    }
}
