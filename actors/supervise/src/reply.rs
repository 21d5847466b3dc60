//! The way back of an answer: the [`Reply`] that travels with a request, or that an actor keeps.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

use crate::refusal::AskError;

/// The way back to whoever sent a request. A request that is dropped with its reply is lost: its sender hears of it.
#[derive(Debug)]
pub struct Reply<R>(oneshot::Sender<R>);

/// The answer to a request that was sent.
#[derive(Debug)]
#[must_use = "the answer is lost if nobody waits for it"]
pub struct Pending<R>(oneshot::Receiver<R>);

/// Returns a reply and the answer that it leads to, for a request that does not go through an [`Outbox`](crate::Outbox) by itself.
pub fn reply<R>() -> (Reply<R>, Pending<R>) {
    let (sender, receiver) = oneshot::channel();
    (Reply(sender), Pending(receiver))
}

impl<R> Reply<R> {
    /// Answers.
    ///
    /// # Errors
    /// The answer itself if nobody waits for it any more.
    pub fn send(self, answer: R) -> Result<(), R> {
        self.0.send(answer)
    }

    /// Tells whether nobody waits for the answer any more.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl<R> Pending<R> {
    /// Refuses the answer from now on; one that was sent before is still there for [`Pending::try_recv`].
    pub fn close(&mut self) {
        self.0.close();
    }

    /// Returns the answer if it is there.
    ///
    /// # Errors
    /// [`AskError::Lost`]: there will be none.
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
