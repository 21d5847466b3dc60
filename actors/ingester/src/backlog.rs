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
    /// A lock, not a message for each batch: see [`ItemsIngested`](crate::messages::ItemsIngested) for what that would cost.
    waiting: Mutex<Waiting>,
    /// Items were taken.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<(Item, Instant)>,
    bytes: usize,
    /// Somebody found nothing to take, and waits.
    wanted: bool,
}

impl Backlog {
    /// Holds `bytes_max`; a single larger item is held alone.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, waiting: Mutex::default(), taken: Notify::new() }
    }

    /// Adds the first of `items`, as many as there is room for; the others are left there. True if the one who takes them waits, and is to be
    /// told.
    #[must_use = "the one who takes them waits for ever if it is not told"]
    pub fn offer(&self, items: &mut VecDeque<Item>) -> bool {
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
        !waiting.items.is_empty() && std::mem::take(&mut waiting.wanted)
    }

    /// Adds all `items`, each once there is room for it; `tell` tells the one who takes them and waits.
    pub async fn push(&self, items: &mut VecDeque<Item>, tell: impl Fn()) {
        loop {
            let taken = self.taken.notified();
            if self.offer(items) {
                tell();
            }
            if items.is_empty() {
                return;
            }
            taken.await;
        }
    }

    /// Moves items to the end of `into`: up to `many`, and no more once they have `bytes`. Without waiting: where there is none, the next one that
    /// comes is told of.
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
        waiting.wanted = moved == 0;
        drop(waiting);
        if moved > 0 {
            self.taken.notify_one();
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
        let (backlog, told) = (Backlog::new(4_096), Notify::new());
        let push = async {
            for n in 0..200 {
                let mut batch = (0..n % 9 + 1).map(|at| item(n * 10 + at, 500)).collect();
                backlog.push(&mut batch, || told.notify_one()).await;
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
                            told.notified().await;
                        }
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
