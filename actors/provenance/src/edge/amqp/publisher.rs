//! The child that publishes calls and gathers their responses: any number of calls at a time, over one connection.

use std::{cell::Cell, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{Channel, Consumer, message::Delivery, options::BasicAckOptions};
use orchestrator_edge::{
    Reconnect,
    amqp::{AmqpError, Broker, DeliveryTracker, with_timeout},
};
use orchestrator_supervise::{Factory, Inbox, InboxSlot, Outbox, StartCx, metrics, sanitize};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    call::{Call, Patience},
    desk::Desk,
    line::{Line, Sent, publish},
    topology::Topology,
};
use crate::{
    call::CallError,
    edge::RETRY,
    stopwatch::{Sample, Stopwatch},
    wire,
};

/// Methods of the client that this child carries out.
const OPEN: &str = "open";
const CLOSE: &str = "close";

/// How calls are published.
#[derive(Debug, Clone)]
pub struct Publication {
    /// What the servers' exchanges and queues are made of.
    pub topology: Topology,
    /// How long calls wait for responses.
    pub patience: Patience,
    /// How many responses the broker sends ahead of their acknowledgement.
    pub prefetch: u16,
    /// How many messages await their confirm at the most.
    pub window: usize,
    /// While the open calls' bodies have so many bytes, no further call is taken on.
    pub bytes_max: usize,
    /// How long a stop waits for the calls under way.
    pub drain: Duration,
    /// Who else is told how long opening and closing take.
    pub statsd: Option<Outbox<Sample>>,
}

impl Default for Publication {
    fn default() -> Self {
        Self {
            topology: Topology::Transient,
            patience: Patience::default(),
            prefetch: 100,
            window: 256,
            bytes_max: 64 * 1024 * 1024,
            drain: Duration::from_secs(4),
            statsd: None,
        }
    }
}

/// The child that publishes the calls of `calls` to `broker`. It starts without the broker and comes back by itself; calls
/// under way go on when it is back.
pub fn client(broker: Broker, publication: Publication, calls: &InboxSlot<Call>) -> Factory {
    let slot = calls.clone();
    // Responses, and requests that found no queue.
    let broker = broker.enforce_prefetch(usize::from(publication.prefetch) + publication.window);
    let task = Factory::task(move |cx: StartCx| {
        let (broker, publication, calls) = (broker.clone(), publication.clone(), slot.open());
        async move {
            let metrics = PublisherMetrics::register(&cx.vitals);
            let desk = Desk::new(publication.patience);
            let stopwatch = Stopwatch::new(&cx.vitals, publication.statsd.clone(), [OPEN, CLOSE]);
            let mut client =
                Client { broker, publication, calls, cx, desk, metrics, stopwatch, ended: false };
            let link = client.cx.vitals.link("amqp", client.broker.endpoint());
            client.run(Reconnect::new(link, RETRY)).await;
            Ok(())
        }
    });
    task.with_inbox("calls", calls)
}

struct Client {
    broker: Broker,
    publication: Publication,
    calls: Inbox<Call>,
    cx: StartCx,
    desk: Desk,
    metrics: PublisherMetrics,
    stopwatch: Stopwatch,
    /// No further call comes.
    ended: bool,
}

impl Client {
    async fn run(&mut self, mut reconnect: Reconnect) {
        let stop = self.cx.stop.clone();
        let drain = self.publication.drain;
        let (stopwatch, closing) = (self.stopwatch.clone(), Cell::new(None));
        let too_late = async {
            stop.cancelled().await;
            closing.set(Some(stopwatch.start(CLOSE)));
            sleep(drain).await;
        };
        tokio::select! {
            biased;
            () = self.serve(&mut reconnect) => {}
            () = too_late => {}
        }
        self.desk.fail_all(&CallError::Stopping);
        drop(closing);
        self.count();
    }

    /// Serves until no call is left after a stop.
    async fn serve(&mut self, reconnect: &mut Reconnect) {
        let mut since = std::time::Instant::now();
        loop {
            let open = Line::open(self.broker.clone(), self.publication.topology, self.publication.prefetch);
            let Some(opened) = self.meanwhile(open).await else {
                return;
            };
            let error = match opened {
                Ok(mut line) => {
                    drop(self.stopwatch.start_at(OPEN, since));
                    reconnect.connected();
                    match self.converse(&mut line, reconnect).await {
                        Ok(()) => return line.session.close().await,
                        Err(error) => {
                            since = std::time::Instant::now();
                            error
                        }
                    }
                }
                Err(error) => error,
            };
            self.metrics.resent.add(self.desk.start_again() as u64);
            let delay = reconnect.failed(error.to_string());
            if self.meanwhile(sleep(delay)).await.is_none() {
                return;
            }
        }
    }

