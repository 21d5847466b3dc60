//! The channel of one worker: from delivery to acknowledgement and response.
//!
//! All that belongs to the channel lives in one value, and ends with it: a tag of an old channel, acknowledged on a new
//! one, would acknowledge another message.

use std::{
    collections::BTreeMap,
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
use orchestrator_edge::amqp::{AmqpError, Session, with_timeout};
use orchestrator_supervise::{Pending, StopToken, reply, sanitize};
use tokio::time::sleep;

use super::{
    consumer_context::ConsumerContext, dead_letter::RefusedItems, ledger::Ledger, topology::declare_worker,
};
use crate::{
    messages::{Request, Settled},
    method::Method,
    policy::{Worker, binding_key, methods},
    row::Rows,
    wire::{self, Decoded, Malformed, Positions},
};

/// A request that the worker has no place for is offered again when another one is settled, or after so long: what fills
/// its mailbox may be requests of an earlier connection.
const OFFER_AGAIN: Duration = Duration::from_millis(50);

/// How many dead letters of one channel await their confirm at a time.
const DEAD_LETTERS_MAX: usize = 32;

/// A worker's channel, consuming.
pub(super) struct WorkerChannel {
    worker: Worker,
    channel: Channel,
    tags: Vec<ShortString>,
    deliveries: SelectAll<BoxStream<'static, Arrival>>,
    in_hand: FuturesUnordered<Waiting>,
    /// The worker had no place for it. Nothing more is taken until it has.
    held: Option<Request>,
    ledger: Ledger,
    acknowledged: bool,
}

/// A delivery of a method's queue, or why there will be no more.
type Arrival = (Method, Result<Delivery, String>);

/// A delivery that was taken and is not acknowledged.
#[derive(Debug)]
struct InHand {
    tag: u64,
    body: Bytes,
    positions: Positions,
    malformed: Vec<Malformed>,
    /// Why the body as a whole is none.
    unreadable: Option<String>,
    exchange: ShortString,
    routing_key: ShortString,
    properties: BasicProperties,
}

/// Gives the delivery back with what became of it; without, when its worker ended before it was done.
struct Waiting {
    in_hand: Option<InHand>,
    reply: Pending<Settled>,
}

impl Future for Waiting {
    type Output = (InHand, Option<Settled>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let settled = ready!(self.reply.poll_unpin(cx)).ok();
        Poll::Ready((self.in_hand.take().expect("polled once after it was ready"), settled))
    }
}

impl WorkerChannel {
    /// Opens the channel, declares what the worker owns, and consumes each of its queues.
    pub(super) async fn open(
        session: &Session,
        context: &ConsumerContext,
        worker: Worker,
    ) -> Result<Self, AmqpError> {
        let channel = session.channel().await?;
        declare_worker(&channel, context.topology, worker).await?;
        // Not global: for each consumer of its own.
        let qos = channel.basic_qos(context.prefetch, BasicQosOptions { global: false });
        with_timeout("limit the messages in hand", qos).await?;
        let (mut tags, mut deliveries) = (Vec::new(), SelectAll::new());
        for &method in methods(worker.exchange) {
            let queue = binding_key(method, worker.range);
            let tag = ShortString::from(format!("orchestrator.{queue}"));
            let options = BasicConsumeOptions::default();
            let consume =
                channel.basic_consume(queue.as_str().into(), tag.clone(), options, FieldTable::default());
            let consumer = with_timeout(&format!("consume the queue {queue}"), consume).await?;
            let arrivals =
                consumer.map(move |delivery| (method, delivery.map_err(|error| error.to_string())));
            let ended = "it was deleted, or its consumer was cancelled".to_owned();
            let end = stream::once(std::future::ready((method, Err(ended))));
            deliveries.push(arrivals.chain(end).boxed());
            tags.push(tag);
            context.presence.came(&queue);
        }
        let (in_hand, ledger) = (FuturesUnordered::new(), Ledger::default());
        Ok(Self { worker, channel, tags, deliveries, in_hand, held: None, ledger, acknowledged: false })
    }

    /// Takes what is delivered and settles it. After `stop`, takes no more and ends when all that is in hand is settled.
    pub(super) async fn run(&mut self, context: &ConsumerContext, stop: &StopToken) -> Result<(), AmqpError> {
        let mut stopping = false;
        while !(stopping && self.in_hand.is_empty()) {
            let paused = context.vitals.is_paused();
            let takes = !stopping && !paused && self.held.is_none();
            tokio::select! {
                biased;
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.leave().await?;
                }
                Some(first) = self.in_hand.next(), if !self.in_hand.is_empty() => self.settle(first, context).await?,
                () = sleep(OFFER_AGAIN), if self.held.is_some() => {}
                () = context.vitals.wait_resumed(), if paused && !stopping => {}
                () = context.vitals.wait_paused(), if takes => {}
                Some(arrival) = self.deliveries.next(), if takes => self.take(arrival, context)?,
            }
            if !context.vitals.is_paused() {
                self.offer(context);
            }
        }
        // Its answer says that the broker has read all responses: without, a slow one may get the acknowledgements only.
        with_timeout("close a channel", self.channel.close(200, "stopped".into())).await
    }

    /// Tells whether a message was acknowledged.
    pub(super) fn has_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Ends the consumers. What the broker sent and nobody took yet goes back when the channel closes.
    async fn leave(&mut self) -> Result<(), AmqpError> {
        // Without an answer, its delivery goes back, too.
        self.held = None;
        let cancel =
            self.tags.iter().map(|tag| self.channel.basic_cancel(tag.clone(), BasicCancelOptions::default()));
        with_timeout("cancel consumers", try_join_all(cancel)).await?;
        self.deliveries.clear();
        Ok(())
    }

    fn take(&mut self, (method, delivery): Arrival, context: &ConsumerContext) -> Result<(), AmqpError> {
        let delivery = delivery.map_err(|reason| {
            let what = format!("consume the queue {}", binding_key(method, self.worker.range));
            AmqpError::Request { what, reason }
        })?;
        context.metrics.deliveries.add(1);
        context.taken.record_read(delivery.data.len());
        if self.in_hand.len() >= self.tags.len() * usize::from(context.prefetch) {
            let reason =
                format!("the broker sends more than the {} messages that were asked for", context.prefetch);
            return Err(AmqpError::Lost(reason)).inspect_err(|error| context.give_up(error.clone()));
        }
        let body = Bytes::from(delivery.data);
        let (decoded, unreadable) = match wire::decode(method, &body) {
            Ok(decoded) => (decoded, None),
            Err(error) => {
                let (rows, positions, malformed) = (Rows::none(method), Positions::default(), Vec::new());
                (Decoded { rows, positions, malformed }, Some(error.to_string()))
            }
        };
        let in_hand = InHand {
            tag: delivery.delivery_tag,
            body,
            positions: decoded.positions,
            malformed: decoded.malformed,
            unreadable,
            exchange: delivery.exchange,
            routing_key: delivery.routing_key,
            properties: delivery.properties,
        };
        let (reply, settled) = reply();
        self.in_hand.push(Waiting { in_hand: Some(in_hand), reply: settled });
        if decoded.rows.is_empty() {
            // Nothing to store: the worker has no part in it. The receiver is in hand, so it is heard.
            let _ = reply.send(Settled::default());
        } else {
            context.metrics.rows.add(decoded.rows.len() as u64);
            self.held = Some(Request { rows: decoded.rows, reply });
        }
        Ok(())
    }

    /// Hands the worker what is held for it.
    fn offer(&mut self, context: &ConsumerContext) {
        if let Some(request) = self.held.take() {
            self.held = (context.sink)(self.worker, request).err();
        }
    }

    /// Settles `first` and all others that are done by now. The order is the promise: dead letters, acknowledgements,
    /// responses.
    async fn settle(
        &mut self,
        first: (InHand, Option<Settled>),
        context: &ConsumerContext,
    ) -> Result<(), AmqpError> {
        let _work = context.vitals.begin_work("settle");
        let (mut done, mut lost) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some((in_hand, settled)) = next {
            match settled {
                Some(settled) => done.push((in_hand, settled)),
                None => lost.push(in_hand.tag),
            }
            next = self.in_hand.next().now_or_never().flatten();
        }
        // All workers share the channel that dead letters take: it needs a new connection.
        self.bury(&done, context).await.inspect_err(|error| context.give_up(error.clone()))?;
        done.iter().for_each(|(in_hand, _)| in_hand.tell_of_trouble(context));
        self.give_back(&lost, context).await?;
        self.acknowledge(&done, context).await?;
        self.respond(&done, context).await
    }

    async fn bury(&self, done: &[(InHand, Settled)], context: &ConsumerContext) -> Result<(), AmqpError> {
        let letters = done.iter().flat_map(|(in_hand, settled)| in_hand.dead_letters(settled));
        stream::iter(letters)
            .map(|letter| context.dead_letters.publish(letter))
            .buffer_unordered(DEAD_LETTERS_MAX)
            .try_for_each(|()| {
                context.metrics.dead_lettered.add(1);
                std::future::ready(Ok(()))
            })
            .await
    }

    async fn give_back(&mut self, lost: &[u64], context: &ConsumerContext) -> Result<(), AmqpError> {
        let options = BasicNackOptions { multiple: false, requeue: true };
        let nacks = lost.iter().map(|&tag| self.channel.basic_nack(tag, options));
        with_timeout("give messages back", try_join_all(nacks)).await?;
        lost.iter().for_each(|&tag| self.ledger.give_back(tag));
        context.metrics.redelivered.add(lost.len() as u64);
        Ok(())
    }

    async fn acknowledge(
        &mut self,
        done: &[(InHand, Settled)],
        context: &ConsumerContext,
    ) -> Result<(), AmqpError> {
        let tags: Vec<u64> = done.iter().map(|(in_hand, _)| in_hand.tag).collect();
        let acks = self.ledger.settle(&tags);
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

    async fn respond(&self, done: &[(InHand, Settled)], context: &ConsumerContext) -> Result<(), AmqpError> {
        let responses =
            done.iter().filter(|(_, settled)| settled.stored > 0).filter_map(|(in_hand, settled)| {
                let request = &in_hand.properties;
                let reply_to = request.reply_to().clone().filter(|reply_to| !reply_to.as_str().is_empty())?;
                let mut properties =
                    BasicProperties::default().with_content_type("application/msgpack".into());
                if let Some(id) = request.correlation_id() {
                    properties = properties.with_correlation_id(id.clone());
                }
                let body = wire::encode_ack(settled.stored.into());
                Some(async move {
                    let options = BasicPublishOptions::default();
                    let sent =
                        self.channel.basic_publish("".into(), reply_to, options, &body, properties).await?;
                    // No confirm was asked for; but one that is dropped unread is kept for ever.
                    sent.await
                })
            });
        let sent = with_timeout("send responses", try_join_all(responses)).await?;
        context.metrics.responses.add(sent.len() as u64);
        Ok(())
    }
}

impl InHand {
    /// What was found wrong with it here is counted and shown. What the store refuses is its worker's to tell.
    fn tell_of_trouble(&self, context: &ConsumerContext) {
        let (reason, what) = match (&self.unreadable, self.malformed.last()) {
            (Some(reason), _) => {
                context.metrics.unreadable.add(1);
                (reason.clone(), "message")
            }
            (None, Some(last)) => {
                context.metrics.malformed.add(self.malformed.len() as u64);
                (last.reason.to_string(), "row")
            }
            (None, None) => return,
        };
        // Escaped by the note.
        context.vitals.note(format!("{what} of {} refused: {reason}", self.routing_key));
    }

    /// What of the message can never be stored: a letter for each reason.
    fn dead_letters(&self, settled: &Settled) -> Vec<RefusedItems> {
        let letter = |body: Bytes, reason: &str| RefusedItems {
            body,
            reason: reason.to_owned(),
            exchange: self.exchange.clone(),
            routing_key: self.routing_key.clone(),
            correlation_id: self.properties.correlation_id().clone(),
            sender: sender(&self.properties),
        };
        if let Some(reason) = &self.unreadable {
            return vec![letter(self.body.clone(), reason)];
        }
        let mut at_fault: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for item in &self.malformed {
            at_fault.entry(item.reason.to_string()).or_default().push(item.position);
        }
        for refusal in &settled.refused {
            at_fault.entry(refusal.reason.clone()).or_default().push(self.positions.of(refusal.index));
        }
        let letters = at_fault.into_iter().map(|(reason, positions)| {
            // It was read before; and better too much among the dead letters than too little.
            let body = wire::excerpt(&self.body, &positions).unwrap_or_else(|_| self.body.clone());
            letter(body, &reason)
        });
        letters.collect()
    }
}

/// Sender of a message, as far as its properties name one.
fn sender(properties: &BasicProperties) -> String {
    let told = [
        ("app_id", properties.app_id()),
        ("user_id", properties.user_id()),
        ("message_id", properties.message_id()),
        ("reply_to", properties.reply_to()),
    ];
    let told: Vec<String> =
        told.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))).collect();
    if told.is_empty() { "unknown".to_owned() } else { sanitize(told.join(", ")) }
}
