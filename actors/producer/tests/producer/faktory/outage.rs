//! A server that is away, and comes back.

use orchestrator_harness::Faktory as Peer;
use orchestrator_producer::edge::faktory::{Pushed, outage};

use super::{
    fixture::*,
    impostor::{Impostor, honest},
};

/// The same for one that is closed: whoever asks for outages hears of it without a batch or a question.
#[test]
fn a_server_that_goes_is_missed_although_nothing_is_asked_of_it() {
    let mut peer = Peer::start(&[]);
    let (_faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |tree| {
        up(&tree).await;
        assert_eq!(outage(&tree, "faktory"), None);
        peer.kill_nine();
        eventually("its outage is told", || outage(&tree, "faktory").is_some()).await;
    });
}

/// A handshake is no progress: a server that lets clients in and drops them is tried ever less often.
#[test]
fn a_server_that_drops_each_connection_is_tried_ever_less_often() {
    let impostor = Impostor::start(|line| {
        let mut reply = honest(line)?;
        if line == "INFO" {
            reply.extend_from_slice(b"-ERR go away\r\n");
        }
        Some(reply)
    });
    let (_faktory, spec) = to(&impostor.url());
    TestTree::run(spec, async |tree| {
        let wait = || link(&tree, 0).retry_in_ms.unwrap_or_default();
        eventually("the wait grows", || wait() > 100).await;
    });
}

#[test]
fn a_batch_whose_sender_has_gone_is_not_sent() {
    let mut peer = Peer::start(&[]);
    peer.kill_nine();
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |_tree| {
        drop(faktory.submit(0, batch(0..10)).await);
        let kept = faktory.submit(0, batch(10..20)).await;
        peer.start_again(&[]);
        assert_eq!(kept.await, Ok(Pushed::default()));
        assert_eq!(numbers(&peer.accepted()), (10..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_batch_that_is_taken_back_is_not_sent_and_one_that_was_sent_is_not_taken_back() {
    let mut peer = Peer::start(&[]);
    peer.kill_nine();
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |_tree| {
        let waiting = faktory.submit(0, batch(0..10)).await;
        assert!(waiting.withdraw());
        let kept = faktory.submit(0, batch(10..20)).await;
        peer.start_again(&[]);
        assert_eq!(kept.await, Ok(Pushed::default()));
        assert_eq!(numbers(&peer.accepted()), (10..20).collect::<Vec<_>>());
        let sent = faktory.submit(0, batch(20..30)).await;
        eventually("it is sent", || numbers(&peer.accepted()).len() == 20).await;
        assert!(!sent.withdraw());
        assert_eq!(sent.await, Ok(Pushed::default()));
    });
}
