//! The only way to talk to an actor: a bounded mailbox that outlives every incarnation.

use std::{fmt, sync::Arc, time::Duration};

use actix::{Addr, Message, dev::channel};
use futures_util::future::BoxFuture;

pub use crate::child::Mailbox;
use crate::{
    cell::Envelope,
    child::{Cell, Child, Handle},
    mailbox_stats::MailboxStats,
    refusal::{AskError, Refused},
};

/// The receiving end, to be put into one child's [`Factory`](crate::Factory).
pub struct MailboxSlot<A: Child> {
    pub(crate) receiver: channel::AddressReceiver<Cell<A>>,
    pub(crate) mailbox: Mailbox<A>,
}

/// Makes a mailbox for `capacity` messages and the slot that its child is built around.
pub fn mailbox<A: Child>(capacity: usize) -> (Mailbox<A>, MailboxSlot<A>) {
    // actix' own bound is off: the gauge's is exact, actix' lets every sender add one.
    let (sender, receiver) = channel::channel(0);
    let mailbox = Mailbox { addr: Addr::new(sender), gauge: MailboxStats::new(capacity) };
    (mailbox.clone(), MailboxSlot { receiver, mailbox })
}

impl<A: Child> Clone for Mailbox<A> {
    fn clone(&self) -> Self {
        Self { addr: self.addr.clone(), gauge: self.gauge.clone() }
    }
}

impl<A: Child> fmt::Debug for Mailbox<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("gauge", &self.gauge).finish_non_exhaustive()
    }
}

impl<A: Child> fmt::Debug for MailboxSlot<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailboxSlot").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

impl<A: Child> Mailbox<A> {
    pub(crate) fn gauge(&self) -> &Arc<MailboxStats> {
        &self.gauge
    }

    /// Messages waiting now.
    pub fn depth(&self) -> usize {
        self.gauge.depth()
    }

    /// Sends without waiting for an answer.
    ///
    /// # Errors
    /// The message itself when the mailbox is at its bound; the refusal is counted.
    pub fn tell<M>(&self, message: M) -> Result<(), Refused<M>>
    where
        A: Handle<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let Some(seat) = self.gauge.enter() else {
            return Err(Refused { message, capacity: self.gauge.capacity() });
        };
        self.addr.try_send(Envelope::new(message, seat, self.gauge.stats::<M>())).map_err(|error| {
            let (actix::prelude::SendError::Full(envelope) | actix::prelude::SendError::Closed(envelope)) =
                error;
            Refused { message: envelope.into_message(), capacity: self.gauge.capacity() }
        })
    }

    /// Sends and waits for the answer, at most `timeout`.
    ///
    /// # Errors
    /// Full mailbox, time-out, or the message was lost.
    pub async fn ask<M>(&self, message: M, timeout: Duration) -> Result<M::Result, AskError>
    where
        A: Handle<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let seat = self.gauge.enter().ok_or(AskError::Full(self.gauge.capacity()))?;
        let request = self.addr.send(Envelope::new(message, seat, self.gauge.stats::<M>()));
        match tokio::time::timeout(timeout, request).await {
            Ok(answer) => answer.map_err(|_closed| AskError::Lost),
            Err(_elapsed) => Err(AskError::TimedOut(timeout)),
        }
    }

    /// The same mailbox for one message type, its owner's type forgotten.
    pub fn recipient<M>(&self) -> Recipient<M>
    where
        A: Handle<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        Recipient(Arc::new(self.clone()))
    }
}

/// A mailbox known by one message type only: how crates are wired that must not know each other.
pub struct Recipient<M: Message>(Arc<dyn Accepts<M>>);

impl<M: Message> Clone for Recipient<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Message> fmt::Debug for Recipient<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recipient")
    }
}

impl<M: Message> Recipient<M> {
    /// See [`Mailbox::tell`].
    ///
    /// # Errors
    /// The message itself when the mailbox is at its bound.
    pub fn tell(&self, message: M) -> Result<(), Refused<M>> {
        self.0.accept(message)
    }

    /// See [`Mailbox::ask`].
    ///
    /// # Errors
    /// Full mailbox, time-out, or the message was lost.
    pub async fn ask(&self, message: M, timeout: Duration) -> Result<M::Result, AskError> {
        self.0.answer(message, timeout).await
    }
}

trait Accepts<M: Message>: Send + Sync {
    fn accept(&self, message: M) -> Result<(), Refused<M>>;
    fn answer(&self, message: M, timeout: Duration) -> BoxFuture<'_, Result<M::Result, AskError>>;
}

impl<A, M> Accepts<M> for Mailbox<A>
where
    A: Handle<M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn accept(&self, message: M) -> Result<(), Refused<M>> {
        self.tell(message)
    }

    fn answer(&self, message: M, timeout: Duration) -> BoxFuture<'_, Result<M::Result, AskError>> {
        Box::pin(self.ask(message, timeout))
    }
}
