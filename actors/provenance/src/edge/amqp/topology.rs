//! Exchanges, queues and bindings (CONTRACT PP01 to PP04).

use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use orchestrator_edge::{PeerError, amqp::with_timeout};
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

    pub(super) fn queue(self) -> (QueueDeclareOptions, FieldTable) {
        let mut arguments = FieldTable::default();
        if self == Self::Quorum {
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        }
        (QueueDeclareOptions { durable: self == Self::Quorum, ..QueueDeclareOptions::default() }, arguments)
    }
}

/// Declares the exchange of `worker`, its queues and their bindings, in the original's order.
/// Repeating it changes nothing.
///
/// # Errors
/// The broker refuses, for example because the queue exists with another [`Topology`].
pub(super) async fn declare_worker(
    channel: &Channel,
    topology: Topology,
    worker: Worker,
) -> Result<(), PeerError> {
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
        let (options, arguments) = topology.queue();
        with_timeout(
            &what(&format!("declare the queue {name}")),
            channel.queue_declare(name.as_str().into(), options, arguments),
        )
        .await?;
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transient_topology_has_the_flags_of_the_contract() {
        let exchange = Topology::Transient.exchange();
        assert_eq!(exchange, ExchangeDeclareOptions::default());
        assert!(!exchange.passive && !exchange.durable && !exchange.auto_delete && !exchange.internal);
        let (queue, arguments) = Topology::Transient.queue();
        assert!(!queue.passive && !queue.durable && !queue.exclusive && !queue.auto_delete && !queue.nowait);
        assert!(arguments.inner().is_empty());
    }
}
