//! The broker goes, and comes back without its transient queues.

use std::sync::Arc;

use futures_util::future::join_all;
use lapin::{
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::FieldTable,
};
use orchestrator_provenance::edge::amqp::{Publication, Sink};
use orchestrator_supervise::testing::TestTree;

use super::{
    calling::{call, client_figure, told, with_client},
    fixture::*,
};

#[test]
fn a_queue_that_cannot_be_declared_keeps_no_other_worker_and_is_named() {
    let url = rabbit().create_vhost("flags");
    let (fixture, spec) = by_hand(&url, (0..16).map(worker).collect());
    TestTree::run(spec, async |tree| {
        let client = Client::connect(&url).await;
        all_consumed(&fixture.presence).await;
        // Its worker declares it again, but somebody was faster, with another flag.
        let (queue, durable) = (
            "content_add.unknown.3",
            QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() },
        );
        client.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
        client.channel.queue_declare(queue.into(), durable, FieldTable::default()).await.unwrap();
        let named = "of 48 queues have no consumer: content_add.unknown.[3]";
        eventually("the link names it", || link(&tree).contains(named)).await;
        let text = link(&tree);
        assert!(text.contains("content_3: ") && text.contains("see the setting topology"), "{text}");
        client.send("content_add.unknown.4", "other", &contents(1)).await;
        fixture.request().await;
        client.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
        all_consumed(&fixture.presence).await;
        eventually("the link is up again", || link(&tree).contains("\"up\"")).await;
        client.send(queue, "this", &contents(1)).await;
        fixture.request().await;
        assert_eq!(tree.node("amqp").unwrap().incarnation, 1);
    });
}

/// Workers that end at random, and connections that break while calls are under way: every call ends with exactly its items.
#[test]
fn calls_under_random_trouble_all_end_with_exactly_their_items() {
    let url = rabbit().create_vhost("trouble");
    let store = store_all();
    let sink: Sink = Arc::new(move |worker, request| match fastrand::u8(..10) {
        0 => {
            drop(request);
            Ok(())
        }
        1 => Err(request),
        _ => store(worker, request),
    });
    let (presence, spec) = with_sink(&url, (0..16).map(worker).collect(), sink);
    let (calls, spec) = with_client(&url, Publication::default(), spec);
    TestTree::run(spec, async |tree| {
        all_consumed(&presence).await;
        let trouble = std::thread::spawn(|| {
            for _ in 0..3 {
                rabbit().ctl(&["close_all_connections", "--vhost", "trouble", "test"]);
            }
        });
        let callers = (0..8).map(async |_| {
            let ranges: Vec<u8> = (0..16).collect();
            let mut ended = 0;
            while !trouble.is_finished() || ended < 3 {
                let (call, end) = call(&ranges, 10);
                calls.send(call).await.unwrap();
                assert_eq!(told(end).await, Ok(160));
                ended += 1;
            }
            ended
        });
        let ended: u32 = join_all(callers).await.into_iter().sum();
        let (redelivered, incarnation) =
            (metric(&tree, "redelivered"), tree.node("amqp").unwrap().incarnation);
        assert!(ended >= 24 && redelivered > 0 && incarnation == 1, "{ended} {redelivered} {incarnation}");
        assert!(client_figure(&tree, "resent") > 0, "connections broke while calls were under way");
        trouble.join().unwrap();
    });
}
