//! Child that publishes calls and collects their responses, any number concurrently, over one
//! connection.

use std::{cell::Cell, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{Channel, message::Delivery, options::BasicAckOptions};
use orchestrator_edge::{
    LinkState, PeerError, RetryPolicy,
    amqp::{Broker, Deliveries, DeliveryTracker, connection_lost, with_timeout},
};
use orchestrator_observe::metrics;
use orchestrator_supervise::{Factory, Inbox, InboxSlot, Outbox, StartCx};
use orchestrator_text::sanitize;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    call::{Call, ResponseTimeouts},
    client_connection::{ClientConnection, ConfirmedMessage, publish},
    pending_calls::PendingCalls,
    topology::Topology,
};
use crate::{
    call::CallError,
    call_timers::{CallTimers, Sample},
    wire,
};

/// Methods of the client that this child times.
const OPEN: &str = "open";
const CLOSE: &str = "close";

/// Options of the publisher.
#[derive(Debug, Clone)]
pub struct PublisherOptions {
    /// Type of the servers' exchanges and queues.
    pub topology: Topology,
    /// Time-outs of responses.
    pub timeouts: ResponseTimeouts,
    /// AMQP prefetch of responses.
    pub prefetch: u16,
    /// Maximum number of unconfirmed messages.
    pub window: usize,
    /// Size of the open calls' bodies from which no further call is accepted, in bytes.
    pub bytes_max: usize,
    /// Time that a stop waits for open calls.
    pub drain: Duration,
    /// Inbox of the statsd child, for the durations of `open` and `close`.
    pub statsd: Option<Outbox<Sample>>,
}

impl Default for PublisherOptions {
    fn default() -> Self {
        Self {
            topology: Topology::Transient,
            timeouts: ResponseTimeouts::default(),
            prefetch: 100,
            window: 256,
            bytes_max: 64 * 1024 * 1024,
            drain: Duration::from_millis(1_500),
            statsd: None,
        }
    }
}

/// Publishes `calls`. The child starts without the broker, reconnects by itself, and then resumes the open
/// calls.
pub fn client(broker: Broker, options: PublisherOptions, calls: &InboxSlot<Call>) -> Factory {
    let slot = calls.clone();
    // Responses and returned requests.
    let broker = broker.enforce_prefetch(usize::from(options.prefetch) + options.window);
    let task = Factory::task(move |cx: StartCx| {
        let (broker, options, calls) = (broker.clone(), options.clone(), slot.open());
        async move {
            let metrics = PublisherMetrics::register(&cx.vitals);
            let pending_calls = PendingCalls::new(options.timeouts);
            let call_timers = CallTimers::new(&cx.vitals, options.statsd.clone(), [OPEN, CLOSE]);
            let link = LinkState::new(&cx, "amqp", broker.endpoint(), RetryPolicy::REMOTE);
            let mut client = Client {
                broker: broker.reporting_to(&link),
                link,
                options,
                calls,
                cx,
                pending_calls,
                metrics,
                call_timers,
                is_stopping: false,
            };
            client.run().await;
            Ok(())
        }
    });
    task.with_inbox("calls", calls)
}

struct Client {
    broker: Broker,
    link: LinkState,
    options: PublisherOptions,
    calls: Inbox<Call>,
    cx: StartCx,
    pending_calls: PendingCalls,
    metrics: PublisherMetrics,
    call_timers: CallTimers,
    /// True once the child is stopped and no further call follows.
    is_stopping: bool,
}

impl Client {
    async fn run(&mut self) {
        let stop = self.cx.stop.clone();
        let drain = self.options.drain;
        let (call_timers, closing) = (self.call_timers.clone(), Cell::new(None));
        let drain_timeout = async {
            stop.cancelled().await;
            closing.set(Some(call_timers.start(CLOSE)));
            sleep(drain).await;
        };
        tokio::select! {
            biased;
            () = self.serve() => {}
            () = drain_timeout => {}
        }
        self.pending_calls.fail_all(&CallError::Stopping);
        drop(closing);
        self.count();
    }

    /// Reconnects and serves until no call is left after a stop.
    async fn serve(&mut self) {
        let mut since = std::time::Instant::now();
        loop {
            let open =
                ClientConnection::open(self.broker.clone(), self.options.topology, self.options.prefetch);
            let attempt = self.link.request();
            let Some(opened) = self.accept_until(open).await else {
                return;
            };
            drop(attempt);
            let error = match opened {
                Ok(mut connection) => {
                    drop(self.call_timers.start_at(OPEN, since));
                    self.link.connected();
                    match self.run_connection(&mut connection).await {
                        Ok(()) => return connection.session.close().await,
                        Err(error) => {
                            since = std::time::Instant::now();
                            error
                        }
                    }
                }
                Err(error) => error,
            };
            self.metrics.resent.add(self.pending_calls.restart_all() as u64);
            let delay = self.link.failed(&error);
            if self.accept_until(sleep(delay)).await.is_none() {
                return;
            }
        }
    }

    /// Accepts calls and expires overdue ones until `other` is ready; None when no work is left
    /// after a stop.
    async fn accept_until<T>(&mut self, other: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(other);
        loop {
            self.count();
            if self.is_stopping && self.pending_calls.is_empty() {
                return None;
            }
            tokio::select! {
                biased;
                done = &mut other => return Some(done),
                () = self.accept_or_expire() => {}
            }
        }
    }

