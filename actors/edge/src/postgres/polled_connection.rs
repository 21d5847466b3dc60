//! Connection of the driver, polled only while an answer or a notification is awaited.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Error, Notification};

use super::{
    connector::ServerConnection, limits::Budget, notifications::Notifications, postgres_error::PostgresError,
};
use crate::{PeerErrorKind, Sent, catch_panic};

pub(super) struct PolledConnection {
    /// None once it ended.
    driver: Option<ServerConnection>,
    /// Error that the connection reported when it ended.
    lost: Option<Error>,
    budget: Arc<Budget>,
    answer_timeout: Duration,
    notifications: Notifications,
}

impl PolledConnection {
    pub(super) fn new(driver: ServerConnection, budget: Arc<Budget>, answer_timeout: Duration) -> Self {
        let notifications = Notifications::default();
        Self { driver: Some(driver), lost: None, budget, answer_timeout, notifications }
    }

    /// Error that the connection reported when it ended.
    pub(super) fn lost(&self) -> Option<&Error> {
        self.lost.as_ref()
    }

    /// Polls the connection until `request` is ready.
    ///
    /// # Errors
    /// The connection has ended before, no answer came in time, or the driver panicked. The connection is
    /// closed.
    pub(super) async fn drive<F: Future>(
        &mut self,
        action: &str,
        request: F,
    ) -> Result<F::Output, PostgresError> {
        self.budget.renew();
        let (span, mut request, mut is_started) = (self.answer_timeout, pin!(request), false);
        let driven = poll_fn(|cx| {
            if !is_started {
                // The server may have closed an idle connection.
                self.poll_messages(cx);
                if self.driver.is_none() {
                    return Poll::Ready(None);
                }
                is_started = true;
            }
            // First the requests are written, then the connection is polled, then the answers are read.
            if let Poll::Ready(output) = request.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            self.poll_messages(cx);
            request.as_mut().poll(cx).map(Some)
        });
        let error = match catch_panic(timeout(span, driven)).await {
            Ok(Ok(Some(output))) => return Ok(output),
            Ok(Ok(None)) => return Err(self.ended(action).unsent()),
            Ok(Err(_)) => {
                let text =
                    format!("the database did not answer within {} s while {action}", span.as_secs_f64());
                PostgresError::new(PeerErrorKind::Timeout, Sent::Maybe, text)
            }
            Err(panic) => PostgresError::of_panic(action, &panic),
        };
        self.driver = None;
        Err(error)
    }

    /// Waits for a notification for at most `span`. Keeps it if the future is dropped.
    ///
    /// # Errors
    /// The connection has ended, and no notification is kept.
    pub(super) async fn notified(&mut self, span: Duration) -> Result<Option<Notification>, PostgresError> {
        const ACTION: &str = "waiting for a notification";
        // Each wait ends with one notification, so a session may wait for any number of them.
        self.budget.renew();
        let waited = poll_fn(|cx| {
            loop {
                if let Some(notification) = self.notifications.pop() {
                    return Poll::Ready(Some(notification));
                }
                if self.driver.is_none() {
                    return Poll::Ready(None);
                }
                ready!(self.poll_message(cx));
            }
        });
        match catch_panic(timeout(span, waited)).await {
            Ok(Ok(Some(notification))) => Ok(Some(notification)),
            Ok(Ok(None)) => Err(self.ended(ACTION)),
            Ok(Err(_)) => Ok(None),
            Err(panic) => {
                self.driver = None;
                Err(PostgresError::of_panic(ACTION, &panic))
            }
        }
    }

    pub(super) fn take_dropped(&mut self) -> u64 {
        self.notifications.take_dropped()
    }

    fn ended(&self, action: &str) -> PostgresError {
        match &self.lost {
            Some(lost) => PostgresError::of_connection(action, lost),
            None => PostgresError::closed(action),
        }
    }

    fn poll_messages(&mut self, cx: &mut Context<'_>) {
        while self.driver.is_some() && self.poll_message(cx).is_ready() {}
    }

    /// Polls until the server sends a message that answers no request, or the connection has ended.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(driver) = &mut self.driver else { return Poll::Ready(()) };
        match ready!(driver.poll_message(cx)) {
            Some(Ok(AsyncMessage::Notification(notification))) => self.notifications.push(notification),
            // A notice.
            Some(Ok(_)) => {}
            // Dropping it ends every pending request.
            ended => {
                self.lost = ended.and_then(Result::err);
                self.driver = None;
            }
        }
        Poll::Ready(())
    }
}
