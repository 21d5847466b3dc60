//! Exact accounting of one mailbox: depth, capacity, refusals, waiting times and handling times.
//!
//! actix hides its queue and lets every sender exceed the capacity by one, so the kernel counts for itself. A
//! [`Permit`] is acquired before a message is sent, and released when the message is dropped, handled or not.

use std::{
    any::{TypeId, type_name},
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*},
    },
    time::{Duration, Instant},
};

use orchestrator_observe::Histogram;
use tokio::sync::Notify;

/// Durations of one message type in one mailbox.
#[derive(Debug)]
pub struct MessageStats {
    /// Last segment of the type's name.
    pub name: &'static str,
    /// Time between sending and handling.
    pub wait: Histogram,
    /// Time in the handler.
    pub handling: Histogram,
}

/// Durations by message type: a list that only grows, so that it is read without a lock.
#[derive(Debug, Default)]
struct StatsIndex(OnceLock<Box<StatsEntry>>);

#[derive(Debug)]
struct StatsEntry {
    message: TypeId,
    stats: Arc<MessageStats>,
    next: StatsIndex,
}

impl StatsIndex {
    fn entries(&self) -> impl Iterator<Item = &StatsEntry> {
        std::iter::successors(self.0.get(), |entry| entry.next.0.get()).map(|entry| &**entry)
    }
}

/// Counters of one mailbox or inbox.
#[derive(Debug)]
pub struct MailboxStats {
    capacity: usize,
    /// Path of the child that reads it.
    owner: OnceLock<Arc<str>>,
    depth: AtomicUsize,
    high_water: AtomicUsize,
    refused: AtomicU64,
    handled: AtomicU64,
    purged: AtomicU64,
    /// Number of purges so far.
    epoch: AtomicU64,
    keeps_on_purge: AtomicBool,
    stats: StatsIndex,
    /// Senders that wait for a permit.
    waiting: AtomicUsize,
    released: Notify,
}

/// Permission for one message to be in a mailbox; dropping it makes room for another message.
#[derive(Debug)]
pub(crate) struct Permit {
    mailbox: Arc<MailboxStats>,
    epoch: u64,
    acquired: Instant,
}

/// Counts a sender as waiting until it is dropped.
struct WaitingSender<'a>(&'a AtomicUsize);

impl MailboxStats {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            capacity: capacity.max(1),
            owner: OnceLock::new(),
            depth: AtomicUsize::new(0),
            high_water: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            purged: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            keeps_on_purge: AtomicBool::new(false),
            stats: StatsIndex::default(),
            waiting: AtomicUsize::new(0),
            released: Notify::new(),
        })
    }

    /// Acquires a permit, or counts a refusal when the mailbox is full.
    pub(crate) fn acquire_or_refuse(self: &Arc<Self>) -> Option<Permit> {
        let permit = self.try_acquire();
        if permit.is_none() {
            self.count_refusal();
        }
        permit
    }

    /// Waits until the mailbox has room and acquires a permit.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Permit {
        if let Some(permit) = self.try_acquire() {
            return permit;
        }
        let _waiting = WaitingSender::new(&self.waiting);
        loop {
            let mut released = pin!(self.released.notified());
            // Before the attempt, so that a release between attempt and wait is not missed.
            released.as_mut().enable();
            if let Some(permit) = self.try_acquire() {
                return permit;
            }
            released.await;
        }
    }

    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        let before = self.depth.fetch_update(SeqCst, SeqCst, |n| (n < self.capacity).then_some(n + 1));
        Some(self.permit(before.ok()? + 1))
    }

    /// For an item of a channel that keeps the capacity itself.
    pub(crate) fn admit(self: &Arc<Self>) -> Permit {
        let before = self.depth.fetch_add(1, AcqRel);
        self.permit(before + 1)
    }

    fn permit(self: &Arc<Self>, depth: usize) -> Permit {
        self.high_water.fetch_max(depth.min(self.capacity), Relaxed);
        Permit { mailbox: self.clone(), epoch: self.epoch.load(Acquire), acquired: Instant::now() }
    }

    pub(crate) fn count_refusal(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Marks all waiting messages to be dropped unhandled, and returns their number; 0 if the mailbox keeps
    /// them.
    pub(crate) fn purge(&self) -> usize {
        if self.keeps_on_purge.load(Acquire) {
            return 0;
        }
        self.epoch.fetch_add(1, AcqRel);
        self.depth()
    }

    pub(crate) fn set_owner(&self, path: Arc<str>) {
        // A second child would read nothing from it.
        let _ = self.owner.set(path);
    }

    pub(crate) fn owner(&self) -> Option<Arc<str>> {
        self.owner.get().cloned()
    }

    pub(crate) fn set_keep_on_purge(&self) {
        self.keeps_on_purge.store(true, Release);
    }

    /// Message types with the same name share them.
    pub(crate) fn stats<M: 'static>(&self) -> Arc<MessageStats> {
        let message = TypeId::of::<M>();
        let mut index = &self.stats;
        loop {
            let entry = index.0.get_or_init(|| {
                let stats = self.stats_by_name(short_name::<M>());
                Box::new(StatsEntry { message, stats, next: StatsIndex::default() })
            });
            if entry.message == message {
                return entry.stats.clone();
            }
            index = &entry.next;
        }
    }

    fn stats_by_name(&self, name: &'static str) -> Arc<MessageStats> {
        let known = self.stats.entries().find(|entry| entry.stats.name == name);
        known.map_or_else(
            || Arc::new(MessageStats { name, wait: Histogram::default(), handling: Histogram::default() }),
            |entry| entry.stats.clone(),
        )
    }

    /// Messages waiting now.
    pub fn depth(&self) -> usize {
        // A channel makes room a moment before the permit of the received item is dropped.
        self.depth.load(Acquire).min(self.capacity)
    }
    /// Most messages that ever waited at once.
    pub fn high_water(&self) -> usize {
        self.high_water.load(Relaxed)
    }
    /// Most messages that may wait at once.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Messages refused because the mailbox was full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
    /// Messages passed to a handler.
    pub fn handled(&self) -> u64 {
        self.handled.load(Relaxed)
    }
    /// Messages dropped unhandled by a purge.
    pub fn purged(&self) -> u64 {
        self.purged.load(Relaxed)
    }
    /// Durations of each message type received so far.
    pub fn message_stats(&self) -> Vec<Arc<MessageStats>> {
        let mut all: Vec<Arc<MessageStats>> = Vec::new();
        for StatsEntry { stats, .. } in self.stats.entries() {
            if !all.iter().any(|known| Arc::ptr_eq(known, stats)) {
                all.push(stats.clone());
            }
        }
        all
    }
}

