//! Pairs become jobs, over however many connections.

use std::{collections::BTreeSet, time::Duration};

use orchestrator_harness::Faktory as Peer;
use orchestrator_producer::{
    edge::faktory::{FaktoryQueue, Flow, Patience, Server},
    job::{Jid, Terms},
    pair::Pair,
    queue::{Queue, QueueError, Stamp},
};
use orchestrator_supervise::SupervisorSpec;
use serde_json::json;

use super::house::*;

fn queue(peer: &Peer, connections: usize) -> (FaktoryQueue, SupervisorSpec) {
    let server = Server::new(&peer.url(), None, None).unwrap();
    let (faktory, spec) = with(server, Flow { connections, ..Flow::default() });
    (FaktoryQueue::new(faktory, &Terms::default()).unwrap(), spec)
}

fn pairs(count: u32) -> Vec<Pair> {
    (0..count).map(|number| job(number, 0).pair).collect()
}

const STAMP: Stamp = Stamp { epoch: 3, attempt: 1 };

#[test]
fn without_a_stamp_jobs_are_the_originals_in_its_order() {
    let peer = Peer::start(&[]);
    let (mut queue, spec) = queue(&peer, 4);
    TestTree::run(spec, async |_tree| {
        let pairs = pairs(2_345);
        queue.push(&pairs, None).await.unwrap();
        let accepted = peer.accepted();
        assert_eq!(numbers(&accepted), (0..2_345).collect::<Vec<_>>());
        assert!(accepted.iter().all(|job| job.get("custom").is_none()), "the original's have none");
        let jids: BTreeSet<_> = accepted.iter().map(|job| job["jid"].to_string()).collect();
        assert_eq!(jids.len(), 2_345);
        assert_eq!(queue.read().await.unwrap().length("arborescent"), 2_345);
    });
}

#[test]
fn with_a_stamp_all_connections_share_jobs_that_are_known_by_their_keys() {
    let peer = Peer::start(&[]);
    let (mut queue, spec) = queue(&peer, 4);
    TestTree::run(spec, async |tree| {
        let pairs = pairs(1_001);
        queue.push(&pairs, Some(STAMP)).await.unwrap();
        let mut accepted = peer.accepted();
        accepted.sort_by_key(|job| job["args"].to_string());
        assert_eq!(accepted.len(), pairs.len());
        for (job, pair) in accepted.iter().zip(&pairs) {
            assert_eq!(job["jid"], Jid::derived(pair, 3, 1).to_string());
            assert_eq!(
                (&job["args"], &job["custom"]),
                (&json!(pair.args()), &json!({"key": pair.to_string()}))
            );
        }
        let shares = (0..4).map(|connection| {
            let figures = node(&tree, connection).figures;
            figures.iter().find(|figure| figure.name == "accepted").map_or(0, |figure| figure.value)
        });
        assert_eq!(shares.collect::<Vec<_>>(), [251, 251, 251, 248]);
    });
}

#[test]
fn refused_jobs_are_told_by_their_position_among_all() {
    let peer = Peer::start(&["--refuse-job-every", "700"]);
    let (mut queue, spec) = queue(&peer, 1);
    TestTree::run(spec, async |_tree| {
        let outcome = queue.push(&pairs(2_500), Some(STAMP)).await;
        let reason = "faktory: injected refusal".to_owned();
        assert_eq!(outcome, Err(QueueError::NotTaken { positions: vec![699, 1_399, 2_099], reason }));
        assert_eq!(peer.accepted().len(), 2_497);
    });
    let peer = Peer::start(&["--error-push-every", "2"]);
    let (mut queue, spec) = self::queue(&peer, 1);
    TestTree::run(spec, async |_tree| {
        let outcome = queue.push(&pairs(2_500), Some(STAMP)).await;
        let positions: Vec<usize> = (1_000..2_000).collect();
        assert!(
            matches!(&outcome, Err(QueueError::NotTaken { positions: these, .. }) if *these == positions)
        );
        assert_eq!(peer.accepted().len(), 1_500);
    });
}

#[test]
fn a_lost_reply_leaves_its_batch_open_and_another_attempt_has_other_names() {
    let peer = Peer::start(&["--lose-reply-every", "2", "--dup-report"]);
    let (mut queue, spec) = queue(&peer, 1);
    TestTree::run(spec, async |_tree| {
        let pairs = pairs(2_000);
        let outcome = queue.push(&pairs, Some(STAMP)).await;
        let Err(QueueError::NotTaken { positions, reason }) = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("not known"), "{reason}");
        assert!(positions.into_iter().eq(1_000..2_000), "what was answered for is not open");
        // The third and fourth command; the fourth's reply is lost, too.
        let stamp = Stamp { attempt: 2, ..STAMP };
        assert!(queue.push(&pairs, Some(stamp)).await.is_err());
        assert_eq!(
            peer.info()["test"],
            json!({"accepted": 4_000, "distinct_jids": 4_000, "dup_jids": 0, "lost_replies": 2})
        );
    });
}

#[test]
fn a_server_that_is_away_is_told_by_a_reading_and_waited_for_by_a_push() {
    let mut peer = Peer::start(&[]);
    peer.kill_nine();
    let (mut queue, spec) = queue(&peer, 2);
    TestTree::run(spec, async |tree| {
        let reason = down(&tree, "see that it runs there").await;
        let told = queue.read().await;
        assert!(
            matches!(&told, Err(QueueError::Away(told)) if told.contains("see that it runs")),
            "{reason}"
        );
        let pairs = pairs(10);
        {
            let push = queue.push(&pairs, Some(STAMP));
            tokio::pin!(push);
            assert!(pends(&mut push).await);
            peer.start_again(&[]);
            push.await.unwrap();
        }
        assert_eq!(peer.accepted().len(), 10);
    });
}

/// What a server certainly did not hear is sent again as it is, since another attempt would double what other connections had sent.
#[test]
fn what_was_not_sent_is_sent_again_under_its_name() {
    let mut peer = Peer::start(&[]);
    let patience = Patience { reply: Duration::from_secs(2), ..IMPATIENT };
    let server = Server::new(&peer.url(), None, None).unwrap().patience(patience);
    let (faktory, spec) = with(server, Flow::default());
    // More than the system keeps for a connection, so that a server that does not read cannot have got all of it.
    let terms = Terms { jobtype: "j".repeat(16 * 1024 * 1024), ..Terms::default() };
    let mut queue = FaktoryQueue::new(faktory, &terms).unwrap();
    TestTree::run(spec, async |tree| {
        up(&tree).await;
        peer.freeze();
        let pairs = pairs(1);
        let healing = async {
            eventually("the link is down", || !is_up(&tree, 0)).await;
            peer.kill_nine();
            peer.start_again(&[]);
        };
        let (outcome, ()) = tokio::join!(queue.push(&pairs, Some(STAMP)), healing);
        assert_eq!(outcome, Ok(()));
        let jids: Vec<_> = peer.accepted().iter().map(|job| job["jid"].clone()).collect();
        assert_eq!(jids, [Jid::derived(&pairs[0], 3, 1).to_string()]);
    });
}
