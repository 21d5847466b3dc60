//! Requests through an inbox: the answer comes back by the [`Reply`] that travels with the request.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    inbox::Outbox,
    mailbox::{AskError, Refused},
};

/// The way back to whoever sent a request. A request that is dropped with its reply is lost: its sender hears of it.
#[derive(Debug)]
pub struct Reply<R>(oneshot::Sender<R>);

/// The answer to a request that was sent.
#[derive(Debug)]
#[must_use = "the answer is lost if nobody waits for it"]
pub struct Pending<R>(oneshot::Receiver<R>);

/// Returns a reply and the answer that it leads to, for a request that does not go through an [`Outbox`] by itself.
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

impl<T: Send + 'static> Outbox<T> {
    /// Sends a request without waiting, and returns its answer to come. `request` is given the reply to put into it.
    ///
    /// # Errors
    /// The request itself when the inbox is at its bound; the refusal is counted.
    pub fn request<R>(&self, request: impl FnOnce(Reply<R>) -> T) -> Result<Pending<R>, Refused<T>> {
        let (reply, answer) = reply();
        self.tell(request(reply)).map(|()| answer)
    }

    /// Sends a request and waits for the answer, at most `timeout`.
    ///
    /// # Errors
    /// Full inbox, time-out, or the request was lost.
    pub async fn ask<R>(
        &self,
        request: impl FnOnce(Reply<R>) -> T,
        timeout: Duration,
    ) -> Result<R, AskError> {
        let answer = self.request(request).map_err(|refused| AskError::Full(refused.capacity))?;
        tokio::time::timeout(timeout, answer).await.unwrap_or(Err(AskError::TimedOut(timeout)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::inbox;

    enum Request {
        Double(u32, Reply<u32>),
    }

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_request_is_answered_lost_late_or_refused() {
        let (outbox, slot) = inbox::<Request>(1);
        let mut inbox = slot.open();
        let asked = outbox.ask(|reply| Request::Double(21, reply), TIMEOUT);
        let answering = async {
            let Some(Request::Double(number, reply)) = inbox.recv().await else { panic!("it was sent") };
            assert!(!reply.is_closed());
            reply.send(number * 2)
        };
        assert_eq!(tokio::join!(asked, answering), (Ok(42), Ok(())));

        let mut pending = outbox.request(|reply| Request::Double(1, reply)).expect("a free place");
        assert_eq!(pending.try_recv(), Ok(None));
        pending.close();
        let refused = outbox.ask(|reply| Request::Double(2, reply), TIMEOUT).await;
        assert_eq!(refused, Err(AskError::Full(1)));
        drop(inbox.recv().await);
        assert_eq!(pending.await, Err(AskError::Lost));

        let short = Duration::from_millis(1);
        let late = outbox.ask(|reply| Request::Double(3, reply), short).await;
        assert_eq!(late, Err(AskError::TimedOut(short)));
        let Some(Request::Double(_, reply)) = inbox.recv().await else { panic!("it still waits") };
        assert!(reply.is_closed(), "nobody waits any more");
        assert_eq!(reply.send(6), Err(6));
    }
}
