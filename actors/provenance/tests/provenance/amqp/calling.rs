//! The client's side, with the consumer on the other.

use std::time::Duration;

use orchestrator_edge::amqp::Broker;
use orchestrator_provenance::{
    call::CallError,
    edge::amqp::{Call, Outgoing, Publication, Topology, client},
};
use orchestrator_supervise::{
    ChildSpec, Outbox, Pending, SupervisorSpec, Tree, inbox, reply, testing::TestTree,
};

use super::fixture::*;

type Told = Pending<Result<u64, CallError>>;

/// `spec` with a child `client`.
pub(crate) fn with_client(
    url: &str,
    publication: Publication,
    spec: SupervisorSpec,
) -> (Outbox<Call>, SupervisorSpec) {
    let (outbox, calls) = inbox(256);
    let broker = Broker::new(url, "test client").unwrap();
    (outbox, spec.child(ChildSpec::worker("client", client(broker, publication, &calls))))
}

/// A call with a message of `rows` contents to each of `ranges`.
pub(crate) fn call(ranges: &[u8], rows: u8) -> (Call, Told) {
    let (reply, told) = reply();
    let message = |&range: &u8| Outgoing {
        exchange: worker(range).exchange,
        routing_key: format!("content_add.unknown.{range:x}"),
        body: contents(rows).into(),
        items: rows.into(),
    };
    (Call { messages: ranges.iter().map(message).collect(), reply }, told)
}

pub(crate) async fn told(told: Told) -> Result<u64, CallError> {
    tokio::time::timeout(DEADLINE, told).await.expect("an end in time").expect("an end")
}

pub(crate) fn client_figure(tree: &Tree, name: &str) -> i64 {
    let node = tree.node("client").expect("the child is in the tree");
    node.metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
}

#[test]
fn a_stop_fails_what_is_not_answered_in_time() {
    let url = rabbit().create_vhost("client_stop");
    let (fixture, spec) = by_hand(&url, vec![worker(1)]);
    let publication = Publication { drain: Duration::from_millis(100), ..Publication::default() };
    let (calls, spec) = with_client(&url, publication, spec);
    let mut end = None;
    TestTree::run(spec, async |_tree| {
        all_consumed(&fixture.presence).await;
        let (open, open_told) = call(&[1], 2);
        calls.tell(open).unwrap();
        end = Some((fixture.request().await, open_told));
    });
    assert_eq!(end.unwrap().1.try_recv(), Ok(Some(Err(CallError::Stopping))));
}

#[test]
fn the_quorum_topology_works_and_a_server_of_the_other_one_says_what_is_wrong() {
    let url = rabbit().create_vhost("quorum");
    let (presence, spec) = with_topology(&url, vec![worker(1)], Topology::Quorum, store_all());
    let publication = Publication { topology: Topology::Quorum, ..Publication::default() };
    let (calls, spec) = with_client(&url, publication, spec);
    TestTree::run(spec, async |_tree| {
        all_consumed(&presence).await;
        let (whole, whole_told) = call(&[1, 1], 3);
        calls.tell(whole).unwrap();
        assert_eq!(told(whole_told).await, Ok(6));
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
