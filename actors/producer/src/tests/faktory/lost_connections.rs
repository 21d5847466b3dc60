//! Connections that are lost during a push.

use orchestrator_edge::{PeerError, PeerErrorKind, Sent};
use orchestrator_harness::Faktory as Peer;

use super::fixture::*;
use orchestrator_producer_rules::{
    batch::Batch,
    job::{JobOptions, JobWriter},
};

use crate::edge::faktory::{PoolOptions, Server};

fn not_sent(reason: &str) -> PeerError {
    PeerError::new(PeerErrorKind::Lost, Sent::No, format!("the jobs were not sent: {reason}"))
}

/// After the batch is sent, a lost connection is ambiguous, whatever the server did with the jobs.
#[test]
fn a_lost_reply_is_ambiguous_whatever_the_server_stored() {
    for (option, stored) in
        [("--lose-reply-every", 10..20), ("--cut-push-every", 10..10), ("--partial-bulk-every", 10..15)]
    {
        let peer = Peer::start(&[option, "2"]);
        let (faktory, spec) = to(&peer.url());
        TestTree::run(spec, async |tree| {
            assert_eq!(push(&faktory, 0, batch(0..10)).await, Ok(None));
            let lost = faktory.submit(0, batch(10..20)).await;
            let behind = faktory.submit(0, batch(20..30)).await;
            let outcome = lost.await;
            assert!(matches!(&outcome, Err(error) if error.sent == Sent::Maybe), "{option}: {outcome:?}");
            assert_eq!(behind.await, Ok(None), "waiting batches use the next connection");
            assert_eq!(numbers(&peer.accepted()), (0..10).chain(stored).chain(20..30).collect::<Vec<_>>());
            assert_eq!((metric(&tree, "ambiguous"), metric(&tree, "reconnects")), (10, 1));
        });
    }
}

/// A batch whose reply was lost is pushed again. With `unique_for`, Faktory then refuses its jobs.
#[test]
fn a_repeated_batch_that_is_refused_as_a_duplicate_is_enqueued() {
    let custom = serde_json::json!({"unique_for": 3600}).as_object().cloned().unwrap();
    let writer = JobWriter::new(&JobOptions { custom, ..JobOptions::default() }).unwrap();
    let batch = |numbers: std::ops::Range<u32>, attempt| {
        let mut batch = Batch::with_room_for(numbers.len());
        numbers.for_each(|number| assert!(batch.add(&writer, &job(number, attempt))));
        batch
    };
    let peer = Peer::start(&["--lose-reply-every", "2"]);
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |_tree| {
        assert_eq!(push(&faktory, 0, batch(0..1, 0)).await, Ok(None));
        let lost = push(&faktory, 0, batch(0..10, 0)).await;
        assert!(matches!(&lost, Err(error) if error.sent == Sent::Maybe), "{lost:?}");
        assert_eq!(push(&faktory, 0, batch(0..10, 1)).await, Ok(None));
        assert_eq!(numbers(&peer.accepted()), (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn a_push_without_a_reply_in_time_is_ambiguous() {
    let peer = Peer::start(&[]);
    let server = Server::new(&peer.url(), None, None).unwrap().timeouts(SHORT_REPLY);
    let (faktory, spec) = with(server, PoolOptions::default());
    TestTree::run(spec, async |tree| {
        up(&tree).await;
        peer.freeze();
        let outcome = push(&faktory, 0, batch(0..10)).await;
        let text = "the reply was lost, so the jobs may or may not be queued: no reply within 500ms";
        assert_eq!(outcome, Err(PeerError::lost(text)));
        down(&tree, "no reply within 500ms").await;
    });
}

#[test]
fn a_late_reply_within_the_timeout_is_accepted() {
    let peer = Peer::start(&["--latency-ms", "100", "--split-writes"]);
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |_tree| {
        assert_eq!(push(&faktory, 0, batch(0..10)).await, Ok(None));
        assert_eq!(faktory.info().await.unwrap().length("arborescent"), 10);
    });
}

/// A batch larger than the socket buffers, and a server that does not read all of it.
#[test]
fn an_incomplete_command_was_not_sent() {
    let terms = JobOptions { jobtype: "j".repeat(32 * 1024 * 1024), ..JobOptions::default() };
    let mut large = Batch::with_room_for(1);
    assert!(large.add(&JobWriter::new(&terms).unwrap(), &job(0, 0)));
    let peer = Peer::start(&[]);
    let server = Server::new(&peer.url(), None, None).unwrap().timeouts(SHORT_REPLY);
    let (faktory, spec) = with(server, PoolOptions::default());
    TestTree::run(spec, async |tree| {
        up(&tree).await;
        peer.freeze();
        let outcome = push(&faktory, 0, large).await;
        assert_eq!(outcome, Err(not_sent("no reply within 500ms")));
        assert_eq!(metric(&tree, "ambiguous"), 0);
    });
}

#[test]
fn a_stop_reports_waiting_batches_as_not_sent() {
    let (faktory, spec) = to("tcp://127.0.0.1:1");
    actix_rt::System::new().block_on(async {
        let mut tested = TestTree::start(spec).await;
        let waiting = [faktory.submit(0, batch(0..10)).await, faktory.submit(0, batch(10..20)).await];
        tested.stop().await;
        for outcome in waiting {
            assert_eq!(outcome.await, Err(not_sent("the process stops")));
        }
    });
}