impl Permit {
    pub(crate) fn acquired(&self) -> Instant {
        self.acquired
    }

    /// Releases the permit of a message that is about to be handled, and returns the time it waited; None if
    /// it was purged.
    pub(crate) fn take_message(self) -> Option<Duration> {
        if self.epoch < self.mailbox.epoch.load(Acquire) {
            self.mailbox.purged.fetch_add(1, Relaxed);
            return None;
        }
        self.mailbox.handled.fetch_add(1, Relaxed);
        Some(self.acquired.elapsed())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Both sequentially consistent: either this thread sees the waiting sender, or that sender sees the
        // room.
        self.mailbox.depth.fetch_sub(1, SeqCst);
        if self.mailbox.waiting.load(SeqCst) > 0 {
            self.mailbox.released.notify_one();
        }
    }
}

impl<'a> WaitingSender<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for WaitingSender<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Leaves out the path of the type: `JobDone`, not `crate::messages::JobDone`.
pub(crate) fn short_name<M>() -> &'static str {
    let full = type_name::<M>();
    let head = full.split('<').next().unwrap_or(full);
    head.rsplit("::").next().unwrap_or(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capacity_is_exact_and_refusals_are_counted() {
        let mailbox = MailboxStats::new(2);
        let (one, two) = (mailbox.acquire_or_refuse(), mailbox.acquire_or_refuse());
        assert!(one.is_some() && two.is_some() && mailbox.acquire_or_refuse().is_none());
        assert_eq!((mailbox.depth(), mailbox.high_water(), mailbox.refused()), (2, 2, 1));
        drop(one);
        assert_eq!(mailbox.depth(), 1);
        assert!(two.and_then(Permit::take_message).is_some());
        assert_eq!((mailbox.depth(), mailbox.handled()), (0, 1));
    }

    #[test]
    fn a_purge_drops_only_messages_sent_before_it() {
        let mailbox = MailboxStats::new(4);
        let old = mailbox.acquire_or_refuse();
        mailbox.purge();
        let new = mailbox.acquire_or_refuse();
        assert!(old.and_then(Permit::take_message).is_none());
        assert!(new.and_then(Permit::take_message).is_some());
        assert_eq!((mailbox.purged(), mailbox.depth()), (1, 0));
    }

    #[tokio::test]
    async fn each_release_wakes_one_waiting_sender() {
        let mailbox = MailboxStats::new(2);
        let mut held = vec![mailbox.acquire().await, mailbox.acquire().await];
        let mut senders: Vec<_> = (0..3).map(|_| Box::pin(mailbox.acquire())).collect();
        for sender in &mut senders {
            assert!(futures_util::poll!(sender).is_pending());
        }
        // A sender that is given up passes its turn on.
        held.pop();
        drop(senders.remove(0));
        held.push(senders.remove(0).await);
        assert!(futures_util::poll!(&mut senders[0]).is_pending());
        held.pop();
        held.push(senders.remove(0).await);
        assert_eq!((mailbox.depth(), mailbox.refused(), mailbox.waiting.load(SeqCst)), (2, 0, 0));
    }

    #[test]
    fn durations_are_kept_by_type_and_shared_by_types_of_one_name() {
        let mailbox = MailboxStats::new(1);
        let (vec, string) = (mailbox.stats::<Vec<u8>>(), mailbox.stats::<String>());
        assert!(Arc::ptr_eq(&vec, &mailbox.stats::<Vec<u8>>()) && !Arc::ptr_eq(&vec, &string));
        assert!(Arc::ptr_eq(&vec, &mailbox.stats::<Vec<u16>>()), "one name is one series");
        let names: Vec<_> = mailbox.message_stats().iter().map(|stats| stats.name).collect();
        assert_eq!(names, ["Vec", "String"]);
    }

    #[test]
    fn names_lose_their_path() {
        assert_eq!(short_name::<Vec<std::string::String>>(), "Vec");
        assert_eq!(short_name::<std::string::String>(), "String");
    }
}
