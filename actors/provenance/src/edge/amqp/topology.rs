//! Exchanges, queues and bindings (CONTRACT PP01 to PP04): tables, and the calls that declare them.

use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use orchestrator_edge::amqp::{AmqpError, with_timeout};
use serde::{Deserialize, Serialize};

use crate::policy::{Worker, binding_key, methods};

/// What the exchanges and queues are made of.
///
/// All clients and servers of one virtual host have the same: names are the same in both, and a broker answers a second
/// declaration with other flags with 406 PRECONDITION_FAILED. To change it, stop all of them and delete exchanges and
/// queues, or move to another virtual host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// As the original declares them: neither exchanges nor queues outlive the broker, and the original's servers and
    /// clients may stand beside ours.
    #[default]
    Transient,
    /// Durable exchanges, and quorum queues: requests outlive the broker, if their clients mark them as persistent, as ours
    /// do. No server or client of the original can use this virtual host.
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

/// Declares the exchange of `worker`, its queues and their bindings, in the original's order. Doing it again changes nothing.
///
/// # Errors
/// The broker refuses, say because a server of another [`Topology`] was there first.
pub async fn declare_worker(channel: &Channel, topology: Topology, worker: Worker) -> Result<(), AmqpError> {
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
