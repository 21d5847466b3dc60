//! Connection of a client: its publishing channel and the queue of its responses.

use lapin::{
    BasicProperties, Channel, Confirmation, ExchangeKind,
    options::{
        BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, QueueDeclareOptions,
    },
    types::{FieldTable, ShortString},
};
use orchestrator_edge::{
    PeerError,
    amqp::{Broker, Deliveries, Session, with_timeout},
};

use super::{call::Outgoing, topology::Topology};
use crate::method::Exchange;

const PERSISTENT: u8 = 2;

/// Client connection with its channel and its reply queue.
pub(super) struct ClientConnection {
    pub(super) session: Session,
    pub(super) channel: Channel,
    pub(super) responses: Deliveries,
    pub(super) reply_to: ShortString,
}

impl ClientConnection {
    /// Connects, declares the exchanges and consumes an exclusive reply queue with a prefetch of
    /// `prefetch`. Publishing to an undeclared exchange would close the channel.
    pub(super) async fn open(broker: Broker, topology: Topology, prefetch: u16) -> Result<Self, PeerError> {
        let session = broker.connect().await?;
        let (channel, responses, reply_to) =
            session.while_connected(Self::open_channel(&session, topology, prefetch)).await?;
        Ok(Self { session, channel, responses, reply_to })
    }

    async fn open_channel(
        session: &Session,
        topology: Topology,
        prefetch: u16,
    ) -> Result<(Channel, Deliveries, ShortString), PeerError> {
        let channel = session.channel().await?;
        for exchange in Exchange::ALL {
            let options = topology.exchange();
            let name = exchange.name().into();
            let declare =
                channel.exchange_declare(name, ExchangeKind::Direct, options, FieldTable::default());
            with_timeout(&format!("declare the exchange {}", exchange.name()), declare).await?;
        }
        let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let declare = channel.queue_declare("".into(), exclusive, FieldTable::default());
        let reply_to = with_timeout("declare a queue for responses", declare).await?.name().clone();
        let qos = channel.basic_qos(prefetch, BasicQosOptions { global: false });
        with_timeout("set the prefetch", qos).await?;
        let options = BasicConsumeOptions::default();
        let consume = channel.basic_consume(reply_to.clone(), "".into(), options, FieldTable::default());
        let responses = Deliveries::new(with_timeout("consume responses", consume).await?);
        with_timeout("select publisher confirms", channel.confirm_select(ConfirmSelectOptions::default()))
            .await?;
        Ok((channel, responses, reply_to))
    }
}

/// Message with its publisher confirm.
pub(super) struct ConfirmedMessage {
    pub(super) id: String,
    pub(super) confirmation: Confirmation,
}

/// Publishes one message and waits for its publisher confirm.
pub(super) fn publish(
    channel: &Channel,
    reply_to: &ShortString,
    topology: Topology,
    id: String,
    message: Outgoing,
) -> impl Future<Output = Result<ConfirmedMessage, PeerError>> + use<> {
    let mut properties = BasicProperties::default()
        .with_content_type("application/msgpack".into())
        .with_correlation_id(id.as_str().into())
        .with_reply_to(reply_to.clone());
    if topology != Topology::Transient {
        properties = properties.with_delivery_mode(PERSISTENT);
    }
    let channel = channel.clone();
    async move {
        let Outgoing { exchange, routing_key, body, .. } = message;
        let publish = async {
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let (exchange, key) = (exchange.name().into(), routing_key.as_str().into());
            channel.basic_publish(exchange, key, options, &body, properties).await?.await
        };
        let confirmation = with_timeout("publish a request", publish).await?;
        Ok(ConfirmedMessage { id, confirmation })
    }
}
