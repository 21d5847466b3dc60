//! Bounded channels for threads and tasks. An inbox outlives incarnations: when one ends, the receiver
//! returns to its slot.

use std::{fmt, sync::Arc, time::Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    StartCx,
    activity::{check_send, check_wait, wait},
    block_on::block_on,
    mailbox_stats::{MailboxStats, MessageStats, Permit},
    refusal::Refused,
    sends::Target,
    waits::WaitKind,
};

struct Queued<T> {
    item: T,
    permit: Permit,
}

/// Sending end of an inbox. Cheap to clone.
pub struct Outbox<T> {
    sender: mpsc::Sender<Queued<T>>,
    stats: Arc<MailboxStats>,
    opened: watch::Sender<bool>,
}

/// Holder of an inbox's receiver between two incarnations. Clones share it.
pub struct InboxSlot<T> {
    receiver: Arc<Mutex<Option<mpsc::Receiver<Queued<T>>>>>,
    stats: Arc<MailboxStats>,
    message_stats: Arc<MessageStats>,
    opened: watch::Sender<bool>,
}

/// Receiver of an inbox, opened by one incarnation.
pub struct Inbox<T> {
    receiver: Option<mpsc::Receiver<Queued<T>>>,
    slot: InboxSlot<T>,
}

/// Creates an inbox for `capacity` items.
pub fn inbox<T: 'static>(capacity: usize) -> (Outbox<T>, InboxSlot<T>) {
    let stats = MailboxStats::new(capacity);
    let (sender, receiver) = mpsc::channel(stats.capacity());
    let message_stats = stats.stats::<T>();
    let opened = watch::Sender::new(false);
    let slot = InboxSlot {
        receiver: Arc::new(Mutex::new(Some(receiver))),
        stats: stats.clone(),
        message_stats,
        opened: opened.clone(),
    };
    (Outbox { sender, stats, opened }, slot)
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), stats: self.stats.clone(), opened: self.opened.clone() }
    }
}

impl<T> Clone for InboxSlot<T> {
    fn clone(&self) -> Self {
        Self {
            receiver: self.receiver.clone(),
            stats: self.stats.clone(),
            message_stats: self.message_stats.clone(),
            opened: self.opened.clone(),
        }
    }
}

impl<T> From<&Outbox<T>> for Target {
    fn from(outbox: &Outbox<T>) -> Self {
        Self::owner_of(&outbox.stats)
    }
}

impl<T> fmt::Debug for Outbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for InboxSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxSlot").field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("stats", &self.slot.stats).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Outbox<T> {
    /// Sends an item without waiting for room.
    ///
    /// # Errors
    /// Returns the item if the inbox is full; the refusal is counted.
    pub fn tell(&self, item: T) -> Result<(), Refused<T>> {
        check_send(&self.stats);
        match self.sender.try_reserve() {
            Ok(permit) => {
                permit.send(Queued { item, permit: self.stats.admit() });
                Ok(())
            }
            Err(_) => {
                self.stats.count_refusal();
                Err(self.refusal(item))
            }
        }
    }

    /// Waits until the inbox has room, then sends an item.
    ///
    /// # Errors
    /// Returns the item if the inbox is closed, which happens only when the process ends.
    pub async fn send(&self, item: T) -> Result<(), Refused<T>> {
        match self.reserve().await {
            Some(permit) => {
                permit.send(Queued { item, permit: self.stats.admit() });
                Ok(())
            }
            None => Err(self.refusal(item)),
        }
    }

    /// Blocks the thread until the inbox has room, then sends an item.
    ///
    /// # Errors
    /// Returns the item if `stop` is cancelled first.
    pub fn send_blocking(&self, item: T, stop: &CancellationToken) -> Result<(), Refused<T>> {
        let permit = block_on(None, async {
            tokio::select! {
                biased;
                permit = self.reserve() => permit,
                () = stop.cancelled() => None,
            }
        });
        match permit.flatten() {
            Some(permit) => {
                permit.send(Queued { item, permit: self.stats.admit() });
                Ok(())
            }
            None => Err(self.refusal(item)),
        }
    }

    /// Waits until no incarnation has the inbox open. Items stay for the next incarnation.
    ///
    /// A draining child need not wait for answers from then on: its supervisor may start the next incarnation
    /// of the receiver only after this child has ended.
    pub async fn inbox_closed(&self) {
        // Waiting cannot fail: `self` owns the sender.
        let _ = self.opened.subscribe().wait_for(|opened| !opened).await;
    }

    /// Waits for room; None if the inbox is closed.
    async fn reserve(&self) -> Option<mpsc::Permit<'_, Queued<T>>> {
        check_wait(&self.stats);
        if let Ok(permit) = self.sender.try_reserve() {
            return Some(permit);
        }
        let waiting = wait(&self.stats, WaitKind::Room, Instant::now());
        let permit = self.sender.reserve().await.ok();
        waiting.succeed();
        permit
    }

    pub(crate) fn stats(&self) -> &Arc<MailboxStats> {
        &self.stats
    }

    fn refusal(&self, message: T) -> Refused<T> {
        Refused { message, capacity: self.stats.capacity() }
    }
}

