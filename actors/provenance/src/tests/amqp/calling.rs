//! Calls of the client, with a consumer on the other side.

use std::time::Duration;

use lapin::{
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};
use orchestrator_edge::amqp::Broker;
use orchestrator_supervise::{
    ChildSpec, Outbox, Pending, Strategy, SupervisorSpec, Tree, inbox, reply, testing::TestTree,
};

use super::fixture::*;
use crate::{
    call::CallError,
    edge::amqp::{Call, Outgoing, PublisherOptions, Topology, client},
};

type CallReply = Pending<Result<u64, CallError>>;

/// Adds a child `client` to `spec`.
pub(crate) fn with_client(
    url: &str,
    publisher_options: PublisherOptions,
    spec: SupervisorSpec,
) -> (Outbox<Call>, SupervisorSpec) {
    let (outbox, calls) = inbox(256);
    let broker = Broker::new(url, "test client").unwrap();
    (outbox, spec.child(ChildSpec::worker("client", client(broker, publisher_options, &calls))))
}

/// Call with a message of `rows` contents to each of `ranges`.
pub(crate) fn call(ranges: &[u8], rows: u8) -> (Call, CallReply) {
    let (reply, outcome) = reply();
    let message = |&range: &u8| Outgoing {
        exchange: worker(range).exchange,
        routing_key: format!("content_add.unknown.{range:x}"),
        body: contents(rows).into(),
        items: rows.into(),
    };
    (Call { messages: ranges.iter().map(message).collect(), reply }, outcome)
}

pub(crate) async fn outcome(outcome: CallReply) -> Result<u64, CallError> {
    tokio::time::timeout(DEADLINE, outcome).await.expect("an end in time").expect("an end")
}

pub(crate) fn client_metric(tree: &Tree, name: &str) -> i64 {
    let node = tree.node("client").expect("the child is in the tree");
    node.metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
}

#[test]
fn a_stop_fails_unanswered_calls() {
    let url = rabbit().create_vhost("client_stop");
    let (fixture, spec) = with_manual_replies(&url, vec![worker(1)]);
    let publisher_options =
        PublisherOptions { drain: Duration::from_millis(100), ..PublisherOptions::default() };
    let (calls, spec) = with_client(&url, publisher_options, spec);
    let mut end = None;
    TestTree::run(spec, async |_tree| {
        all_consumed(&fixture.readiness).await;
        let (open, open_reply) = call(&[1], 2);
        calls.tell(open).unwrap();
        end = Some((fixture.request().await, open_reply));
    });
    assert_eq!(end.unwrap().1.try_recv(), Ok(Some(Err(CallError::Stopping))));
}

/// Queues of an earlier version have no delivery limit, and are not declared with one.
#[test]
fn a_quorum_queue_without_a_delivery_limit_is_consumed_and_named() {
    let url = rabbit().create_vhost("unlimited");
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let (readiness, spec) = with_topology(&url, vec![worker(1)], Some(Topology::Quorum), store_all());
    let publisher_options = PublisherOptions { topology: Topology::Quorum, ..PublisherOptions::default() };
    let (calls, spec) = with_client(&url, publisher_options, spec);
    let empty = SupervisorSpec::new(Strategy::OneForOne);
    TestTree::run(empty, async |_| {
        let earlier = Client::connect(&url).await;
        let declare = earlier.channel.queue_declare("content_add.unknown.1".into(), options, arguments);
        declare.await.unwrap();
    });
    TestTree::run(spec, async |tree| {
        all_consumed(&readiness).await;
        let (whole, whole_reply) = call(&[1], 3);
        calls.tell(whole).unwrap();
        assert_eq!(outcome(whole_reply).await, Ok(3));
        let blocker = tree.node("amqp").unwrap().blocker.expect("a cause");
        assert!(blocker.help.contains("set_policy -p 'unlimited'"), "{blocker:?}");
    });
}

#[test]
fn the_quorum_topology_works_and_the_other_topology_is_refused() {
    let url = rabbit().create_vhost("quorum");
    let (readiness, spec) = with_topology(&url, vec![worker(1)], Some(Topology::Quorum), store_all());
    let publisher_options = PublisherOptions { topology: Topology::Quorum, ..PublisherOptions::default() };
    let (calls, spec) = with_client(&url, publisher_options, spec);
    TestTree::run(spec, async |_tree| {
        all_consumed(&readiness).await;
        let (whole, whole_reply) = call(&[1, 1], 3);
        calls.tell(whole).unwrap();
        assert_eq!(outcome(whole_reply).await, Ok(6));
        let queues =
            rabbit().ctl(&["list_queues", "-p", "quorum", "--no-table-headers", "name", "type", "durable"]);
        assert!(queues.contains("content_add.unknown.1\tquorum\ttrue"), "{queues}");
    });
    let (_, spec) = with_sink(&url, vec![worker(1)], store_all());
    TestTree::run(spec, async |tree| {
        eventually("the link is down", || link(&tree).contains("down")).await;
        let link = link(&tree);
        assert!(link.contains("PRECONDITION_FAILED") && link.contains("setting topology"), "{link}");
    });
}
