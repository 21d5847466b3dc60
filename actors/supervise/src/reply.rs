//! Reply channel for one answer, sent with a request or kept by an actor.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

use crate::refusal::AskError;

/// Sending end for one answer. Dropping it tells the caller that the request is lost.
#[derive(Debug)]
pub struct Reply<R>(oneshot::Sender<R>);

/// Future of the answer to a request.
#[derive(Debug)]
#[must_use = "the answer is lost unless it is awaited"]
pub struct Pending<R>(oneshot::Receiver<R>);

/// Creates a reply channel. [`Outbox::ask`](crate::Outbox::ask) and [`Outbox::request`](crate::Outbox::request) create their own.
pub fn reply<R>() -> (Reply<R>, Pending<R>) {
    let (sender, receiver) = oneshot::channel();
    (Reply(sender), Pending(receiver))
}

impl<R> Reply<R> {
    /// Sends the answer.
    ///
    /// # Errors
    /// Returns the answer if the caller no longer waits for it.
    pub fn send(self, answer: R) -> Result<(), R> {
        self.0.send(answer)
    }

    /// Tells whether the caller no longer waits for the answer.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl<R> Pending<R> {
    /// Refuses an answer from now on. An answer that was sent before can still be received by [`Pending::try_recv`].
    pub fn close(&mut self) {
        self.0.close();
    }

    /// Returns the answer if it has come.
    ///
    /// # Errors
    /// [`AskError::Lost`] if the reply was dropped.
    pub fn try_recv(&mut self) -> Result<Option<R>, AskError> {
        match self.0.try_recv() {
            Ok(answer) => Ok(Some(answer)),
            Err(oneshot::error::TryRecvError::Empty) => Ok(None),
            Err(oneshot::error::TryRecvError::Closed) => Err(AskError::Lost),
        }
    }
}

impl<R> Future for Pending<R> {
    type Output = Result<R, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll(cx)).map_err(|_| AskError::Lost))
    }
}