    /// Takes calls on, and lets those fail that are over-due, until `other` is done; none when there is nothing left to do.
    async fn meanwhile<T>(&mut self, other: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(other);
        loop {
            self.count();
            if self.ended && self.desk.is_empty() {
                return None;
            }
            tokio::select! {
                biased;
                done = &mut other => return Some(done),
                () = self.tend() => {}
            }
        }
    }

    /// Waits for the next call to take on or to give up.
    async fn tend(&mut self) {
        let deadline = self.desk.next_deadline();
        let takes = !self.ended && self.desk.bytes() < self.publication.bytes_max;
        tokio::select! {
            biased;
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                self.metrics.timed_out.add(self.desk.expire(Instant::now()) as u64);
            }
            call = self.calls.next(&self.cx), if takes => match call {
                Some(call) => {
                    self.metrics.calls.add(1);
                    self.desk.admit(call, Instant::now());
                }
                None => self.ended = true,
            },
            () = std::future::pending() => {}
        }
    }

    /// Publishes and gathers over one connection, until no call is left after a stop.
    async fn converse(&mut self, line: &mut Line, reconnect: &mut Reconnect) -> Result<(), AmqpError> {
        let Line { session, channel, responses, reply_to } = line;
        let (lost, taken) = (session.lost(), session.delivery_tracker());
        tokio::pin!(lost);
        let mut sending = FuturesUnordered::new();
        loop {
            while sending.len() < self.publication.window {
                let Some((id, message)) = self.desk.next_to_send() else { break };
                sending.push(publish(channel, reply_to, self.publication.topology, id, message));
            }
            self.count();
            if self.ended && self.desk.is_empty() {
                return Ok(());
            }
            tokio::select! {
                biased;
                error = &mut lost => return Err(error),
                Some(sent) = sending.next(), if !sending.is_empty() => self.confirmed(sent?, &taken),
                response = responses.next() => match response {
                    Some(Ok(first)) => {
                        self.gather(first, channel, responses, &taken).await?;
                        reconnect.reset_backoff();
                    }
                    Some(Err(error)) => return Err(AmqpError::Lost(error.to_string())),
                    None => return Err(AmqpError::Lost("the queue for responses is gone".to_owned())),
                },
                () = self.tend() => {}
            }
        }
    }

    fn confirmed(&mut self, Sent { id, confirmation }: Sent, taken: &DeliveryTracker) {
        self.metrics.published.add(1);
        let accepted = confirmation.is_ack();
        // A returned message tells itself whose it is: it may come with the confirm of another one.
        if let Some(returned) = confirmation.take_message() {
            let returned = returned.delivery;
            taken.record_read(returned.data.len());
            let id = returned.properties.correlation_id().as_ref().map_or("", |id| id.as_str());
            self.metrics.unroutable.add(1);
            self.desk.unroutable(id, returned.routing_key.as_str(), &returned.data, Instant::now());
        } else if !accepted {
            self.desk.refused(&id);
        }
    }

    /// Counts `first` and the responses behind it, then acknowledges them together: they are all of one consumer, and read
    /// in order.
    async fn gather(
        &mut self,
        first: Delivery,
        channel: &Channel,
        more: &mut Consumer,
        taken: &DeliveryTracker,
    ) -> Result<(), AmqpError> {
        let (mut response, mut last) = (first, None);
        loop {
            self.metrics.responses.add(1);
            taken.record_read(response.data.len());
            let id = response.properties.correlation_id().as_ref().map_or("", |id| id.as_str());
            match wire::decode_ack(&response.data) {
                Ok(stored) => self.desk.respond(id, stored, Instant::now()),
                Err(error) => tracing::warn!(
                    broker = self.broker.endpoint(),
                    correlation_id = sanitize(id),
                    reason = sanitize(error.to_string()),
                    "a response is passed over"
                ),
            }
            last = last.max(Some(response.delivery_tag));
            match more.next().now_or_never().flatten() {
                Some(Ok(next)) => response = next,
                Some(Err(error)) => return Err(AmqpError::Lost(error.to_string())),
                None => break,
            }
        }
        let Some(tag) = last else { return Ok(()) };
        with_timeout("acknowledge responses", channel.basic_ack(tag, BasicAckOptions { multiple: true }))
            .await
    }

    fn count(&self) {
        self.metrics.calls_open.set(self.desk.calls() as u64);
        self.metrics.bytes_in_flight.set(self.desk.bytes() as u64);
    }
}

metrics! {
    /// Metrics of the publisher.
    struct PublisherMetrics {
        /// Calls of the client.
        calls: counter("calls"),
        /// Messages published for callers.
        published: counter("messages"),
        /// Responses, sent by the server or received by the client.
        responses: counter("messages"),
        /// Messages that no queue took.
        unroutable: counter("messages"),
        /// Calls that had no response in time.
        timed_out: counter("calls"),
        /// Calls sent again as a whole because the connection was lost.
        resent: counter("calls"),
        /// Calls under way.
        calls_open: gauge("calls") as "open",
        /// Bodies of the calls under way.
        bytes_in_flight: gauge("bytes") as "in_flight",
    }
}
