//! State shared by all channels of a connection.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_edge::{
    Reconnect,
    amqp::{AmqpError, DeliveryTracker},
};
use orchestrator_supervise::{Vitals, metrics};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{dead_letter::DeadLetterChannel, presence::Presence, topology::Topology};
use crate::{messages::Request, policy::Worker};

/// After so long, the queues that have no consumer are named; starting goes on (CONTRACT PE12, PX05: the original gives up then).
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// A worker that lost its channel and is back after so long is no news.
const GRACE: Duration = Duration::from_secs(1);

/// Hands a request to its worker; gives it back when the worker has no place for it.
pub type Sink = Arc<dyn Fn(Worker, Request) -> Result<(), Request> + Send + Sync>;

/// What all channels of a connection share.
pub(super) struct ConsumerContext {
    pub(super) topology: Topology,
    pub(super) prefetch: u16,
    pub(super) sink: Sink,
    pub(super) presence: Arc<Presence>,
    pub(super) dead_letters: DeadLetterChannel,
    pub(super) metrics: ConsumerMetrics,
    pub(super) vitals: Arc<Vitals>,
    pub(super) taken: DeliveryTracker,
    /// Told when a message was acknowledged.
    pub(super) progress: Notify,
    /// Workers whose queues are not consumed, and why.
    pub(super) troubles: Mutex<BTreeMap<Worker, String>>,
    /// Why the connection has to be given up although it works.
    pub(super) doom: watch::Sender<Option<AmqpError>>,
}

impl ConsumerContext {
    /// Has the connection given up.
    pub(super) fn give_up(&self, error: AmqpError) {
        self.doom.send_replace(Some(error));
    }

    pub(super) async fn doomed(&self) -> AmqpError {
        let mut doom = self.doom.subscribe();
        let doomed = doom.wait_for(Option::is_some).await;
        // The sender is ours, and what was waited for is there.
        doomed.ok().and_then(|error| error.clone()).unwrap_or_else(|| AmqpError::Lost("given up".to_owned()))
    }

    /// Tells the link whether all queues are consumed, and if not for a while, which are not and why. Never ends.
    pub(super) async fn report(&self, reconnect: &mut Reconnect) {
        let mut incomplete_since = Instant::now();
        // The first message that was processed is progress; the others are no news.
        let mut progressed = false;
        loop {
            let consumed = self.presence.consumed();
            self.metrics.queues_consumed.set(consumed as u64);
            if self.presence.missing().is_empty() {
                reconnect.connected();
                tokio::select! {
                    () = self.presence.changed() => incomplete_since = Instant::now(),
                    () = self.progress.notified(), if !progressed => {
                        progressed = true;
                        reconnect.succeeded();
                    }
                }
                continue;
            }
            let trouble =
                self.troubles.lock().iter().next().map(|(worker, reason)| format!("{worker}: {reason}; "));
            let patience = if trouble.is_some() { GRACE } else { PATIENCE };
            if incomplete_since.elapsed() < patience {
                let rest = patience.saturating_sub(incomplete_since.elapsed());
                let _ = tokio::time::timeout(rest, self.presence.changed()).await;
                continue;
            }
            let missing = self.presence.describe_missing();
            reconnect.not_ready(format!("{}{missing}", trouble.unwrap_or_default()), PATIENCE);
            let _ = tokio::time::timeout(PATIENCE, self.presence.changed()).await;
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
        /// Messages acknowledged to the broker: all their rows are stored or among the dead letters.
        pub(super) acked: counter("messages"),
        /// Responses, sent by the server or received by the client.
        pub(super) responses: counter("messages"),
        /// Messages published to the dead letters.
        pub(super) dead_lettered: counter("messages"),
        /// Messages whose body as a whole cannot be read; they become dead letters.
        pub(super) unreadable: counter("messages"),
        /// Rows of messages that are not of the form their method has; they become dead letters.
        pub(super) malformed: counter("rows"),
        /// Messages given back to the broker because their worker was restarted.
        pub(super) redelivered: counter("messages"),
        /// Queues that have our consumer, of 160 with all ranges.
        pub(super) queues_consumed: gauge("queues") as "consumed",
    }
}
