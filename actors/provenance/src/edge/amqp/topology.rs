//! Types of exchanges and queues, and their flags (CONTRACT PP01 to PP03).

use lapin::{
    options::{ExchangeDeclareOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use serde::{Deserialize, Serialize};

/// Type of exchanges and queues.
///
/// All servers of a virtual host must use the same. The names do not differ, and the broker answers
/// a declaration with other flags with 406 PRECONDITION_FAILED. To change it, stop them all and
/// delete the exchanges and queues, or use another virtual host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// The original's declarations: exchanges and queues end with the broker. The original's
    /// servers and clients can use the same virtual host.
    #[default]
    Transient,
    /// The original's exchanges, and durable classic queues: requests survive a restart of the
    /// broker if they are persistent. The original's clients can use the same virtual host, its
    /// servers cannot.
    Durable,
    /// Durable exchanges and quorum queues: requests survive a restart of the broker if they are
    /// persistent. The original cannot use the same virtual host.
    Quorum,
}

impl Topology {
    pub(super) fn exchange(self) -> ExchangeDeclareOptions {
        ExchangeDeclareOptions { durable: self == Self::Quorum, ..ExchangeDeclareOptions::default() }
    }
}

/// Flags and arguments of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueKind {
    Transient,
    /// Durable classic queue.
    Durable,
    /// Quorum queue with the highest delivery limit: since RabbitMQ 4.0 the broker would delete a
    /// message at its 21st delivery.
    Quorum,
    /// Quorum queue of an earlier version, with the broker's own delivery limit.
    OldQuorum,
}

impl QueueKind {
    pub(super) fn declaration(self) -> (QueueDeclareOptions, FieldTable) {
        let mut arguments = FieldTable::default();
        let kind = match self {
            Self::Transient => None,
            // Otherwise the virtual host's default type applies.
            Self::Durable => Some("classic"),
            Self::Quorum | Self::OldQuorum => Some("quorum"),
        };
        if let Some(kind) = kind {
            arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
        }
        if self == Self::Quorum {
            // Before 4.0, -1 means no delivery at all.
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(i32::MAX));
        }
        (QueueDeclareOptions { durable: kind.is_some(), ..QueueDeclareOptions::default() }, arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transient_topology_has_the_flags_of_the_contract() {
        let exchange = Topology::Transient.exchange();
        assert_eq!(exchange, ExchangeDeclareOptions::default());
        assert!(!exchange.passive && !exchange.durable && !exchange.auto_delete && !exchange.internal);
        let (queue, arguments) = QueueKind::Transient.declaration();
        assert!(!queue.passive && !queue.durable && !queue.exclusive && !queue.auto_delete && !queue.nowait);
        assert!(arguments.inner().is_empty());
    }
}
