//! Declarations, deliveries and settlement.

use orchestrator_harness::Rabbit;
use orchestrator_supervise::testing::TestTree;

use super::fixture::*;
use crate::{
    edge::amqp::DEAD_LETTER,
    policy::{self, Worker},
};

#[test]
fn all_queues_are_declared_and_consumed() {
    let url = rabbit().create_vhost("topology");
    let (readiness, spec) = with_sink(&url, Worker::all().collect(), store_all());
    assert_eq!(readiness.missing(), 160);
    TestTree::run(spec, async |tree| {
        all_consumed(&readiness).await;
        eventually("the link is up", || link(&tree).contains("up")).await;
        assert_eq!(metric(&tree, "consumed"), 160);
        let list = |what: &[&str]| {
            let mut arguments = vec![what[0], "--no-table-headers", "-p", "topology"];
            arguments.extend(&what[1..]);
            rabbit().ctl(&arguments)
        };
        let queues = table(&list(&[
            "list_queues",
            "name",
            "durable",
            "exclusive",
            "auto_delete",
            "arguments",
            "consumers",
        ]));
        let exchanges = table(&list(&[
            "list_exchanges",
            "name",
            "type",
            "durable",
            "auto_delete",
            "internal",
            "arguments",
        ]));
        let bindings = list(&["list_bindings", "source_name", "destination_name", "routing_key"]);
        // RabbitMQ 4 lists the type of each queue.
        let arguments = if Rabbit::major_version() >= 4 { r#"[{"x-queue-type","classic"}]"# } else { "[]" };
        let mut keys = 0;
        for worker in Worker::all() {
            let exchange = worker.exchange.name();
            assert_eq!(exchanges[exchange][1..], ["direct", "false", "false", "false", "[]"]);
            for (method, range) in worker.queues() {
                let key = policy::binding_key(method, range);
                assert_eq!(queues[&key][1..], ["false", "false", "false", arguments, "1"], "{key}");
                assert!(bindings.contains(&format!("{exchange}\t{key}\t{key}")), "{key}");
                keys += 1;
            }
        }
        assert_eq!((keys, queues.len()), (160, 161));
        assert_eq!(queues[DEAD_LETTER][1..5], ["true", "false", "false", arguments]);
    });
    assert_eq!(readiness.missing(), 160, "nothing is consumed after the stop");
}

#[test]
fn a_message_is_acknowledged_before_its_response() {
    let url = rabbit().create_vhost("response");
    let (fixture, spec) = with_manual_replies(&url, vec![worker(10)]);
    TestTree::run(spec, async |tree| {
        all_consumed(&fixture.readiness).await;
        let mut client = Client::connect(&url).await;
        client.send("content_add.unknown.a", "one", &contents(3)).await;
        client.send("content_add.unknown.a", "two", &contents(200)).await;
        let (first, second) = (fixture.request().await, fixture.request().await);
        assert_eq!((first.0, first.1.rows.len(), second.1.rows.len()), (worker(10), 3, 200));
        assert_eq!(metric(&tree, "acked"), 0, "nothing is acknowledged before it is stored");
        // The later message is stored first: only that one is acknowledged and answered.
        second.1.reply.send(settled(200)).unwrap();
        assert_eq!(client.response().await, ("two".to_owned(), 200));
        assert_eq!(metric(&tree, "acked"), 1);
        eventually("the response is counted", || metric(&tree, "responses") == 1).await;
        let unacked = |count| ("content_add.unknown.a".to_owned(), count);
        let queues = rabbit().queues("response", "messages");
        assert!(queues.contains(&unacked(1)), "{queues:?}");
        first.1.reply.send(settled(3)).unwrap();
        assert_eq!(client.response().await, ("one".to_owned(), 3));
        // The response was sent after the acknowledgement, on the same channel.
        let queues = rabbit().queues("response", "messages");
        assert!(queues.contains(&unacked(0)), "{queues:?}");
    });
}

#[test]
fn a_full_worker_gets_its_messages_later_in_order() {
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    };
    let url = rabbit().create_vhost("full");
    let (refusals, taken) = (Arc::new(AtomicU32::new(5)), Arc::new(Mutex::new(Vec::new())));
    let (left, order) = (refusals.clone(), taken.clone());
    let (readiness, spec) = with_sink(
        &url,
        vec![worker(2)],
        Arc::new(move |_, request| {
            if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                return Err(request);
            }
            order.lock().unwrap().push(request.rows.len());
            let _ = request.reply.send(settled(request.rows.len() as u64));
            Ok(())
        }),
    );
    TestTree::run(spec, async |_tree| {
        all_consumed(&readiness).await;
        let mut client = Client::connect(&url).await;
        for count in 1..=20 {
            client.send("content_add.unknown.2", "call", &contents(count)).await;
        }
        let mut sum = 0;
        while sum < 210 {
            sum += client.response().await.1;
        }
        assert_eq!(sum, 210);
        assert_eq!(*taken.lock().unwrap(), (1..=20).collect::<Vec<_>>());
    });
}
