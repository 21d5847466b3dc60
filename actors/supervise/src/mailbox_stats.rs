//! The exact accounting of one mailbox: depth, bound, refusals, waiting and handling times.
//!
//! actix hides its queue and lets every sender exceed the bound by one, so the kernel counts for itself: a [`Seat`]
//! is taken before a message is sent and given back when the message is dropped, handled or not.

use std::{
    any::type_name,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*},
    },
    time::{Duration, Instant},
};

use parking_lot::RwLock;

use crate::histogram::Histogram;

/// Metrics of one message type in one mailbox.
#[derive(Debug)]
pub struct MessageStats {
    /// Last segment of the type's name.
    pub name: &'static str,
    /// Time between sending and handling.
    pub wait: Histogram,
    /// Time in the handler.
    pub handling: Histogram,
}

/// Counters of one mailbox or inbox.
#[derive(Debug)]
pub struct MailboxStats {
    capacity: usize,
    depth: AtomicUsize,
    high_water: AtomicUsize,
    refused: AtomicU64,
    handled: AtomicU64,
    purged: AtomicU64,
    epoch: AtomicU64,
    keeps_on_purge: AtomicBool,
    stats: RwLock<Vec<Arc<MessageStats>>>,
}

/// A message's place in a mailbox; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Seat {
    gauge: Arc<MailboxStats>,
    epoch: u64,
    taken: Instant,
}

impl MailboxStats {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity: capacity.max(1),
            depth: AtomicUsize::new(0),
            high_water: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            purged: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            keeps_on_purge: AtomicBool::new(false),
            stats: RwLock::new(Vec::new()),
        })
    }

    /// Takes a place, or counts a refusal when the mailbox is at its bound.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Seat> {
        let took = self.depth.fetch_update(AcqRel, Acquire, |n| (n < self.capacity).then_some(n + 1));
        match took {
            Ok(before) => Some(self.seat(before + 1)),
            Err(_) => {
                self.count_refusal();
                None
            }
        }
    }

    /// Takes a place where a channel keeps the bound.
    pub(crate) fn admit(self: &Arc<Self>) -> Seat {
        let before = self.depth.fetch_add(1, AcqRel);
        self.seat(before + 1)
    }

    fn seat(self: &Arc<Self>, depth: usize) -> Seat {
        self.high_water.fetch_max(depth.min(self.capacity), Relaxed);
        Seat { gauge: self.clone(), epoch: self.epoch.load(Acquire), taken: Instant::now() }
    }

    pub(crate) fn count_refusal(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Everything sent before now is dropped unhandled when its turn comes; gives how much waits. Nothing if it lasts.
    pub(crate) fn purge(&self) -> usize {
        if self.keeps_on_purge.load(Acquire) {
            return 0;
        }
        self.epoch.fetch_add(1, AcqRel);
        self.depth()
    }

    /// No purge reaches it from now on.
    pub(crate) fn set_keep_on_purge(&self) {
        self.keeps_on_purge.store(true, Release);
    }

    /// The metrics of message type `M`.
    pub(crate) fn stats<M>(&self) -> Arc<MessageStats> {
        let name = short_name::<M>();
        let read = self.stats.read();
        if let Some(stats) = read.iter().find(|stats| stats.name == name) {
            return stats.clone();
        }
        drop(read);
        let mut write = self.stats.write();
        if let Some(stats) = write.iter().find(|stats| stats.name == name) {
            return stats.clone();
        }
        let fresh =
            Arc::new(MessageStats { name, wait: Histogram::default(), handling: Histogram::default() });
        write.push(fresh.clone());
        fresh
    }

    /// Messages waiting now.
    pub fn depth(&self) -> usize {
        // A channel frees an item's place a moment before its seat.
        self.depth.load(Acquire).min(self.capacity)
    }
    /// Most messages that ever waited at once.
    pub fn high_water(&self) -> usize {
        self.high_water.load(Relaxed)
    }
    /// The bound.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Messages refused because the mailbox was full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
    /// Messages handed to a handler.
    pub fn handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }
    /// Messages dropped unhandled by a purge.
    pub fn purged(&self) -> u64 {
        self.purged.load(Relaxed)
    }
    /// Metrics of each message type seen so far.
    pub fn message_stats(&self) -> Vec<Arc<MessageStats>> {
        self.stats.read().clone()
    }
}

impl Seat {
    /// Leaves the mailbox for the handler: the time it waited, or None when a purge came in between.
    pub(crate) fn leave(self) -> Option<Duration> {
        if self.epoch < self.gauge.epoch.load(Acquire) {
            self.gauge.purged.fetch_add(1, Relaxed);
            return None;
        }
        self.gauge.handled.fetch_add(1, Relaxed);
        Some(self.taken.elapsed())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.gauge.depth.fetch_sub(1, AcqRel);
    }
}

/// The type's name without its path: `JobDone`, not `crate::messages::JobDone`.
pub(crate) fn short_name<M>() -> &'static str {
    let full = type_name::<M>();
    let head = full.split('<').next().unwrap_or(full);
    head.rsplit("::").next().unwrap_or(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_exact_and_refusals_are_counted() {
        let gauge = MailboxStats::new(2);
        let (one, two) = (gauge.enter(), gauge.enter());
        assert!(one.is_some() && two.is_some() && gauge.enter().is_none());
        assert_eq!((gauge.depth(), gauge.high_water(), gauge.refused()), (2, 2, 1));
        drop(one);
        assert_eq!(gauge.depth(), 1);
        assert!(two.and_then(Seat::leave).is_some());
        assert_eq!((gauge.depth(), gauge.handled()), (0, 1));
    }

    #[test]
    fn a_purge_drops_what_was_sent_before_it_only() {
        let gauge = MailboxStats::new(4);
        let old = gauge.enter();
        gauge.purge();
        let new = gauge.enter();
        assert!(old.and_then(Seat::leave).is_none());
        assert!(new.and_then(Seat::leave).is_some());
        assert_eq!((gauge.purged(), gauge.depth()), (1, 0));
    }

    #[test]
    fn names_lose_their_path() {
        assert_eq!(short_name::<Vec<std::string::String>>(), "Vec");
        assert_eq!(short_name::<std::string::String>(), "String");
    }
}
