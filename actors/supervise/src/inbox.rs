//! Bounded channels for thread and task children and for hot paths. Like a mailbox, an inbox outlives every
//! incarnation: the receiver goes back to its slot when an incarnation ends.

use std::{fmt, sync::Arc, time::Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    StartCx,
    block_on::block_on,
    mailbox_stats::{MailboxStats, MessageStats, Seat},
    refusal::Refused,
};

struct Parcel<T> {
    item: T,
    seat: Seat,
}

/// The sending end. Cheap to clone.
pub struct Outbox<T> {
    sender: mpsc::Sender<Parcel<T>>,
    gauge: Arc<MailboxStats>,
    opened: watch::Sender<bool>,
}

/// Keeps the receiver between two incarnations. Clones share it.
pub struct InboxSlot<T> {
    receiver: Arc<Mutex<Option<mpsc::Receiver<Parcel<T>>>>>,
    gauge: Arc<MailboxStats>,
    stats: Arc<MessageStats>,
    opened: watch::Sender<bool>,
}

/// The receiver in the hands of one incarnation.
pub struct Inbox<T> {
    receiver: Option<mpsc::Receiver<Parcel<T>>>,
    slot: InboxSlot<T>,
}

/// Makes a channel for `capacity` items.
pub fn inbox<T>(capacity: usize) -> (Outbox<T>, InboxSlot<T>) {
    let gauge = MailboxStats::new(capacity);
    let (sender, receiver) = mpsc::channel(gauge.capacity());
    let stats = gauge.stats::<T>();
    let opened = watch::Sender::new(false);
    let slot = InboxSlot {
        receiver: Arc::new(Mutex::new(Some(receiver))),
        gauge: gauge.clone(),
        stats,
        opened: opened.clone(),
    };
    (Outbox { sender, gauge, opened }, slot)
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), gauge: self.gauge.clone(), opened: self.opened.clone() }
    }
}

impl<T> Clone for InboxSlot<T> {
    fn clone(&self) -> Self {
        Self {
            receiver: self.receiver.clone(),
            gauge: self.gauge.clone(),
            stats: self.stats.clone(),
            opened: self.opened.clone(),
        }
    }
}

impl<T> fmt::Debug for Outbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("gauge", &self.gauge).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for InboxSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxSlot").field("gauge", &self.gauge).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("gauge", &self.slot.gauge).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Outbox<T> {
    /// Sends without waiting.
    ///
    /// # Errors
    /// The item itself when the inbox is at its bound; the refusal is counted.
    pub fn tell(&self, item: T) -> Result<(), Refused<T>> {
        match self.sender.try_reserve() {
            Ok(permit) => {
                permit.send(Parcel { item, seat: self.gauge.admit() });
                Ok(())
            }
            Err(_) => {
                self.gauge.count_refusal();
                Err(self.refuse(item))
            }
        }
    }

    /// Waits for a free place, then sends.
    ///
    /// # Errors
    /// The item itself when the process ends.
    pub async fn send(&self, item: T) -> Result<(), Refused<T>> {
        match self.sender.reserve().await {
            Ok(permit) => {
                permit.send(Parcel { item, seat: self.gauge.admit() });
                Ok(())
            }
            Err(_closed) => Err(self.refuse(item)),
        }
    }

    /// Blocks until there is a free place or `stop` is cancelled. For threads only.
    ///
    /// # Errors
    /// The item itself when stopped.
    pub fn send_blocking(&self, item: T, stop: &CancellationToken) -> Result<(), Refused<T>> {
        let place = block_on(None, async {
            tokio::select! {
                biased;
                place = self.sender.reserve() => place.ok(),
                () = stop.cancelled() => None,
            }
        });
        match place.flatten() {
            Some(permit) => {
                permit.send(Parcel { item, seat: self.gauge.admit() });
                Ok(())
            }
            None => Err(self.refuse(item)),
        }
    }

    /// Waits until no incarnation has the receiver. What was sent stays there for the next one; but a child that drains
    /// need not wait for answers then, since its supervisor may start that one only after this child has ended.
    pub async fn inbox_closed(&self) {
        // An error would mean that the channel is gone, but `self` holds it.
        let _ = self.opened.subscribe().wait_for(|opened| !opened).await;
    }

    fn refuse(&self, message: T) -> Refused<T> {
        Refused { message, capacity: self.gauge.capacity() }
    }
}

