//! Lost connections and channels; a broker that returns without its transient queues.

use std::sync::Arc;

use futures_util::future::join_all;
use lapin::{
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::FieldTable,
};
use orchestrator_supervise::testing::TestTree;

use super::{
    calling::{call, client_metric, outcome, with_client},
    fixture::*,
};
use crate::edge::amqp::{PublisherOptions, Sink};

#[test]
fn an_undeclarable_queue_is_named_and_other_workers_are_served() {
    let url = rabbit().create_vhost("flags");
    let (fixture, spec) = with_manual_replies(&url, (0..16).map(worker).collect());
    TestTree::run(spec, async |tree| {
        let mut client = Client::connect(&url).await;
        all_consumed(&fixture.readiness).await;
        // The worker declares the queue again, but it exists with another flag by then.
        let (queue, auto_delete) = (
            "content_add.unknown.3",
            QueueDeclareOptions { auto_delete: true, ..QueueDeclareOptions::default() },
        );
        loop {
            client.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
            let declare = client.channel.queue_declare(queue.into(), auto_delete, FieldTable::default());
            if declare.await.is_ok() {
                break;
            }
            // The worker was faster.
            client = Client::connect(&url).await;
        }
        let named = "of 48 queues have no consumer: content_add.unknown.[3]";
        eventually("the link names it", || link(&tree).contains(named)).await;
        let text = link(&tree);
        assert!(text.contains("content_3: ") && text.contains("see the setting topology"), "{text}");
        client.send("content_add.unknown.4", "other", &contents(1)).await;
        fixture.request().await;
        client.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
        all_consumed(&fixture.readiness).await;
        eventually("the link is up again", || link(&tree).contains("\"up\"")).await;
        client.send(queue, "this", &contents(1)).await;
        fixture.request().await;
        assert_eq!(tree.node("amqp").unwrap().incarnation, 1);
    });
}

/// Every call ends with exactly its items while workers and connections fail at random.
#[test]
fn calls_end_with_exactly_their_items_under_random_failures() {
    let url = rabbit().create_vhost("failures");
    let store = store_all();
    let sink: Sink = Arc::new(move |worker, request| match fastrand::u8(..10) {
        0 => {
            drop(request);
            Ok(())
        }
        1 => Err(request),
        _ => store(worker, request),
    });
    let (readiness, spec) = with_sink(&url, (0..16).map(worker).collect(), sink);
    let (calls, spec) = with_client(&url, PublisherOptions::default(), spec);
    TestTree::run(spec, async |tree| {
        all_consumed(&readiness).await;
        let disturbance = std::thread::spawn(|| {
            for _ in 0..3 {
                rabbit().ctl(&["close_all_connections", "--vhost", "failures", "test"]);
            }
        });
        let callers = (0..8).map(async |_| {
            let ranges: Vec<u8> = (0..16).collect();
            let mut ended = 0;
            while !disturbance.is_finished() || ended < 3 {
                let (call, end) = call(&ranges, 10);
                calls.send(call).await.unwrap();
                assert_eq!(outcome(end).await, Ok(160));
                ended += 1;
            }
            ended
        });
        let ended: u32 = join_all(callers).await.into_iter().sum();
        let (redelivered, incarnation) =
            (metric(&tree, "redelivered"), tree.node("amqp").unwrap().incarnation);
        assert!(ended >= 24 && redelivered > 0 && incarnation == 1, "{ended} {redelivered} {incarnation}");
        assert!(client_metric(&tree, "resent") > 0, "connections broke while calls were under way");
        disturbance.join().unwrap();
    });
}
