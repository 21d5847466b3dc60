//! Attempts of one child to deliver documents, in order.

use std::time::Duration;

use orchestrator_supervise::StartCx;

use super::{Document, Receiver, not_delivered::NotDelivered};
use crate::{LinkState, RetryPolicy};

/// Delays between attempts: longer than those of a server, since a program that fails usually needs somebody
/// to repair it.
const RETRY: RetryPolicy = RetryPolicy::exception(Duration::from_secs(1), Duration::from_secs(60));

/// Failed attempt.
#[derive(Debug)]
pub struct Failed {
    /// Delay before the next attempt.
    pub delay: Duration,
    /// Reason, as the link has it.
    pub reason: String,
    /// True if the receiver answers and refuses this document, and may accept others: a webhook by its
    /// status, a program by exit code 64 or 65.
    pub for_content: bool,
}

/// Receiver with the link of the child that delivers to it.
#[derive(Debug)]
pub struct Courier {
    receiver: Receiver,
    link: LinkState,
    cx: StartCx,
}

impl Courier {
    /// Refusals of a document for its content after which others come first.
    pub const REFUSALS_MAX: u32 = 5;

    /// Time for which a stop of the child waits for the attempt in progress. A delivery that is not recorded
    /// is repeated.
    pub const DRAIN: Duration = Duration::from_secs(3);

    /// Declares the child's link to `receiver`, which is not needed yet.
    pub fn new(receiver: Receiver, cx: StartCx) -> Self {
        let link = LinkState::new(&cx, receiver.kind(), receiver.name(), RETRY);
        link.idle();
        Self { receiver, link, cx }
    }

    /// Tries once to deliver a document.
    ///
    /// # Errors
    /// The receiver has not accepted it. The link has the reason.
    pub async fn attempt(&self, document: &Document) -> Result<(), Failed> {
        let attempt = {
            let _in_progress = self.cx.vitals.begin_work("deliver");
            let _request = self.receiver.answers_soon().then(|| self.link.request());
            self.receiver.deliver(document).await
        };
        let Err(NotDelivered { failure, for_content }) = attempt else {
            self.link.succeeded();
            return Ok(());
        };
        let reason = failure.reason.clone();
        let delay = self.link.failed(failure);
        tracing::warn!(id = document.id, child = self.cx.vitals.path(), ?delay, "not delivered: {reason}");
        Err(Failed { delay, reason, for_content })
    }

    /// Reports the link as up: the receiver answers, and is not given a document again that it refuses.
    pub fn skip(&self) {
        self.link.succeeded();
    }

    /// Waits for `delay`. Returns false if the child is stopped meanwhile.
    pub async fn wait(&self, delay: Duration) -> bool {
        self.link.wait(delay).await
    }
}
