//! AMQP channel of one worker, from delivery to acknowledgement and response.
//!
//! All state of a channel ends with it. A delivery tag of a closed channel would acknowledge another message
//! on a new one.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    FutureExt, StreamExt, TryStreamExt,
    future::try_join_all,
    stream::{self, BoxStream, FuturesUnordered, SelectAll},
};
use lapin::{
    BasicProperties, Channel,
    message::Delivery,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions,
        BasicQosOptions,
    },
    types::{FieldTable, ShortString},
};
use orchestrator_edge::{
    PeerError,
    amqp::{Deliveries, Session, connection_lost, refused, with_timeout},
};
use orchestrator_supervise::{Pending, StopToken, reply};
use tokio::{sync::Semaphore, time::sleep};

use super::{
    consumer_context::ConsumerContext, delivery_tags::DeliveryTags, queues::Declared, topology::Topology,
    unacked_message::UnackedMessage,
};
use crate::{
    messages::{Outcome, Request},
    method::Method,
    policy::{Worker, binding_key, methods},
    row::Rows,
    wire::{self, Decoded, Positions},
};

/// Interval after which a request is offered again to a worker with a full mailbox. Requests of an
/// earlier connection may fill it.
const OFFER_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of unconfirmed dead letters of one channel.
const DEAD_LETTERS_MAX: usize = 32;

/// Channel of a worker, with its consumers.
pub(super) struct WorkerChannel {
    worker: Worker,
    channel: Channel,
    tags: Vec<ShortString>,
    deliveries: SelectAll<BoxStream<'static, Incoming>>,
    unacked: FuturesUnordered<PendingOutcome>,
    /// Request that the full mailbox of the worker did not take. No further delivery is taken until
    /// it fits.
    held: Option<Request>,
    delivery_tags: DeliveryTags,
    acknowledged: bool,
}

/// Delivery of a method's queue, or the reason why no more follow.
type Incoming = (Method, Result<Delivery, String>);

/// Future of a delivery and its outcome. The outcome is None if the worker ended first.
struct PendingOutcome {
    unacked: Option<UnackedMessage>,
    reply: Pending<Outcome>,
}

impl Future for PendingOutcome {
    type Output = (UnackedMessage, Option<Outcome>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let settled = ready!(self.reply.poll_unpin(cx)).ok();
        Poll::Ready((self.unacked.take().expect("polled once after it was ready"), settled))
    }
}

impl WorkerChannel {
    /// Opens the channel and declares the worker's exchange and queues. Once the store answers, consumes each
    /// queue.
    pub(super) async fn open(
        session: &Session,
        context: &ConsumerContext,
        opening: &Semaphore,
        worker: Worker,
    ) -> Result<Self, PeerError> {
        // The semaphore is never closed.
        let turn = opening.acquire().await;
        let Declared { channel, differs } = context.queues.declare(session, worker).await?;
        drop(turn);
        if context.queues.topology() == Topology::Quorum {
            if differs {
                context.redeliveries.has_default_limit(&context.vitals);
            }
            (context.store_answers)().await;
        }
        let _turn = opening.acquire().await;
        // Not global: the limit applies to each consumer by itself.
        let qos = channel.basic_qos(context.prefetch, BasicQosOptions { global: false });
        with_timeout("set the prefetch", qos).await?;
        let (mut tags, mut deliveries) = (Vec::new(), SelectAll::new());
        for &method in methods(worker.exchange) {
            let queue = binding_key(method, worker.range);
            let tag = ShortString::from(format!("orchestrator.{queue}"));
            let options = BasicConsumeOptions::default();
            let consume =
                channel.basic_consume(queue.as_str().into(), tag.clone(), options, FieldTable::default());
            let consumer = with_timeout(&format!("consume the queue {queue}"), consume).await?;
            let incoming = Deliveries::new(consumer).map(move |delivery| (method, delivery));
            let ended = "it was deleted, or its consumer was cancelled, as RabbitMQ does if an acknowledgement takes too long".to_owned();
            let end = stream::once(std::future::ready((method, Err(ended))));
            deliveries.push(incoming.chain(end).boxed());
            tags.push(tag);
            context.readiness.consumer_started(method, worker.range);
        }
        let (unacked, delivery_tags) = (FuturesUnordered::new(), DeliveryTags::default());
        Ok(Self {
            worker,
            channel,
            tags,
            deliveries,
            unacked,
            held: None,
            delivery_tags,
            acknowledged: false,
        })
    }

