//! Requests through an inbox, answered by the [`Reply`] in the request.

use std::time::Duration;

use crate::{
    inbox::Outbox,
    refusal::{AskError, Refused},
    reply::{Pending, Reply, reply},
};

impl<T: Send + 'static> Outbox<T> {
    /// Sends a request without waiting for room, and returns the future of its answer. `request` creates the
    /// request from the reply.
    ///
    /// # Errors
    /// Returns the request if the inbox is full; the refusal is counted.
    pub fn request<R>(&self, request: impl FnOnce(Reply<R>) -> T) -> Result<Pending<R>, Refused<T>> {
        let (reply, answer) = reply();
        self.tell(request(reply)).map(|()| answer.from(self.stats()))
    }

    /// Sends a request and waits for the answer, at most for `timeout`. `request` creates the request from
    /// the reply.
    ///
    /// # Errors
    /// The inbox is full, the time is over, or the request was lost.
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
            let Some(Request::Double(number, reply)) = inbox.recv().await else { panic!("no request") };
            assert!(!reply.is_closed());
            reply.send(number * 2)
        };
        assert_eq!(tokio::join!(asked, answering), (Ok(42), Ok(())));

        let mut pending = outbox.request(|reply| Request::Double(1, reply)).expect("room in the inbox");
        assert_eq!(pending.try_recv(), Ok(None));
        pending.close();
        let refused = outbox.ask(|reply| Request::Double(2, reply), TIMEOUT).await;
        assert_eq!(refused, Err(AskError::Full(1)));
        drop(inbox.recv().await);
        assert_eq!(pending.await, Err(AskError::Lost));

        let short = Duration::from_millis(1);
        let late = outbox.ask(|reply| Request::Double(3, reply), short).await;
        assert_eq!(late, Err(AskError::TimedOut(short)));
        let Some(Request::Double(_, reply)) = inbox.recv().await else { panic!("no request") };
        assert!(reply.is_closed(), "the caller has given up");
        assert_eq!(reply.send(6), Err(6));
    }
}
