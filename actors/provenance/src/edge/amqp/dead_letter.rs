//! Publishing of permanently refused items as dead letters.

use bytes::Bytes;
use lapin::{
    BasicProperties, Channel, ExchangeKind,
    options::{
        BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
        QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};
use orchestrator_edge::{
    PeerError,
    amqp::{Session, refused, with_timeout},
};
use orchestrator_text::sanitize;

/// Durable fanout exchange and durable queue of permanently refused items (CONTRACT PP20 to PP22).
/// The body has only the refused items, or the whole request if it is unreadable. The headers are
/// `x-reason`, `x-exchange` and `x-routing-key`. Published to that exchange and key, the items are
/// tried again.
pub(crate) const DEAD_LETTER: &str = "orchestrator.provenance.dead_letter";

/// Maximum length of the header `x-reason`, in bytes; all headers must fit in one frame.
const REASON_BYTES_MAX: usize = 2000;

const PERSISTENT: u8 = 2;

/// Permanently refused items of one request.
#[derive(Debug)]
pub(super) struct RefusedItems {
    pub(super) body: Bytes,
    pub(super) reason: String,
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) correlation_id: Option<ShortString>,
    /// Sender of the request, for the log.
    pub(super) sender: String,
}

/// Channel of the dead letters, with publisher confirms.
#[derive(Debug)]
pub(super) struct DeadLetterChannel {
    channel: Channel,
}

impl DeadLetterChannel {
    /// Declares the exchange and the queue, and selects publisher confirms.
    pub(super) async fn open(session: &Session) -> Result<Self, PeerError> {
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
        with_timeout("select publisher confirms", channel.confirm_select(ConfirmSelectOptions::default()))
            .await?;
        Ok(Self { channel })
    }

    /// Publishes `items`; returns once the broker has them on disk.
    ///
    /// # Errors
    /// The broker did not confirm: the request must not be acknowledged.
    pub(super) async fn publish(&self, items: RefusedItems) -> Result<(), PeerError> {
        tracing::warn!(
            exchange = sanitize(items.exchange.as_str()),
            routing_key = sanitize(items.routing_key.as_str()),
            sender = items.sender,
            reason = sanitize(&items.reason),
            "refused rows become a dead letter"
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
        // Mandatory: without its queue the exchange would confirm and drop the message.
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
        Err(refused("publish a dead letter", reason))
    }
}
