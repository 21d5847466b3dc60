//! State shared by all worker channels of a connection.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use orchestrator_edge::{
    LinkState, PeerError,
    amqp::{DeliveryTracker, connection_lost},
};
use orchestrator_observe::{LinkFailure, LinkReporter, metrics};
use orchestrator_supervise::{ChildState, Vitals};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{
    dead_letter::DeadLetterChannel, queues::Queues, readiness::ConsumerReadiness, redeliveries::Redeliveries,
};
use crate::{messages::Request, policy::Worker};

/// Time after which queues without a consumer are reported (CONTRACT PE12, PX05).
pub(super) const MISSING_REPORT_DELAY: Duration = Duration::from_secs(60);
/// Time after which a failed channel is reported; a faster recovery is not.
const ERROR_REPORT_DELAY: Duration = Duration::from_secs(1);

/// Passes a request to its worker; returns it if the worker's mailbox is full.
pub(crate) type Sink = Arc<dyn Fn(Worker, Request) -> Result<(), Request> + Send + Sync>;

/// State shared by all worker channels of a connection.
pub(super) struct ConsumerContext {
    pub(super) queues: Arc<Queues>,
    pub(super) prefetch: u16,
    pub(super) sink: Sink,
    pub(super) readiness: Arc<ConsumerReadiness>,
    pub(super) dead_letters: DeadLetterChannel,
    pub(super) metrics: ConsumerMetrics,
    pub(super) vitals: Arc<Vitals>,
    pub(super) child: Arc<ChildState>,
    /// Waits until the store answers.
    pub(super) store_answers: Box<dyn Fn() -> BoxFuture<'static, ()>>,
    pub(super) redeliveries: Arc<Redeliveries>,
    pub(super) link: LinkReporter,
    pub(super) taken: DeliveryTracker,
    /// Signalled when a channel acknowledges its first message.
    pub(super) progress: Notify,
    /// Errors of the workers whose queues are not consumed.
    pub(super) channel_errors: Mutex<BTreeMap<Worker, PeerError>>,
    /// Error that requires a new connection although this one is up.
    pub(super) fatal_error: watch::Sender<Option<PeerError>>,
}

impl ConsumerContext {
    /// Ends the connection with `error`.
    pub(super) fn close_connection(&self, error: PeerError) {
        self.fatal_error.send_replace(Some(error));
    }

    pub(super) async fn failed(&self) -> PeerError {
        let mut fatal_error = self.fatal_error.subscribe();
        let failed = fatal_error.wait_for(Option::is_some).await;
        // The sender belongs to `self`, and the awaited value is present.
        failed.ok().and_then(|error| error.clone()).unwrap_or_else(|| connection_lost("given up"))
    }

    /// Reports on the link whether all queues are consumed, or which are not and why. Never
    /// returns.
    pub(super) async fn report(&self, link: &LinkState) {
        let mut incomplete_since = Instant::now();
        // Only the first acknowledged message counts as progress of the connection.
        let mut progressed = false;
        loop {
            let consumed = self.readiness.consumed();
            self.metrics.queues_consumed.set(consumed as u64);
            if self.readiness.missing() == 0 {
                link.connected();
                tokio::select! {
                    () = self.readiness.changed() => incomplete_since = Instant::now(),
                    () = self.progress.notified(), if !progressed => {
                        progressed = true;
                        link.succeeded();
                    }
                }
                continue;
            }
            let error = self
                .channel_errors
                .lock()
                .iter()
                .next()
                .map(|(worker, error)| error.clone().map_text(|reason| format!("{worker}: {reason}; ")));
            let delay = if error.is_some() { ERROR_REPORT_DELAY } else { MISSING_REPORT_DELAY };
            if incomplete_since.elapsed() < delay {
                let rest = delay.saturating_sub(incomplete_since.elapsed());
                let _ = tokio::time::timeout(rest, self.readiness.changed()).await;
                continue;
            }
            let missing = self.readiness.describe_missing();
            let failure = error.map_or_else(
                || LinkFailure::from(&*missing),
                |error| LinkFailure::from(&error.map_text(|reason| format!("{reason}{missing}"))),
            );
            link.not_ready(failure, MISSING_REPORT_DELAY);
            let _ = tokio::time::timeout(MISSING_REPORT_DELAY, self.readiness.changed()).await;
        }
    }
}

metrics! {
    /// Metrics of the consumer.
    pub(super) struct ConsumerMetrics {
        /// Messages delivered by the broker.
        pub(super) deliveries: counter("messages"),
        /// Rows delivered by the broker.
        pub(super) rows: counter("rows"),
        /// Messages acknowledged to the broker: all their rows are stored or dead letters.
        pub(super) acked: counter("messages"),
        /// Messages delivered by the broker and not yet acknowledged or returned.
        pub(super) unacknowledged: gauge("messages"),
        /// Bytes of received messages, whether read or not, that are not yet acknowledged or returned.
        pub(super) held: gauge("bytes") as "unacknowledged_bytes",
        /// Responses, sent by the server or received by the client.
        pub(super) responses: counter("messages"),
        /// Messages published to the dead letters.
        pub(super) dead_lettered: counter("messages"),
        /// Messages whose whole body is unreadable; they become dead letters.
        pub(super) unreadable: counter("messages"),
        /// Items of a message that do not have the row format of its method; they become dead letters.
        pub(super) malformed: counter("rows"),
        /// Messages returned to the broker because their worker was restarted.
        pub(super) redelivered: counter("messages"),
        /// Queues consumed by this process; 160 (10 methods, 16 ranges) if it serves all ranges.
        pub(super) queues_consumed: gauge("queues") as "consumed",
    }
}