impl<T> InboxSlot<T> {
    /// Keeps waiting items when the child is purged, see [`OnRestart::Purge`](crate::OnRestart::Purge).
    #[must_use]
    pub fn keep_on_purge(self) -> Self {
        self.stats.set_keep_on_purge();
        self
    }

    pub(crate) fn stats(&self) -> &Arc<MailboxStats> {
        &self.stats
    }

    /// Opens the inbox for this incarnation.
    ///
    /// # Panics
    /// If it is open already: one slot is used by two children, or opened twice.
    pub fn open(&self) -> Inbox<T> {
        let receiver = self.receiver.lock().take();
        assert!(
            receiver.is_some(),
            "an inbox is opened twice: only one incarnation of one child may have it open"
        );
        self.opened.send_replace(true);
        Inbox { receiver, slot: self.clone() }
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut slot = self.slot.receiver.lock();
        *slot = self.receiver.take();
        self.slot.opened.send_replace(false);
    }
}

impl<T> Inbox<T> {
    fn receiver(&mut self) -> &mut mpsc::Receiver<Queued<T>> {
        self.receiver.as_mut().expect("the receiver is returned only on drop")
    }

    fn unpack(&self, queued: Queued<T>) -> Option<T> {
        let waited = queued.permit.take_message()?;
        self.slot.message_stats.wait.record(waited);
        Some(queued.item)
    }

    /// Returns true if no item waits.
    pub fn is_empty(&self) -> bool {
        self.receiver.as_ref().is_none_or(mpsc::Receiver::is_empty)
    }

    /// None if no item waits.
    pub fn try_recv(&mut self) -> Option<T> {
        loop {
            let queued = self.receiver().try_recv().ok()?;
            if let Some(item) = self.unpack(queued) {
                return Some(item);
            }
        }
    }

    /// Waits for the next item; None once every sender is dropped.
    pub async fn recv(&mut self) -> Option<T> {
        loop {
            let queued = self.receiver().recv().await?;
            if let Some(item) = self.unpack(queued) {
                return Some(item);
            }
        }
    }

    /// Waits for the next item while the child is not paused. After the stop it returns the items that still
    /// wait, then None.
    ///
    /// The main loop of a task is `while let Some(item) = inbox.next(&cx).await`.
    pub async fn next(&mut self, cx: &StartCx) -> Option<T> {
        loop {
            tokio::select! {
                biased;
                () = cx.stop.cancelled() => return self.try_recv(),
                () = cx.child.wait_resumed() => {}
            }
            tokio::select! {
                biased;
                () = cx.stop.cancelled() => return self.try_recv(),
                () = cx.child.wait_paused() => {}
                item = self.recv() => match item {
                    Some(item) => return Some(item),
                    // All senders are gone. Ending now would make the supervisor restart the child again and
                    // again.
                    None => cx.stop.cancelled().await,
                },
            }
        }
    }

    /// Blocks the thread for the next item, like [`Inbox::next`].
    pub fn next_blocking(&mut self, cx: &StartCx) -> Option<T> {
        block_on(None, self.next(cx)).flatten()
    }

    /// Blocks the thread until an item comes, `stop` is cancelled and no item waits, or `deadline` passes.
    pub fn recv_blocking(&mut self, stop: &CancellationToken, deadline: Option<Instant>) -> Received<T> {
        if let Some(item) = self.try_recv() {
            return Received::Item(item);
        }
        let received = block_on(deadline, async {
            tokio::select! {
                biased;
                item = self.recv() => item,
                () = stop.cancelled() => None,
            }
        });
        match received {
            Some(Some(item)) => Received::Item(item),
            Some(None) => Received::Stopped,
            None => Received::TimedOut,
        }
    }
}

/// Result of [`Inbox::recv_blocking`].
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// An item.
    Item(T),
    /// No item waits, and the child is asked to stop.
    Stopped,
    /// No item came before the deadline.
    TimedOut,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn inbox_closed_waits_for_the_end_of_the_incarnation() {
        let (outbox, slot) = inbox::<u8>(1);
        outbox.inbox_closed().await;
        let open = slot.open();
        tokio::select! {
            biased;
            () = outbox.inbox_closed() => panic!("an incarnation has it open"),
            () = std::future::ready(()) => {}
        }
        drop(open);
        outbox.inbox_closed().await;
    }
}
