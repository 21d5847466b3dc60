//! Items of one stream that wait for their events: first in, first out, bounded in bytes.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::item::Item;

/// What an item costs beside its bytes, so that small ones are bounded, too.
const ITEM_BYTES: usize = 128;

/// Between a stream's source and the one that takes its items. It outlives both.
#[derive(Debug)]
pub struct Backlog {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    /// An item came.
    filled: Notify,
    /// An item was taken.
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

    /// Adds an item unless there is no room for it.
    ///
    /// # Errors
    /// The item itself.
    pub fn offer(&self, item: Item) -> Result<(), Item> {
        let cost = cost(&item);
        let mut waiting = self.waiting();
        if !waiting.items.is_empty() && waiting.bytes + cost > self.bytes_max {
            return Err(item);
        }
        waiting.bytes += cost;
        waiting.items.push_back((item, Instant::now()));
        let first = waiting.items.len() == 1;
        drop(waiting);
        if first {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Adds an item once there is room for it.
    pub async fn push(&self, mut item: Item) {
        loop {
            let taken = self.taken.notified();
            match self.offer(item) {
                Ok(()) => return,
                Err(back) => item = back,
            }
            taken.await;
        }
    }

    /// The next item, if there is one.
    pub fn try_pop(&self) -> Option<Item> {
        let mut waiting = self.waiting();
        let (item, _) = waiting.items.pop_front()?;
        waiting.bytes -= cost(&item);
        drop(waiting);
        self.taken.notify_one();
        Some(item)
    }

    /// The next item.
    pub async fn pop(&self) -> Item {
        loop {
            let filled = self.filled.notified();
            if let Some(item) = self.try_pop() {
                return item;
            }
            filled.await;
        }
    }

    /// Throws away what waits.
    pub fn clear(&self) {
        *self.waiting() = Waiting::default();
        self.taken.notify_one();
    }

    /// Bytes that wait, with what holding them costs.
    pub fn bytes(&self) -> usize {
        self.waiting().bytes
    }

    /// Items that wait.
    pub fn items(&self) -> usize {
        self.waiting().items.len()
    }

    /// How long the oldest one has waited.
    pub fn oldest(&self) -> Option<Duration> {
        self.waiting().items.front().map(|(_, since)| since.elapsed())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        Item { typ: "T".into(), frames: vec![Bytes::from(vec![0; bytes])], number: Some(n) }
    }

    #[tokio::test]
    async fn what_is_pushed_is_popped_in_order_and_never_more_than_the_bound_waits() {
        let backlog = Backlog::new(4_096);
        let push = async {
            for n in 0..1_000 {
                backlog.push(item(n, 500)).await;
                assert!(backlog.bytes() <= 4_096);
            }
        };
        let pop = async {
            for n in 0..1_000 {
                assert_eq!(backlog.pop().await.number, Some(n));
            }
        };
        futures_util::future::join(push, pop).await;
        assert_eq!((backlog.bytes(), backlog.items()), (0, 0));
    }

    #[tokio::test]
    async fn a_large_item_is_held_alone() {
        let backlog = Backlog::new(10);
        backlog.offer(item(1, 1_000)).unwrap();
        assert!(backlog.offer(item(2, 1)).is_err());
        assert!(backlog.oldest().is_some());
        backlog.clear();
        assert_eq!((backlog.bytes(), backlog.oldest()), (0, None));
        backlog.offer(item(2, 1)).unwrap();
    }
}
