//! Contents, order and bounds of pushed batches.

use orchestrator_edge::{PeerError, PeerErrorKind, Sent};
use orchestrator_harness::Faktory as Peer;
use serde_json::{Map, Value, json};

use super::fixture::*;
use orchestrator_producer_rules::{batch::Batch, job::JobOptions, pair::Pair};

use crate::{
    edge::faktory::{FaktoryQueue, PoolOptions, Server},
    queue::{JidSeed, Queue, Unacknowledged},
};

fn refused_batch(reason: &str) -> PeerError {
    PeerError::new(PeerErrorKind::Refused, Sent::Yes, format!("faktory: {reason}"))
}

#[test]
fn jobs_arrive_unchanged_and_in_order() {
    let peer = Peer::start(&[]);
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |tree| {
        let mut pending = Vec::new();
        for numbers in [0..1_000, 1_000..2_000, 2_000..2_001, 2_001..2_500] {
            pending.push(faktory.submit(0, batch(numbers)).await);
        }
        for outcome in pending {
            assert_eq!(outcome.await, Ok(None));
        }
        let mut accepted = peer.accepted();
        for job in &mut accepted {
            let job = job.as_object_mut().unwrap();
            // Added by the server.
            assert!(job.remove("created_at").is_some() && job.remove("enqueued_at").is_some());
        }
        assert_eq!(accepted, (0..2_500).map(expected).collect::<Vec<Value>>());
        assert_eq!((metric(&tree, "accepted"), metric(&tree, "batches")), (2_500, 4));
        let queue_state = faktory.info().await.unwrap();
        assert_eq!(queue_state.queues, [("arborescent".to_owned(), 2_500)].into());
        assert_eq!(
            (queue_state.dead, queue_state.retries, queue_state.scheduled, queue_state.working),
            (0, 0, 0, 0)
        );
    });
}

#[test]
fn four_connections_share_the_jobs_and_each_keeps_its_order() {
    let peer = Peer::start(&[]);
    let server = Server::new(&peer.url(), None, None).unwrap();
    let (faktory, spec) = with(server, PoolOptions { connections: 4, ..PoolOptions::default() });
    assert_eq!(faktory.connections(), 4);
    TestTree::run(spec, async |tree| {
        let mut pending = Vec::new();
        for number in 0..400 {
            pending.push(faktory.submit(number as usize, batch(number * 10..number * 10 + 10)).await);
        }
        for outcome in pending {
            assert_eq!(outcome.await, Ok(None));
        }
        let all = numbers(&peer.accepted());
        for connection in 0..4 {
            let own: Vec<u32> = all.iter().copied().filter(|number| number / 10 % 4 == connection).collect();
            assert!(own.len() == 1_000 && own.is_sorted(), "connection {connection}");
            assert!(is_up(&tree, connection as usize));
        }
    });
}

#[test]
fn refused_and_accepted_jobs_are_distinguished() {
    let peer = Peer::start(&["--refuse-job-every", "4"]);
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |tree| {
        let outcome = push(&faktory, 0, batch(0..10)).await;
        let refused =
            Unacknowledged { positions: vec![3, 7], reason: "faktory: injected refusal".to_owned() };
        assert_eq!(outcome, Ok(Some(refused)));
        assert_eq!(numbers(&peer.accepted()), [0, 1, 2, 4, 5, 6, 8, 9]);
        assert_eq!(push(&faktory, 0, batch(10..11)).await, Ok(None));
        let outcome = push(&faktory, 0, batch(11..12)).await;
        assert_eq!(outcome, Err(refused_batch("ERR injected refusal")));
        assert_eq!((metric(&tree, "accepted"), metric(&tree, "refused")), (9, 3));
        assert_eq!((metric(&tree, "reconnects"), metric(&tree, "ambiguous")), (0, 0));
    });
}

#[test]
fn a_refused_batch_may_be_pushed_again_unchanged() {
    let peer = Peer::start(&["--error-push-every", "2"]);
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |tree| {
        assert_eq!(push(&faktory, 0, batch(0..5)).await, Ok(None));
        assert_eq!(push(&faktory, 0, batch(5..9)).await, Err(refused_batch("ERR injected failure")));
        assert_eq!(push(&faktory, 0, batch(5..9)).await, Ok(None));
        assert_eq!(numbers(&peer.accepted()), (0..9).collect::<Vec<_>>());
        assert_eq!(metric(&tree, "reconnects"), 0, "the connection is still used");
    });
}

/// A chunk of jobs with long custom fields is larger than a batch.
#[test]
fn a_chunk_of_large_jobs_takes_several_batches() {
    let peer = Peer::start(&[]);
    let (faktory, spec) = to(&peer.url());
    let custom = Map::from_iter([("note".to_owned(), json!("x".repeat(4_000)))]);
    let mut queue = FaktoryQueue::new(faktory, &JobOptions { custom, ..JobOptions::default() }).unwrap();
    TestTree::run(spec, async |tree| {
        let pairs: Vec<Pair> = (0..1_000).map(|number| job(number, 0).pair).collect();
        assert_eq!(queue.push(&pairs, Some(JidSeed { epoch: 1, attempt: 0 })).await, Ok(()));
        assert_eq!(numbers(&peer.accepted()), (0..1_000).collect::<Vec<_>>());
        assert_eq!((metric(&tree, "accepted"), metric(&tree, "batches")), (1_000, 5));
    });
}

#[test]
fn an_empty_batch_succeeds_at_once() {
    let (faktory, spec) = to("tcp://127.0.0.1:1");
    TestTree::run(spec, async |_tree| {
        assert_eq!(push(&faktory, 0, Batch::with_room_for(0)).await, Ok(None));
    });
}

#[test]
fn waiting_batches_are_bounded_in_bytes() {
    let mut peer = Peer::start(&[]);
    peer.kill_nine();
    let server = Server::new(&peer.url(), None, None).unwrap();
    let size = batch(0..100).bytes();
    let (faktory, spec) = with(server, PoolOptions { bytes: size * 2 + size / 2, ..PoolOptions::default() });
    TestTree::run(spec, async |_tree| {
        let first = faktory.submit(0, batch(0..100)).await;
        let second = faktory.submit(0, batch(100..200)).await;
        assert!(is_pending(faktory.submit(0, batch(200..300))).await, "a third has no room");
        peer.start_again(&[]);
        // Larger than the bound: it waits until nothing else is queued.
        let large = faktory.submit(0, batch(300..1_300)).await;
        for outcome in [first, second, large] {
            assert_eq!(outcome.await, Ok(None));
        }
        assert_eq!(numbers(&peer.accepted()), (0..200).chain(300..1_300).collect::<Vec<_>>());
    });
}
