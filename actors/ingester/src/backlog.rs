//! Items of one stream that wait for their events: first in, first out, bounded in bytes. They come and go in batches: many are
//! small.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::item::Item;

/// What an item costs beside its bytes, so that small ones are bounded, too.
const ITEM_BYTES: usize = 128;

/// Between a stream's source and the one that takes its items. It outlives both.
#[derive(Debug)]
pub struct Backlog {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    /// An item came where none was.
    filled: Notify,
    /// Items were taken.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<(Item, Instant)>,
    bytes: usize,
}

impl Backlog {
    /// Holds `bytes_max`; a single larger item is held alone.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, waiting: Mutex::default(), filled: Notify::new(), taken: Notify::new() }
    }

    /// Adds the first of `items`, as many as there is room for; the others are left there.
    pub fn offer(&self, items: &mut VecDeque<Item>) {
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        let none = waiting.items.is_empty();
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
        let filled = none && !waiting.items.is_empty();
        drop(waiting);
        if filled {
            self.filled.notify_one();
        }
    }

    /// Adds all `items`, each once there is room for it.
    pub async fn push(&self, items: &mut VecDeque<Item>) {
        loop {
            let taken = self.taken.notified();
            self.offer(items);
            if items.is_empty() {
                return;
            }
            taken.await;
        }
    }

    /// Moves items to the end of `into`: up to `many`, and no more once they have `bytes`. Without waiting.
    pub fn take(&self, into: &mut VecDeque<Item>, many: usize, bytes: usize) {
        let mut waiting = self.waiting.lock();
        let mut moved = 0;
        for _ in 0..many {
            let Some((item, _)) = waiting.items.pop_front() else { break };
            moved += cost(&item);
            into.push_back(item);
            if moved >= bytes {
                break;
            }
        }
        waiting.bytes -= moved;
        drop(waiting);
        if moved > 0 {
            self.taken.notify_one();
        }
    }

    /// Waits until an item waits. For one that takes.
    pub async fn filled(&self) {
        loop {
            let filled = self.filled.notified();
            if self.items() > 0 {
                return;
            }
            filled.await;
        }
    }

    /// Throws away what waits.
    pub fn clear(&self) {
        *self.waiting.lock() = Waiting::default();
        self.taken.notify_one();
    }

    /// Bytes that wait, with what holding them costs.
    pub fn bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Items that wait.
    pub fn items(&self) -> usize {
        self.waiting.lock().items.len()
    }

    /// How long the oldest one has waited.
    pub fn oldest(&self) -> Option<Duration> {
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
    async fn what_is_pushed_is_taken_in_order_and_never_more_than_the_bound_waits() {
        let backlog = Backlog::new(4_096);
        let push = async {
            for n in 0..200 {
                let mut batch = (0..n % 9 + 1).map(|at| item(n * 10 + at, 500)).collect();
                backlog.push(&mut batch).await;
                assert!(backlog.bytes() <= 4_096);
            }
        };
        let take = async {
            let mut taken = VecDeque::new();
            for n in 0..200 {
                for at in 0..n % 9 + 1 {
                    while taken.is_empty() {
                        backlog.filled().await;
                        backlog.take(&mut taken, 3, 1_000);
                        assert!(taken.len() <= 2, "two have reached the bytes");
                    }
                    assert_eq!(taken.pop_front().and_then(|item| item.number), Some(n * 10 + at));
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
        backlog.offer(&mut items);
        assert_eq!(items.len(), 1);
        assert!(backlog.oldest().is_some());
        backlog.clear();
        assert_eq!((backlog.bytes(), backlog.oldest()), (0, None));
        backlog.offer(&mut items);
        assert!(items.is_empty());
    }
}
