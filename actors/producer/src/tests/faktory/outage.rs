//! A server that is unavailable for a while.

use orchestrator_harness::Faktory as Peer;

use super::{
    fixture::*,
    scripted_server::{ScriptedServer, correct_reply},
};
use crate::edge::faktory::outage;

/// The outage is reported without a batch or an `INFO`.
#[test]
fn an_idle_connection_reports_a_lost_server() {
    let mut peer = Peer::start(&[]);
    let (_faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |tree| {
        up(&tree).await;
        assert_eq!(outage(&tree, "faktory"), None);
        peer.kill_nine();
        eventually("the outage to be reported", || outage(&tree, "faktory").is_some()).await;
    });
}

/// A handshake alone does not reset the delay between connection attempts.
#[test]
fn the_delay_grows_while_a_server_drops_each_connection() {
    let scripted_server = ScriptedServer::start(|line| {
        let mut reply = correct_reply(line)?;
        if line == "INFO" {
            reply.extend_from_slice(b"-ERR go away\r\n");
        }
        Some(reply)
    });
    let (_faktory, spec) = to(&scripted_server.url());
    TestTree::run(spec, async |tree| {
        let wait = || link(&tree, 0).retry_in_ms.unwrap_or_default();
        eventually("the delay to grow", || wait() > 100).await;
    });
}

#[test]
fn a_batch_whose_future_is_dropped_is_not_sent() {
    let mut peer = Peer::start(&[]);
    peer.kill_nine();
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |_tree| {
        drop(faktory.submit(0, batch(0..10)).await);
        let sent_later = faktory.submit(0, batch(10..20)).await;
        peer.start_again(&[]);
        assert_eq!(sent_later.await, Ok(None));
        assert_eq!(numbers(&peer.accepted()), (10..20).collect::<Vec<_>>());
    });
}

#[test]
fn only_a_batch_that_is_not_sent_yet_can_be_withdrawn() {
    let mut peer = Peer::start(&[]);
    peer.kill_nine();
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |_tree| {
        let waiting = faktory.submit(0, batch(0..10)).await;
        assert!(waiting.withdraw());
        let sent_later = faktory.submit(0, batch(10..20)).await;
        peer.start_again(&[]);
        assert_eq!(sent_later.await, Ok(None));
        assert_eq!(numbers(&peer.accepted()), (10..20).collect::<Vec<_>>());
        let sent = faktory.submit(0, batch(20..30)).await;
        eventually("the batch to be sent", || numbers(&peer.accepted()).len() == 20).await;
        assert!(!sent.withdraw());
        assert_eq!(sent.await, Ok(None));
    });
}
