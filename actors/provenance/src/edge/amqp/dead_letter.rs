//! Where what can never be stored goes: nothing is thrown away, and nothing is tried for ever.

use bytes::Bytes;
use lapin::{
    BasicProperties, Channel, ExchangeKind,
    options::{
        BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
        QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};
use orchestrator_edge::amqp::{AmqpError, Session, with_timeout};
use orchestrator_supervise::sanitize;

/// The durable fanout exchange, and the durable queue behind it, that get what can never be stored. A message there has the
/// body of the request with only the items at fault, or the whole body if it cannot be read, the request's correlation id,
/// and the headers `x-reason`, `x-exchange` and `x-routing-key`: published again with these, it is tried again.
pub const DEAD_LETTER: &str = "orchestrator.provenance.dead_letter";

/// A header longer than this is cut: one frame holds all of them.
const REASON_BYTES_MAX: usize = 2000;

const PERSISTENT: u8 = 2;

/// Items of one request that can never be stored.
#[derive(Debug)]
pub(super) struct RefusedItems {
    pub(super) body: Bytes,
    pub(super) reason: String,
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) correlation_id: Option<ShortString>,
    /// Sender, for people to read.
    pub(super) sender: String,
}

/// The channel that dead letters take; each is confirmed.
#[derive(Debug)]
pub(super) struct DeadLetterChannel {
    channel: Channel,
}

impl DeadLetterChannel {
    /// Declares exchange and queue, and asks for confirms.
    pub(super) async fn open(session: &Session) -> Result<Self, AmqpError> {
        let channel = session.channel().await?;
        let exchange = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let kind = ExchangeKind::Fanout;
        let declare = channel.exchange_declare(DEAD_LETTER.into(), kind, exchange, FieldTable::default());
        with_timeout(&format!("declare the exchange {DEAD_LETTER}"), declare).await?;
        let queue = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let declare = channel.queue_declare(DEAD_LETTER.into(), queue, FieldTable::default());
        with_timeout(&format!("declare the queue {DEAD_LETTER}"), declare).await?;
        let bind = channel.queue_bind(
            DEAD_LETTER.into(),
            DEAD_LETTER.into(),
            "".into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        with_timeout(&format!("bind the queue {DEAD_LETTER}"), bind).await?;
        with_timeout("ask for confirms", channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(Self { channel })
    }

    /// Publishes `items`; returns when the broker has it on disk.
    ///
    /// # Errors
    /// The broker does not say so: the request must not be acknowledged.
    pub(super) async fn publish(&self, items: RefusedItems) -> Result<(), AmqpError> {
        tracing::warn!(
            exchange = sanitize(items.exchange.as_str()),
            routing_key = sanitize(items.routing_key.as_str()),
            sender = items.sender,
            reason = sanitize(&items.reason),
            "rows that can never be stored become a dead letter"
        );
        let mut reason = items.reason;
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        let mut headers = FieldTable::default();
        let text = |text: &str| AMQPValue::LongString(text.into());
        headers.insert("x-reason".into(), text(&reason));
        headers.insert("x-exchange".into(), text(items.exchange.as_str()));
        headers.insert("x-routing-key".into(), text(items.routing_key.as_str()));
        let mut properties = BasicProperties::default()
            .with_content_type("application/msgpack".into())
            .with_delivery_mode(PERSISTENT)
            .with_headers(headers);
        if let Some(id) = items.correlation_id {
            properties = properties.with_correlation_id(id);
        }
        // Mandatory: an exchange whose queue somebody deleted would confirm what it throws away.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let publish = async {
            let publish =
                self.channel.basic_publish(DEAD_LETTER.into(), "".into(), options, &items.body, properties);
            publish.await?.await
        };
        let confirmation = with_timeout("publish a dead letter", publish).await?;
        if confirmation.is_ack() && confirmation.take_message().is_none() {
            return Ok(());
        }
        let reason = format!("the broker does not take it: see the queue {DEAD_LETTER}");
        Err(AmqpError::Request { what: "publish a dead letter".to_owned(), reason })
    }
}
