//! Mailbox of an actor: bounded, and kept over restarts.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Addr, Message, dev::channel, prelude::SendError};
use futures_util::future::BoxFuture;

pub use crate::child::Mailbox;
use crate::{
    activity::{check_send, check_wait, wait},
    actor_host::Envelope,
    child::{ActorHost, Child, Handle},
    mailbox_stats::{MailboxStats, Permit},
    refusal::{AskError, Refused},
    sends::Target,
    waits::WaitKind,
};

/// Receiving end of a mailbox, an argument of [`Factory::actor`](crate::Factory::actor).
pub struct MailboxSlot<A: Child> {
    pub(crate) receiver: channel::AddressReceiver<ActorHost<A>>,
    pub(crate) mailbox: Mailbox<A>,
}

/// Creates a mailbox for `capacity` messages, and its receiving end for the child.
pub fn mailbox<A: Child>(capacity: usize) -> (Mailbox<A>, MailboxSlot<A>) {
    // The channel of actix is unbounded here: its bound would let every sender add one message.
    let (sender, receiver) = channel::channel(0);
    let mailbox = Mailbox { addr: Addr::new(sender), stats: MailboxStats::new(capacity) };
    (mailbox.clone(), MailboxSlot { receiver, mailbox })
}

impl<A: Child> Clone for Mailbox<A> {
    fn clone(&self) -> Self {
        Self { addr: self.addr.clone(), stats: self.stats.clone() }
    }
}

impl<A: Child> From<&Mailbox<A>> for Target {
    fn from(mailbox: &Mailbox<A>) -> Self {
        Self::owner_of(&mailbox.stats)
    }
}

impl<A: Child> fmt::Debug for Mailbox<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl<A: Child> fmt::Debug for MailboxSlot<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailboxSlot").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

impl<A: Child> Mailbox<A> {
    pub(crate) fn stats(&self) -> &Arc<MailboxStats> {
        &self.stats
    }

    /// Messages waiting now.
    pub fn depth(&self) -> usize {
        self.stats.depth()
    }

    /// Sends a message without waiting for room or an answer.
    ///
    /// # Errors
    /// Returns the message if the mailbox is full; the refusal is counted.
    pub fn tell<M>(&self, message: M) -> Result<(), Refused<M>>
    where
        A: Handle<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        check_send(&self.stats);
        match self.stats.acquire_or_refuse() {
            Some(permit) => self.put(message, permit),
            None => Err(Refused { message, capacity: self.stats.capacity() }),
        }
    }

    /// Waits until the mailbox has room, then sends a message. Waiting senders and [`Mailbox::tell`] compete
    /// for room: the order is not fair.
    ///
    /// # Errors
    /// Returns the message if the mailbox is closed, which happens only when the process ends.
    pub async fn send<M>(&self, message: M) -> Result<(), Refused<M>>
    where
        A: Handle<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        check_wait(&self.stats);
        let permit = match self.stats.try_acquire() {
            Some(permit) => permit,
            None => {
                let waiting = wait(&self.stats, WaitKind::Room, Instant::now());
                let permit = self.stats.acquire().await;
                waiting.succeed();
                permit
            }
        };
        self.put(message, permit)
    }

    fn put<M>(&self, message: M, permit: Permit) -> Result<(), Refused<M>>
    where
        A: Handle<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        self.addr.try_send(Envelope::new(message, permit, self.stats.stats::<M>())).map_err(|error| {
            let (SendError::Full(envelope) | SendError::Closed(envelope)) = error;
            Refused { message: envelope.into_message(), capacity: self.stats.capacity() }
        })
    }

    /// Sends a message and waits for the answer, at most for `timeout`.
    ///
    /// # Errors
    /// The mailbox is full, the time is over, or the message was lost.
    pub async fn ask<M>(&self, message: M, timeout: Duration) -> Result<M::Result, AskError>
    where
        A: Handle<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let permit = self.stats.acquire_or_refuse().ok_or(AskError::Full(self.stats.capacity()))?;
        let waiting = wait(&self.stats, WaitKind::Answer, permit.acquired());
        let request = self.addr.send(Envelope::new(message, permit, self.stats.stats::<M>()));
        match tokio::time::timeout(timeout, request).await {
            Ok(answer) => {
                waiting.succeed();
                answer.map_err(|_closed| AskError::Lost)
            }
            Err(_elapsed) => Err(AskError::TimedOut(timeout)),
        }
    }

    /// Sends one message type only; the actor's type is erased.
    pub fn recipient<M>(&self) -> Recipient<M>
    where
        A: Handle<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        Recipient(Arc::new(self.clone()))
    }
}

/// Mailbox restricted to one message type, for senders that must not depend on the actor's crate.
pub struct Recipient<M: Message>(Arc<dyn Receives<M>>);

impl<M: Message> Clone for Recipient<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Message> From<&Recipient<M>> for Target {
    fn from(recipient: &Recipient<M>) -> Self {
        Self::owner_of(recipient.0.stats())
    }
}

impl<M: Message> fmt::Debug for Recipient<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recipient")
    }
}

impl<M: Message> Recipient<M> {
    /// Sends a message without waiting, see [`Mailbox::tell`].
    ///
    /// # Errors
    /// Returns the message if the mailbox is full.
    pub fn tell(&self, message: M) -> Result<(), Refused<M>> {
        self.0.tell(message)
    }

    /// Sends a message and waits for the answer, see [`Mailbox::ask`].
    ///
    /// # Errors
    /// The mailbox is full, the time is over, or the message was lost.
    pub async fn ask(&self, message: M, timeout: Duration) -> Result<M::Result, AskError> {
        self.0.ask(message, timeout).await
    }
}

trait Receives<M: Message>: Send + Sync {
    fn stats(&self) -> &Arc<MailboxStats>;
    fn tell(&self, message: M) -> Result<(), Refused<M>>;
    fn ask(&self, message: M, timeout: Duration) -> BoxFuture<'_, Result<M::Result, AskError>>;
}

impl<A, M> Receives<M> for Mailbox<A>
where
    A: Handle<M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn stats(&self) -> &Arc<MailboxStats> {
        self.stats()
    }

    fn tell(&self, message: M) -> Result<(), Refused<M>> {
        self.tell(message)
    }

    fn ask(&self, message: M, timeout: Duration) -> BoxFuture<'_, Result<M::Result, AskError>> {
        Box::pin(self.ask(message, timeout))
    }
}
