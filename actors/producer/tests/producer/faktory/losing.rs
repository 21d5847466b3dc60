//! Connections that break under a batch: what of it is known, and what is not.

use orchestrator_harness::Faktory as Peer;
use orchestrator_producer::{
    batch::Batch,
    edge::faktory::{Flow, PushError, Pushed, Server},
    job::{JobWriter, Terms},
};

use super::fixture::*;

/// A connection that breaks after the batch was sent: the same to the client, whatever the server did with the jobs.
#[test]
fn a_lost_reply_is_ambiguous_whatever_the_server_stored() {
    for (option, stored) in
        [("--lose-reply-every", 10..20), ("--cut-push-every", 10..10), ("--partial-bulk-every", 10..15)]
    {
        let peer = Peer::start(&[option, "2"]);
        let (faktory, spec) = to(&peer.url());
        TestTree::run(spec, async |tree| {
            assert_eq!(faktory.push(0, batch(0..10)).await, Ok(Pushed::default()));
            let lost = faktory.submit(0, batch(10..20)).await;
            let behind = faktory.submit(0, batch(20..30)).await;
            let outcome = lost.await;
            assert!(matches!(&outcome, Err(PushError::Ambiguous(_))), "{option}: {outcome:?}");
            assert_eq!(behind.await, Ok(Pushed::default()), "what waited goes on over the next connection");
            assert_eq!(numbers(&peer.accepted()), (0..10).chain(stored).chain(20..30).collect::<Vec<_>>());
            assert_eq!((metric(&tree, "ambiguous"), metric(&tree, "reconnects")), (10, 1));
        });
    }
}

#[test]
fn a_server_that_does_not_answer_in_time_leaves_it_open() {
    let peer = Peer::start(&[]);
    let server = Server::new(&peer.url(), None, None).unwrap().patience(IMPATIENT);
    let (faktory, spec) = with(server, Flow::default());
    TestTree::run(spec, async |tree| {
        up(&tree).await;
        peer.freeze();
        let outcome = faktory.push(0, batch(0..10)).await;
        assert_eq!(outcome, Err(PushError::Ambiguous("no reply within 500ms".to_owned())));
        down(&tree, "no reply within 500ms").await;
    });
}

#[test]
fn a_server_that_answers_late_but_in_time_is_waited_for() {
    let peer = Peer::start(&["--latency-ms", "100", "--split-writes"]);
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |_tree| {
        assert_eq!(faktory.push(0, batch(0..10)).await, Ok(Pushed::default()));
        assert_eq!(faktory.info().await.unwrap().length("arborescent"), 10);
    });
}

/// A batch larger than what the system keeps for a connection, and a server that does not read it to its end.
#[test]
fn a_command_without_its_end_was_not_sent() {
    let terms = Terms { jobtype: "j".repeat(32 * 1024 * 1024), ..Terms::default() };
    let mut large = Batch::with_room_for(1);
    large.add(&JobWriter::new(&terms).unwrap(), &job(0, 0)).unwrap();
    let peer = Peer::start(&[]);
    let server = Server::new(&peer.url(), None, None).unwrap().patience(IMPATIENT);
    let (faktory, spec) = with(server, Flow::default());
    TestTree::run(spec, async |tree| {
        up(&tree).await;
        peer.freeze();
        let outcome = faktory.push(0, large).await;
        assert_eq!(outcome, Err(PushError::NotSent("no reply within 500ms".to_owned())));
        assert_eq!(metric(&tree, "ambiguous"), 0);
    });
}

#[test]
fn a_stop_says_of_what_still_waits_that_it_was_not_sent() {
    let (faktory, spec) = to("tcp://127.0.0.1:1");
    actix_rt::System::new().block_on(async {
        let mut tested = TestTree::start(spec).await;
        let waiting = [faktory.submit(0, batch(0..10)).await, faktory.submit(0, batch(10..20)).await];
        tested.stop().await;
        for outcome in waiting {
            assert_eq!(outcome.await, Err(PushError::NotSent("the process stops".to_owned())));
        }
    });
}
