//! Reply channel for one answer, sent with a request or kept by an actor.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use tokio::sync::oneshot;

use crate::{
    activity::{WaitGuard, wait},
    mailbox_stats::MailboxStats,
    refusal::AskError,
    waits::WaitKind,
};

/// Sending end for one answer. Dropping it tells the caller that the request is lost.
#[derive(Debug)]
pub struct Reply<R>(oneshot::Sender<R>);

/// Future of the answer to a request.
#[derive(Debug)]
#[must_use = "the answer is lost unless it is awaited"]
pub struct Pending<R> {
    receiver: oneshot::Receiver<R>,
    /// Mailbox with the request, if known, until the first wait.
    mailbox: Option<Arc<MailboxStats>>,
    waiting: Option<WaitGuard>,
}

/// Creates a reply channel. [`Outbox::ask`](crate::Outbox::ask) and
/// [`Outbox::request`](crate::Outbox::request) create their own.
pub fn reply<R>() -> (Reply<R>, Pending<R>) {
    let (sender, receiver) = oneshot::channel();
    (Reply(sender), Pending { receiver, mailbox: None, waiting: None })
}

impl<R> Reply<R> {
    /// Sends the answer.
    ///
    /// # Errors
    /// Returns the answer if the caller no longer waits for it.
    pub fn send(self, answer: R) -> Result<(), R> {
        self.0.send(answer)
    }

    /// True if the caller no longer waits for the answer.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until the caller no longer waits for the answer. Cancel safe.
    pub async fn closed(&mut self) {
        self.0.closed().await;
    }
}

impl<R> Pending<R> {
    /// Names the mailbox with the request.
    pub(crate) fn from(self, mailbox: &Arc<MailboxStats>) -> Self {
        Self { mailbox: Some(mailbox.clone()), ..self }
    }

    /// Refuses an answer from now on. An answer that was sent before can still be received by
    /// [`Pending::try_recv`].
    pub fn close(&mut self) {
        self.receiver.close();
    }

    /// None while the answer has not come.
    ///
    /// # Errors
    /// [`AskError::Lost`] if the reply was dropped.
    pub fn try_recv(&mut self) -> Result<Option<R>, AskError> {
        match self.receiver.try_recv() {
            Ok(answer) => Ok(Some(answer)),
            Err(oneshot::error::TryRecvError::Empty) => Ok(None),
            Err(oneshot::error::TryRecvError::Closed) => Err(AskError::Lost),
        }
    }
}

impl<R> Future for Pending<R> {
    type Output = Result<R, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.receiver).poll(cx);
        if answer.is_ready() {
            if let Some(waiting) = self.waiting.take() {
                waiting.succeed();
            }
        } else if let Some(mailbox) = self.mailbox.take() {
            self.waiting = Some(wait(&mailbox, WaitKind::Answer, Instant::now()));
        }
        answer.map_err(|_| AskError::Lost)
    }
}
