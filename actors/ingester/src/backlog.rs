//! Queue of one stream's items that wait for their events: first in, first out, bounded in bytes.
//! Items move in batches.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::item::Item;

/// Memory of an item beside its bytes, so that many small items are bounded, too.
const ITEM_BYTES: usize = 128;

/// Queue between a stream's source and Work. It outlives both.
#[derive(Debug)]
pub(crate) struct Backlog {
    bytes_max: usize,
    /// A lock instead of messages; see [`ItemsIngested`](crate::messages::ItemsIngested).
    waiting: Mutex<Waiting>,
    /// Notified when items were taken.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<(Item, Instant)>,
    bytes: usize,
    /// The consumer found the queue empty and waits.
    consumer_waiting: bool,
}

impl Backlog {
    /// Queue of at most `bytes_max`; a single larger item is accepted alone.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, waiting: Mutex::default(), taken: Notify::new() }
    }

    /// Moves items from the front of `items` while there is room. Returns true if the consumer
    /// waits and must be notified.
    #[must_use = "notify the consumer if it waits, or it never wakes"]
    pub(crate) fn offer(&self, items: &mut VecDeque<Item>) -> bool {
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        while let Some(item) = items.front() {
            let cost = cost(item);
            if !waiting.items.is_empty() && waiting.bytes + cost > self.bytes_max {
                break;
            }
            waiting.bytes += cost;
            if let Some(item) = items.pop_front() {
                waiting.items.push_back((item, now));
            }
        }
        !waiting.items.is_empty() && std::mem::take(&mut waiting.consumer_waiting)
    }

    /// Moves all `items`, waiting for room; `notify` wakes a waiting consumer.
    pub(crate) async fn push(&self, items: &mut VecDeque<Item>, notify: impl Fn()) {
        loop {
            let taken = self.taken.notified();
            if self.offer(items) {
                notify();
            }
            if items.is_empty() {
                return;
            }
            taken.await;
        }
    }

    /// Moves items, with the times of their receipt, to the end of `into`: up to `many`, and none after
    /// `bytes` are reached. Does not wait; if the queue is empty, the next offer returns true.
    pub(crate) fn take(&self, into: &mut VecDeque<(Item, Instant)>, many: usize, bytes: usize) {
        let mut waiting = self.waiting.lock();
        let mut moved = 0;
        for _ in 0..many {
            let Some((item, received)) = waiting.items.pop_front() else { break };
            moved += cost(&item);
            into.push_back((item, received));
            if moved >= bytes {
                break;
            }
        }
        waiting.bytes -= moved;
        waiting.consumer_waiting = moved == 0;
        drop(waiting);
        if moved > 0 {
            self.taken.notify_one();
        }
    }

    pub(crate) fn clear(&self) {
        *self.waiting.lock() = Waiting::default();
        self.taken.notify_one();
    }

    /// Bytes queued, with the overhead of each item.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Upper bound of [`Backlog::bytes`], unless a single item is larger.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(crate) fn items(&self) -> usize {
        self.waiting.lock().items.len()
    }

    /// Waiting time of the oldest item.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.waiting.lock().items.front().map(|(_, since)| since.elapsed())
    }
}

fn cost(item: &Item) -> usize {
    item.bytes() + ITEM_BYTES
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn item(n: u64, bytes: usize) -> Item {
        Item { typ: "T".into(), frames: [Bytes::from(vec![0; bytes])].into_iter().collect(), number: Some(n) }
    }

    #[tokio::test]
    async fn items_are_taken_in_order_within_the_byte_bound() {
        let (backlog, notify) = (Backlog::new(4_096), Notify::new());
        let push = async {
            for n in 0..200 {
                let mut batch = (0..n % 9 + 1).map(|at| item(n * 10 + at, 500)).collect();
                backlog.push(&mut batch, || notify.notify_one()).await;
                assert!(backlog.bytes() <= 4_096);
            }
        };
        let take = async {
            let mut taken = VecDeque::new();
            for n in 0..200 {
                for at in 0..n % 9 + 1 {
                    while taken.is_empty() {
                        backlog.take(&mut taken, 3, 1_000);
                        if taken.is_empty() {
                            notify.notified().await;
                        }
                        assert!(taken.len() <= 2, "two have reached the bytes");
                    }
                    assert_eq!(taken.pop_front().and_then(|(item, _)| item.number), Some(n * 10 + at));
                }
            }
        };
        futures_util::future::join(push, take).await;
        assert_eq!((backlog.bytes(), backlog.items()), (0, 0));
    }

    #[tokio::test]
    async fn a_large_item_is_held_alone() {
        let backlog = Backlog::new(10);
        let mut items = VecDeque::from([item(1, 1_000), item(2, 1)]);
        assert!(!backlog.offer(&mut items), "nobody waits");
        assert_eq!(items.len(), 1);
        assert!(backlog.oldest().is_some());
        backlog.clear();
        assert_eq!((backlog.bytes(), backlog.oldest()), (0, None));
        backlog.take(&mut VecDeque::new(), 1, 1);
        assert!(backlog.offer(&mut items), "somebody waits");
        assert!(items.is_empty());
    }
}