    /// Accepts the next call or expires overdue ones, whichever comes first.
    async fn accept_or_expire(&mut self) {
        let deadline = self.pending_calls.next_deadline();
        let accepts = !self.is_stopping && self.pending_calls.bytes() < self.options.bytes_max;
        tokio::select! {
            biased;
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                self.metrics.timed_out.add(self.pending_calls.expire(Instant::now()) as u64);
            }
            call = self.calls.next(&self.cx), if accepts => match call {
                Some(call) => {
                    self.metrics.calls.add(1);
                    self.pending_calls.add(call, Instant::now());
                }
                None => {
                    self.is_stopping = true;
                    self.pending_calls.forget_abandoned();
                }
            },
            () = std::future::pending() => {}
        }
    }

    /// Publishes calls and collects responses over one connection, until no call is left after a
    /// stop.
    async fn run_connection(&mut self, connection: &mut ClientConnection) -> Result<(), PeerError> {
        let ClientConnection { session, channel, responses, reply_to } = connection;
        let (lost, taken) = (session.lost(), session.delivery_tracker());
        tokio::pin!(lost);
        let mut sending = FuturesUnordered::new();
        loop {
            while sending.len() < self.options.window {
                let Some((id, message)) = self.pending_calls.next_to_send() else { break };
                let request = self.link.request();
                let publish = publish(channel, reply_to, self.options.topology, id, message);
                sending.push(publish.inspect(|_| drop(request)));
            }
            self.count();
            if self.is_stopping && self.pending_calls.is_empty() {
                return Ok(());
            }
            tokio::select! {
                biased;
                error = &mut lost => return Err(error),
                Some(sent) = sending.next(), if !sending.is_empty() => self.confirmed(sent?, &taken),
                response = responses.next() => match response {
                    Some(Ok(first)) => {
                        self.gather(first, channel, responses, &taken).await?;
                        self.link.succeeded();
                    }
                    Some(Err(reason)) => return Err(connection_lost(reason)),
                    None => return Err(connection_lost("the queue for responses is gone")),
                },
                () = self.accept_or_expire() => {}
            }
        }
    }

    fn confirmed(
        &mut self,
        ConfirmedMessage { id, confirmation }: ConfirmedMessage,
        taken: &DeliveryTracker,
    ) {
        self.metrics.published.add(1);
        let accepted = confirmation.is_ack();
        // A returned message names its call; it may come with the confirm of another message.
        if let Some(returned) = confirmation.take_message() {
            let returned = returned.delivery;
            taken.record_read(returned.data.len());
            let id = returned.properties.correlation_id().as_ref().map_or("", |id| id.as_str());
            self.metrics.unroutable.add(1);
            self.pending_calls.unroutable(id, returned.routing_key.as_str(), &returned.data, Instant::now());
        } else if !accepted {
            self.pending_calls.refused(&id);
        }
    }

    /// Counts `first` and all responses received so far, then acknowledges them together. They
    /// belong to one consumer and are read in order.
    async fn gather(
        &mut self,
        first: Delivery,
        channel: &Channel,
        more: &mut Deliveries,
        taken: &DeliveryTracker,
    ) -> Result<(), PeerError> {
        let (mut response, mut last) = (first, None);
        loop {
            self.metrics.responses.add(1);
            taken.record_read(response.data.len());
            let id = response.properties.correlation_id().as_ref().map_or("", |id| id.as_str());
            match wire::decode_ack(&response.data) {
                Ok(stored) => self.pending_calls.respond(id, stored, Instant::now()),
                Err(error) => tracing::warn!(
                    broker = self.broker.endpoint(),
                    correlation_id = sanitize(id),
                    reason = sanitize(error.to_string()),
                    "response ignored"
                ),
            }
            last = last.max(Some(response.delivery_tag));
            match more.next().now_or_never().flatten() {
                Some(Ok(next)) => response = next,
                Some(Err(reason)) => return Err(connection_lost(reason)),
                None => break,
            }
        }
        let Some(tag) = last else { return Ok(()) };
        with_timeout("acknowledge responses", channel.basic_ack(tag, BasicAckOptions { multiple: true }))
            .await
    }

    fn count(&self) {
        self.metrics.calls_open.set(self.pending_calls.calls() as u64);
        self.metrics.bytes_in_flight.set(self.pending_calls.bytes() as u64);
    }
}

metrics! {
    /// Metrics of the publisher.
    struct PublisherMetrics {
        /// Calls of the client.
        calls: counter("calls"),
        /// Request messages confirmed by the broker.
        published: counter("messages"),
        /// Responses, sent by the server or received by the client.
        responses: counter("messages"),
        /// Messages returned because no queue is bound for their routing key.
        unroutable: counter("messages"),
        /// Calls that ended without a response in time.
        timed_out: counter("calls"),
        /// Calls sent again after a lost connection.
        resent: counter("calls"),
        /// Calls that await responses.
        calls_open: gauge("calls") as "open",
        /// Size of the bodies of open calls.
        bytes_in_flight: gauge("bytes") as "in_flight",
    }
}