impl<T> InboxSlot<T> {
    /// Keeps what waits over every restart, also in a child that is purged: for what is not part of a view that a
    /// restart makes anew.
    #[must_use]
    pub fn keep_on_purge(self) -> Self {
        self.gauge.set_keep_on_purge();
        self
    }

    pub(crate) fn gauge(&self) -> &Arc<MailboxStats> {
        &self.gauge
    }

    /// Takes the receiver for this incarnation.
    ///
    /// # Panics
    /// If another incarnation still holds it: the kernel never runs two at once, so this is a wiring error
    /// (one slot in two children).
    pub fn open(&self) -> Inbox<T> {
        let receiver = self.receiver.lock().take();
        assert!(receiver.is_some(), "an inbox is opened by one incarnation of one child at a time");
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
    fn receiver(&mut self) -> &mut mpsc::Receiver<Parcel<T>> {
        self.receiver.as_mut().expect("given back only on drop")
    }

    fn unpack(&self, parcel: Parcel<T>) -> Option<T> {
        let waited = parcel.seat.leave()?;
        self.slot.stats.wait.record(waited);
        Some(parcel.item)
    }

    /// The next item, if one waits.
    pub fn try_recv(&mut self) -> Option<T> {
        loop {
            let parcel = self.receiver().try_recv().ok()?;
            if let Some(item) = self.unpack(parcel) {
                return Some(item);
            }
        }
    }

    /// Waits for the next item; None only when every sender is gone.
    pub async fn recv(&mut self) -> Option<T> {
        loop {
            let parcel = self.receiver().recv().await?;
            if let Some(item) = self.unpack(parcel) {
                return Some(item);
            }
        }
    }

    /// The next item that this incarnation may take: waits while the intake is closed; after the stop gives what still
    /// waits, then None. The loop of a task that follows every rule: `while let Some(item) = inbox.next(&cx).await`.
    pub async fn next(&mut self, cx: &StartCx) -> Option<T> {
        loop {
            tokio::select! {
                biased;
                () = cx.stop.cancelled() => return self.try_recv(),
                () = cx.vitals.wait_resumed() => {}
            }
            tokio::select! {
                biased;
                () = cx.stop.cancelled() => return self.try_recv(),
                () = cx.vitals.wait_paused() => {}
                item = self.recv() => match item {
                    Some(item) => return Some(item),
                    // Nobody can send any more; that is no reason to end, and be restarted, again and again.
                    None => cx.stop.cancelled().await,
                },
            }
        }
    }

    /// As [`Inbox::next`], for threads.
    pub fn next_blocking(&mut self, cx: &StartCx) -> Option<T> {
        block_on(None, self.next(cx)).flatten()
    }

    /// Blocks until an item comes, `stop` is cancelled (what waits is still received first), or `deadline` passes.
    /// For threads only.
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

/// What a blocking receive came back with.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// An item.
    Item(T),
    /// Nothing waits and the child is asked to stop.
    Stopped,
    /// Nothing came before the deadline.
    TimedOut,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn inbox_closed_waits_for_the_end_of_the_incarnation_that_has_the_receiver() {
        let (outbox, slot) = inbox::<u8>(1);
        outbox.inbox_closed().await;
        let open = slot.open();
        tokio::select! {
            biased;
            () = outbox.inbox_closed() => panic!("an incarnation has it"),
            () = std::future::ready(()) => {}
        }
        drop(open);
        outbox.inbox_closed().await;
    }
}
