//! Queues of each topology, existing queues of another one, and a broker that refuses transient queues.

use lapin::{options::QueueDeclareOptions, types::FieldTable};
use orchestrator_supervise::{Tree, testing::TestTree};

use super::{
    calling::{call, outcome, with_client},
    fixture::*,
    refusing_broker::RefusingBroker,
};
use crate::{
    edge::amqp::{PublisherOptions, Topology},
    policy::Worker,
};

/// Durability and types of the queues of `content_add` in a virtual host.
fn declared(vhost: &str) -> Vec<String> {
    let list = rabbit().eval(&format!(
        "[atom_to_list(D) ++ \" \" ++ atom_to_list(T) || [{{name, {{resource, _, queue, <<\"content_add\", _/binary>>}}}}, \
         {{durable, D}}, {{type, T}}] <- rabbit_amqqueue:info_all(<<\"{vhost}\">>, [name, durable, type])]"
    ));
    let mut queues: Vec<_> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    queues.sort();
    queues
}

/// Verifies that the exchange of contents is as the original declares it.
fn assert_transient_exchange(vhost: &str) {
    let durable = format!(
        "[D || [{{name, {{resource, _, exchange, <<\"content\">>}}}}, {{durable, D}}] \
         <- rabbit_exchange:info_all(<<\"{vhost}\">>, [name, durable])]"
    );
    assert_eq!(rabbit().eval(&durable), "[false]");
}

const TRANSIENT: &str = "false classic";
const DURABLE: &str = "true classic";

fn note(tree: &Tree) -> String {
    tree.node("amqp").unwrap().note.map_or_else(String::new, |note| note.text)
}

#[test]
fn durable_queues_serve_clients_of_the_original() {
    let url = rabbit().create_vhost("durable");
    let topology = Topology::Durable;
    let (readiness, spec) = with_topology(&url, vec![worker(1)], Some(topology), store_all());
    let (calls, spec) = with_client(&url, PublisherOptions { topology, ..PublisherOptions::default() }, spec);
    TestTree::run(spec, async |_| {
        all_consumed(&readiness).await;
        assert_eq!(declared("durable"), [DURABLE]);
        assert_transient_exchange("durable");
        let mut original = Client::connect(&url).await;
        original.send("content_add.unknown.1", "theirs", &contents(3)).await;
        assert_eq!(original.response().await, ("theirs".to_owned(), 3));
        let (ours, reply) = call(&[1], 2);
        calls.tell(ours).unwrap();
        assert_eq!(outcome(reply).await, Ok(2));
    });
    // A queue is never declared with other flags.
    let (_, spec) = with_topology(&url, vec![worker(1)], Some(Topology::Transient), store_all());
    TestTree::run(spec, async |tree| {
        let texts = ["PRECONDITION_FAILED", "see the setting topology"];
        eventually("the link names error and setting", || {
            let link = link(&tree);
            texts.iter().all(|text| link.contains(text))
        })
        .await;
    });
    assert_eq!(declared("durable"), [DURABLE]);
}

/// The first queue shows that the others are durable, too.
#[test]
fn existing_durable_queues_cost_one_channel_without_a_configured_topology() {
    let url = rabbit().create_vhost("existing");
    // The broker writes its log late.
    let refused = || rabbit().log().matches("in vhost 'existing'").count();
    let all = || Worker::all().collect();
    let (readiness, spec) = with_topology(&url, all(), Some(Topology::Durable), store_all());
    TestTree::run(spec, async |_| all_consumed(&readiness).await);
    assert_eq!(refused(), 0);
    let (readiness, spec) = with_sink(&url, all(), store_all());
    TestTree::run(spec, async |tree| {
        all_consumed(&readiness).await;
        let note = note(&tree);
        assert!(note.contains("the queue content_add.unknown.0 is durable: "), "{note}");
        eventually("the refusal to be logged", || refused() > 0).await;
    });
    assert_eq!(refused(), 1);
    assert_eq!(declared("existing"), [DURABLE; 16]);
}

#[test]
fn queues_are_durable_where_the_broker_refuses_transient_ones() {
    rabbit().create_vhost("refused");
    let broker = RefusingBroker::start((rabbit().host(), rabbit().port()));
    let url = broker.url_of("refused");
    // Without a configured topology, one try is enough.
    let (readiness, spec) = with_sink(&url, Worker::all().collect(), store_all());
    TestTree::run(spec, async |tree| {
        all_consumed(&readiness).await;
        let note = note(&tree);
        assert!(note.contains("the broker refuses transient queues (transient_nonexcl_queues): "), "{note}");
        let mut original = Client::connect(&url).await;
        original.send("content_add.unknown.1", "theirs", &contents(3)).await;
        assert_eq!(original.response().await, ("theirs".to_owned(), 3));
    });
    assert_eq!(broker.refusals(), 1);
    assert_eq!(declared("refused"), [DURABLE; 16]);
    assert_transient_exchange("refused");

    rabbit().create_vhost("insisting");
    let url = broker.url_of("insisting");
    let workers = Worker::all().collect();
    let (_, spec) = with_topology(&url, workers, Some(Topology::Transient), store_all());
    TestTree::run(spec, async |tree| {
        let texts = ["transient_nonexcl_queues", "set provenance.amqp.topology = \\\"durable\\\""];
        eventually("the link names feature and setting", || {
            let link = link(&tree);
            texts.iter().all(|text| link.contains(text))
        })
        .await;
    });
    assert_eq!(declared("insisting"), Vec::<String>::new());
}

/// Queues of an earlier process stay as they are.
#[test]
fn transient_queues_are_used_beside_durable_ones() {
    let url = rabbit().create_vhost("mixed");
    let (readiness, spec) = with_topology(&url, vec![worker(2)], Some(Topology::Transient), store_all());
    TestTree::run(spec, async |_| all_consumed(&readiness).await);
    let (readiness, spec) = with_topology(&url, vec![worker(1)], Some(Topology::Durable), store_all());
    TestTree::run(spec, async |_| {
        // One that an operator declared names no type.
        let operator = Client::connect(&url).await;
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        for queue in ["content_add.unknown.1", "content_add.unknown.3"] {
            operator.channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap();
        }
        all_consumed(&readiness).await;
    });
    let (readiness, spec) = with_sink(&url, (1..4).map(worker).collect(), store_all());
    TestTree::run(spec, async |_| all_consumed(&readiness).await);
    assert_eq!(declared("mixed"), [TRANSIENT, DURABLE, DURABLE]);
}
