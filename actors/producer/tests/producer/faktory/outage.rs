//! A server that is away, and comes back.

use std::time::Duration;

use orchestrator_harness::Faktory as Peer;
use orchestrator_producer::edge::faktory::{Flow, Patience, Pushed, Server};

use super::{
    house::*,
    impostor::{Impostor, honest},
};

#[test]
fn it_starts_without_a_server_says_what_to_do_and_pushes_what_waited() {
    let mut peer = Peer::start(&[]);
    peer.kill_nine();
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |tree| {
        let waiting = faktory.submit(0, batch(0..10)).await;
        let reason = down(&tree, "see that it runs there").await;
        assert!(reason.contains(&peer.url()), "{reason}");
        assert_eq!(link(&tree, 0).endpoint, peer.url());
        let told = faktory.info().await.unwrap_err();
        assert!(told.is_retryable() && told.to_string().contains("see that it runs there"), "{told}");
        peer.start_again(&[]);
        assert_eq!(waiting.await, Ok(Pushed::default()));
        assert_eq!(numbers(&peer.accepted()), (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn a_server_that_was_killed_is_noticed_at_once_and_come_back_to() {
    let mut peer = Peer::start(&[]);
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |tree| {
        assert_eq!(faktory.push(0, batch(0..10)).await, Ok(Pushed::default()));
        for round in 1..=3 {
            peer.kill_nine();
            // Nothing was asked meanwhile: a batch must not be what finds out.
            eventually("the link is down", || !is_up(&tree, 0)).await;
            peer.start_again(&[]);
            let numbers = round * 10..round * 10 + 10;
            assert_eq!(faktory.push(0, batch(numbers)).await, Ok(Pushed::default()));
            assert_eq!(figure(&tree, "reconnects"), i64::from(round));
        }
        assert_eq!(numbers(&peer.accepted()), (0..40).collect::<Vec<_>>());
        let budget = tree.node("faktory").unwrap().budget_left;
        assert!(budget >= 5, "no restart was spent: {budget}");
    });
}

/// A server that hangs keeps its connections open, and the system acknowledges what is written to it.
#[test]
fn a_server_that_hangs_is_missed_although_nothing_is_asked_of_it() {
    let peer = Peer::start(&[]);
    let patience = Patience { idle: Duration::from_millis(100), ..IMPATIENT };
    let (faktory, spec) =
        with(Server::new(&peer.url(), None, None).unwrap().patience(patience), Flow::default());
    TestTree::run(spec, async |tree| {
        up(&tree).await;
        peer.freeze();
        down(&tree, "no reply within 500ms").await;
        eventually("its outage is told", || faktory.outages().reason().is_some()).await;
        peer.thaw();
        up(&tree).await;
        eventually("its outage is over", || faktory.outages().reason().is_none()).await;
    });
}

/// The same for one that is closed: whoever asks for outages hears of it without a batch or a question.
#[test]
fn a_server_that_goes_is_missed_although_nothing_is_asked_of_it() {
    let mut peer = Peer::start(&[]);
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |tree| {
        up(&tree).await;
        assert_eq!(faktory.outages().reason(), None);
        peer.kill_nine();
        eventually("its outage is told", || faktory.outages().reason().is_some()).await;
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
