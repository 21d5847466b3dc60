//! One broker for all tests but those that stop it, a virtual host for each test, and an
//! independent publisher.

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind, options::*, types::FieldTable,
};
use orchestrator_edge::amqp::Broker;
use orchestrator_harness::Rabbit;
use orchestrator_observe::{LinkSnapshot, NodeSnapshot};
pub(crate) use orchestrator_supervise::testing::{TestTree, eventually};
use orchestrator_supervise::{Strategy, SupervisorSpec, Tree};

use crate::edge::notices::{Notices, child_spec};

pub(crate) fn rabbit() -> &'static Rabbit {
    Rabbit::shared()
}

/// Specification of a tree with the child alone.
pub(crate) fn at(url: &str) -> (Notices, SupervisorSpec) {
    with(Broker::new(url, "test").unwrap())
}

pub(crate) fn with(broker: Broker) -> (Notices, SupervisorSpec) {
    let (notices, child) = child_spec(broker);
    (notices, SupervisorSpec::new(Strategy::OneForOne).child(child))
}

/// Waits until notices are up, and returns their number.
pub(crate) async fn wait_until_up(notices: &mut Notices) -> u64 {
    let mut state = notices.mark_seen();
    while !state.is_up {
        state = notices.changed().await;
    }
    state.count
}

pub(crate) async fn wait_for_count(notices: &mut Notices, count: u64) {
    let mut state = notices.mark_seen();
    while state.count < count {
        state = notices.changed().await;
    }
    assert_eq!(state.count, count);
}

/// A publisher like the server: it declares the exchange with the same flags and publishes empty
/// notices.
pub(crate) struct Publisher {
    _connection: Connection,
    channel: Channel,
}

impl Publisher {
    pub(crate) async fn at(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        declare(&channel, ExchangeDeclareOptions::default()).await.unwrap();
        Self { _connection: connection, channel }
    }

    pub(crate) async fn publish(&self) {
        let options = BasicPublishOptions::default();
        let sent = self.channel.basic_publish(
            "ermrest_changes".into(),
            "".into(),
            options,
            b"change",
            BasicProperties::default(),
        );
        sent.await.unwrap();
    }

    /// Declares the exchange with other flags.
    pub(crate) async fn declare(&self, options: ExchangeDeclareOptions) -> lapin::Result<()> {
        declare(&self.channel, options).await
    }
}

async fn declare(channel: &Channel, options: ExchangeDeclareOptions) -> lapin::Result<()> {
    channel
        .exchange_declare("ermrest_changes".into(), ExchangeKind::Fanout, options, FieldTable::default())
        .await
}

/// Checks that the child was never restarted.
pub(crate) fn node(tree: &Tree) -> NodeSnapshot {
    let node = tree.node("notices").unwrap();
    assert_eq!(node.incarnation, 1, "a broker that is away, or strange, is no crash");
    node
}

pub(crate) fn link(tree: &Tree) -> LinkSnapshot {
    node(tree).link.unwrap()
}

pub(crate) fn metric(tree: &Tree, name: &str) -> i64 {
    node(tree).metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
}
