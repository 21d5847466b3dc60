//! Exchanges, queues and bindings (CONTRACT PP01 to PP04).

use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use orchestrator_edge::{
    PeerError,
    amqp::{unless_different, with_timeout},
};
use serde::{Deserialize, Serialize};

use crate::policy::{Worker, binding_key, methods};

/// Type of exchanges and queues.
///
/// All clients and servers of a virtual host must use the same. The names do not differ, and the
/// broker answers a declaration with other flags with 406 PRECONDITION_FAILED. To change it, stop
/// them all and delete the exchanges and queues, or use another virtual host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// The original's declarations: exchanges and queues end with the broker. The original's
    /// servers and clients can use the same virtual host.
    #[default]
    Transient,
    /// Durable exchanges and quorum queues: requests survive a restart of the broker if they are
    /// persistent. The original cannot use the same virtual host.
    Quorum,
}

impl Topology {
    pub(super) fn exchange(self) -> ExchangeDeclareOptions {
        ExchangeDeclareOptions { durable: self == Self::Quorum, ..ExchangeDeclareOptions::default() }
    }

    /// Flags and arguments of a queue. Those of a quorum queue include the highest delivery limit: since RabbitMQ 4.0 the broker
    /// would delete a message at its 21st delivery. A queue that an earlier version declared has no such argument.
    pub(super) fn queue(self, delivery_limit: DeliveryLimit) -> (QueueDeclareOptions, FieldTable) {
        let mut arguments = FieldTable::default();
        if self == Self::Quorum {
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
            if delivery_limit == DeliveryLimit::Highest {
                // Before 4.0, -1 means no delivery at all.
                arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(i32::MAX));
            }
        }
        (QueueDeclareOptions { durable: self == Self::Quorum, ..QueueDeclareOptions::default() }, arguments)
    }
}

/// Delivery limit that a quorum queue is declared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryLimit {
    Highest,
    /// The broker's own.
    Default,
}

/// Declares the exchange of `worker`, its queues and their bindings, in the original's order.
/// Repeating it changes nothing.
///
/// Queues in `unlimited` are declared without a delivery limit. Returns the name of a further quorum queue that exists without one; the
/// channel is then closed.
///
/// # Errors
/// The broker refuses, for example because the queue exists with another [`Topology`].
pub(super) async fn declare_worker(
    channel: &Channel,
    topology: Topology,
    worker: Worker,
    unlimited: &[String],
) -> Result<Option<String>, PeerError> {
    let exchange = worker.exchange.name();
    let what = |what: &str| format!("{what} (if it exists with other flags: see the setting topology)");
    with_timeout(
        &what(&format!("declare the exchange {exchange}")),
        channel.exchange_declare(
            exchange.into(),
            ExchangeKind::Direct,
            topology.exchange(),
            FieldTable::default(),
        ),
    )
    .await?;
    let names = || methods(worker.exchange).iter().map(|&method| binding_key(method, worker.range));
    for name in names() {
        let is_limited = topology == Topology::Quorum && !unlimited.contains(&name);
        let limit = if is_limited { DeliveryLimit::Highest } else { DeliveryLimit::Default };
        let (options, arguments) = topology.queue(limit);
        let declare = channel.queue_declare(name.as_str().into(), options, arguments);
        let what = what(&format!("declare the queue {name}"));
        if !is_limited {
            with_timeout(&what, declare).await?;
        } else if unless_different(&what, declare).await?.is_none() {
            return Ok(Some(name));
        }
    }
    for name in names() {
        let (queue, key) = (name.as_str().into(), name.as_str().into());
        let bind = channel.queue_bind(
            queue,
            exchange.into(),
            key,
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        with_timeout(&format!("bind the queue {name}"), bind).await?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transient_topology_has_the_flags_of_the_contract() {
        let exchange = Topology::Transient.exchange();
        assert_eq!(exchange, ExchangeDeclareOptions::default());
        assert!(!exchange.passive && !exchange.durable && !exchange.auto_delete && !exchange.internal);
        let (queue, arguments) = Topology::Transient.queue(DeliveryLimit::Highest);
        assert!(!queue.passive && !queue.durable && !queue.exclusive && !queue.auto_delete && !queue.nowait);
        assert!(arguments.inner().is_empty());
    }
}