    /// Takes deliveries and settles them. After `stop` it accepts no more, and returns once all are settled.
    pub(super) async fn run(&mut self, context: &ConsumerContext, stop: &StopToken) -> Result<(), PeerError> {
        let mut stopping = false;
        while !(stopping && self.unacked.is_empty()) {
            let paused = context.child.is_paused();
            let accepts = !stopping && !paused && self.held.is_none();
            tokio::select! {
                biased;
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.cancel_consumers().await?;
                }
                Some(first) = self.unacked.next(), if !self.unacked.is_empty() => self.settle(first, context).await?,
                () = sleep(OFFER_INTERVAL), if self.held.is_some() => {}
                () = context.child.wait_resumed(), if paused && !stopping => {}
                () = context.child.wait_paused(), if accepts => {}
                Some(incoming) = self.deliveries.next(), if accepts => self.accept(incoming, context)?,
            }
            if !context.child.is_paused() {
                self.offer(context);
            }
        }
        // The broker's answer confirms that it has read all responses. Without it a slow broker may
        // get the acknowledgements only.
        with_timeout("close a channel", self.channel.close(200, "stopped".into())).await
    }

    pub(super) fn has_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Cancels the consumers. Deliveries that were not taken return to the queue when the channel
    /// closes.
    async fn cancel_consumers(&mut self) -> Result<(), PeerError> {
        // Dropping the request drops its reply, so its delivery returns to the queue, too.
        self.held = None;
        let cancel =
            self.tags.iter().map(|tag| self.channel.basic_cancel(tag.clone(), BasicCancelOptions::default()));
        with_timeout("cancel consumers", try_join_all(cancel)).await?;
        self.deliveries.clear();
        Ok(())
    }

    fn accept(&mut self, (method, delivery): Incoming, context: &ConsumerContext) -> Result<(), PeerError> {
        let delivery = delivery.map_err(|reason| {
            let what = format!("consume the queue {}", binding_key(method, self.worker.range));
            refused(&what, reason)
        })?;
        context.metrics.deliveries.add(1);
        let held = context.taken.record_read(delivery.data.len());
        let often = context.redeliveries.delivered(&delivery, &context.vitals);
        if self.unacked.len() >= self.tags.len() * usize::from(context.prefetch) {
            let reason =
                format!("the broker sends more than the {} messages of its prefetch", context.prefetch);
            return Err(connection_lost(reason)).inspect_err(|error| context.close_connection(error.clone()));
        }
        let body = Bytes::from(delivery.data);
        let (decoded, unreadable) = match wire::decode(method, &body) {
            Ok(decoded) => (decoded, None),
            Err(error) => {
                let (rows, positions, malformed) = (Rows::none(method), Positions::default(), Vec::new());
                (Decoded { rows, positions, malformed }, Some(error.to_string()))
            }
        };
        let unacked = UnackedMessage {
            tag: delivery.delivery_tag,
            body,
            positions: decoded.positions,
            malformed: decoded.malformed,
            unreadable,
            exchange: delivery.exchange,
            routing_key: delivery.routing_key,
            properties: delivery.properties,
            _counted: (context.metrics.unacknowledged.hold(), held, often),
        };
        let (reply, settled) = reply();
        self.unacked.push(PendingOutcome { unacked: Some(unacked), reply: settled });
        if decoded.rows.is_empty() {
            // Without rows the worker is not involved. The receiver exists, so sending succeeds.
            let _ = reply.send(Outcome::default());
        } else {
            context.metrics.rows.add(decoded.rows.len() as u64);
            self.held = Some(Request { rows: decoded.rows, reply });
        }
        Ok(())
    }

    /// Offers the held request to the worker.
    fn offer(&mut self, context: &ConsumerContext) {
        if let Some(request) = self.held.take() {
            self.held = (context.sink)(self.worker, request).err();
        }
    }

    /// Settles `first` and all other finished deliveries, in the order of CONTRACT PO08: dead
    /// letters, acknowledgements, responses. A delivery is finished when each of its rows is committed or
    /// permanently refused. If its worker ended first, it returns to the queue.
    async fn settle(
        &mut self,
        first: (UnackedMessage, Option<Outcome>),
        context: &ConsumerContext,
    ) -> Result<(), PeerError> {
        let _work = context.vitals.begin_work("settle");
        let (mut done, mut lost) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some((unacked, settled)) = next {
            match settled {
                Some(settled) => done.push((unacked, settled)),
                None => lost.push(unacked.tag),
            }
            next = self.unacked.next().now_or_never().flatten();
        }
        // All workers share the dead letter channel, so its failure needs a new connection.
        self.publish_dead_letters(&done, context)
            .await
            .inspect_err(|error| context.close_connection(error.clone()))?;
        done.iter().for_each(|(unacked, settled)| unacked.report(settled.stored, context));
        self.reject(&lost, context).await?;
        self.acknowledge(&done, context).await?;
        self.respond(&done, context).await?;
        drop(done);
        context.redeliveries.settled(&context.vitals);
        Ok(())
    }

    async fn publish_dead_letters(
        &self,
        done: &[(UnackedMessage, Outcome)],
        context: &ConsumerContext,
    ) -> Result<(), PeerError> {
        let letters = done.iter().flat_map(|(unacked, settled)| unacked.dead_letters(settled));
        stream::iter(letters)
            .map(|letter| {
                let request = context.link.request();
                context.dead_letters.publish(letter).inspect(|_| drop(request))
            })
            .buffer_unordered(DEAD_LETTERS_MAX)
            .try_for_each(|()| {
                context.metrics.dead_lettered.add(1);
                std::future::ready(Ok(()))
            })
            .await
    }

    async fn reject(&mut self, lost: &[u64], context: &ConsumerContext) -> Result<(), PeerError> {
        let options = BasicNackOptions { multiple: false, requeue: true };
        let nacks = lost.iter().map(|&tag| self.channel.basic_nack(tag, options));
        with_timeout("return messages to the queue", try_join_all(nacks)).await?;
        lost.iter().for_each(|&tag| self.delivery_tags.reject(tag));
        context.metrics.redelivered.add(lost.len() as u64);
        Ok(())
    }

    async fn acknowledge(
        &mut self,
        done: &[(UnackedMessage, Outcome)],
        context: &ConsumerContext,
    ) -> Result<(), PeerError> {
        let tags: Vec<u64> = done.iter().map(|(unacked, _)| unacked.tag).collect();
        let acks = self.delivery_tags.settle(&tags);
        let acks = acks
            .iter()
            .map(|ack| self.channel.basic_ack(ack.tag, BasicAckOptions { multiple: ack.multiple }));
        with_timeout("acknowledge messages", try_join_all(acks)).await?;
        context.metrics.acked.add(tags.len() as u64);
        if !tags.is_empty() && !self.acknowledged {
            self.acknowledged = true;
            context.progress.notify_one();
        }
        Ok(())
    }

    async fn respond(
        &self,
        done: &[(UnackedMessage, Outcome)],
        context: &ConsumerContext,
    ) -> Result<(), PeerError> {
        let responses =
            done.iter().filter(|(_, settled)| settled.stored > 0).filter_map(|(unacked, settled)| {
                let request = &unacked.properties;
                let reply_to = request.reply_to().clone().filter(|reply_to| !reply_to.as_str().is_empty())?;
                let mut properties =
                    BasicProperties::default().with_content_type("application/msgpack".into());
                if let Some(id) = request.correlation_id() {
                    properties = properties.with_correlation_id(id.clone());
                }
                let body = wire::encode_ack(settled.stored);
                Some(async move {
                    let options = BasicPublishOptions::default();
                    let sent =
                        self.channel.basic_publish("".into(), reply_to, options, &body, properties).await?;
                    // lapin keeps a confirmation until it is read, even without publisher confirms.
                    sent.await
                })
            });
        let sent = with_timeout("send responses", try_join_all(responses)).await?;
        context.metrics.responses.add(sent.len() as u64);
        Ok(())
    }
}
