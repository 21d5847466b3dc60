//! One broker for all tests of this binary but those that end it, a virtual host for each, and a publisher that is not ours.

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind, options::*, types::FieldTable,
};
use orchestrator_catalog::edge::notices::{Notices, RETRY, child_spec};
use orchestrator_edge::amqp::Broker;
use orchestrator_harness::Rabbit;
pub(crate) use orchestrator_supervise::testing::{TestTree, eventually};
use orchestrator_supervise::{Backoff, LinkSnapshot, NodeSnapshot, Strategy, SupervisorSpec, Tree};

pub(crate) fn rabbit() -> &'static Rabbit {
    Rabbit::shared()
}

/// A tree with the child alone.
pub(crate) fn at(url: &str) -> (Notices, SupervisorSpec) {
    with(Broker::new(url, "test").unwrap(), RETRY)
}

pub(crate) fn with(broker: Broker, retry: Backoff) -> (Notices, SupervisorSpec) {
    let (notices, child) = child_spec(broker, retry);
    (notices, SupervisorSpec::new(Strategy::OneForOne).child(child))
}

/// Waits until notices are heard; how many that are so far.
pub(crate) async fn bound(notices: &mut Notices) -> u64 {
    let mut heard = notices.heard_now();
    while !heard.is_up {
        heard = notices.changed().await;
    }
    heard.count
}

/// Waits until `count` notices have been heard.
pub(crate) async fn reaches(notices: &mut Notices, count: u64) {
    let mut heard = notices.heard_now();
    while heard.count < count {
        heard = notices.changed().await;
    }
    assert_eq!(heard.count, count);
}

/// A server's way of telling: the exchange declared with its flags, and notices without anything.
pub(crate) struct Teller {
    _connection: Connection,
    channel: Channel,
}

impl Teller {
    pub(crate) async fn at(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        declare(&channel, ExchangeDeclareOptions::default()).await.unwrap();
        Self { _connection: connection, channel }
    }

    pub(crate) async fn tell(&self) {
        let publish = BasicPublishOptions::default();
        let sent = self.channel.basic_publish(
            "ermrest_changes".into(),
            "".into(),
            publish,
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

/// The child's place in the tree. Whatever happened to the broker, it has never ended.
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
