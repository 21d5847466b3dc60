//! Change of mappings: no message of the old one reaches a worker afterwards.

use orchestrator_supervise::testing::eventually;
use tokio::{io::AsyncReadExt, time::timeout};

use super::peer::{Fixture, TIMEOUT, Worker, limits, message, parts};
use crate::edge::egress::EgressLimits;

#[test]
fn queued_messages_are_dropped_and_absent_workers_forgotten() {
    Fixture::run(limits(64 << 10, 16 << 20), |fixture| async move {
        for number in 0..2_000 {
            fixture.send("away", &message(number, 1_000)).await;
        }
        eventually("it spills", || fixture.peer("away").is_some_and(|peer| peer.spilled_bytes > 1 << 20))
            .await;
        fixture.egress.purge(true);
        assert_eq!(fixture.egress.peers(), []);
        eventually("nothing is on disk", || fixture.metric("egress", "spilled_bytes") == 0).await;
        fixture.send("away", &message(7, 10)).await;
        let mut worker = Worker::dial(fixture.port, "away").await;
        assert_eq!(worker.next().await, Some(parts(&message(7, 10))));
    });
}

#[test]
fn a_purge_wakes_senders_that_wait_for_room() {
    Fixture::run(limits(64 << 10, 0), |fixture| async move {
        while fixture.egress.burst().try_send("w", &message(0, 1_000)).is_ok() {}
        let waiting = fixture.egress.clone();
        let waits = waiting.wait_for_room("w");
        let purges = async { fixture.egress.purge(false) };
        let both = async { tokio::join!(waits, purges) };
        timeout(TIMEOUT, both).await.expect("told");
        fixture.egress.burst().try_send("w", &message(1, 1_000)).expect("room");
    });
}

/// Sends 8 MiB to a worker that reads nothing, purges, and returns the bytes that the worker can
/// still read.
async fn read_after_purge(fixture: &Fixture, finished: bool) -> usize {
    let mut worker = Worker::dial_with(fixture.port, "w", Some(16 << 10)).await;
    fixture.connected("w").await;
    fixture.send("w", &message(1, 8 << 20)).await;
    // A part of it is written.
    worker.stream.readable().await.expect("readable");
    eventually("some of it is written", || fixture.peer("w").is_some_and(|peer| peer.bytes_out > 0)).await;
    fixture.egress.purge(finished);
    assert!(fixture.peer("w").is_none_or(|peer| !peer.connected));
    let mut read = Vec::new();
    let end = timeout(TIMEOUT, worker.stream.read_to_end(&mut read)).await.expect("it ends");
    assert!(end.is_err(), "a reset, not an end");
    read.len()
}

#[test]
fn a_connection_with_a_part_of_the_old_mapping_is_reset() {
    Fixture::run(EgressLimits::default(), |fixture| async move {
        for finished in [true, false] {
            let read = read_after_purge(&fixture, finished).await;
            assert!(read < 1 << 20, "only what the worker's side had already: {read} bytes");
            // The worker connects again and gets the new mapping from its beginning.
            let mut worker = Worker::dial(fixture.port, "w").await;
            fixture.connected("w").await;
            fixture.send("w", &message(0, 5)).await;
            assert_eq!(worker.next().await, Some(parts(&message(0, 5))));
            fixture.egress.purge(false);
        }
        eventually("resets are counted", || fixture.metric("egress", "connections_reset") == 4).await;
    });
}

#[test]
fn messages_in_the_kernels_buffer_are_dropped() {
    Fixture::run(EgressLimits::default(), |fixture| async move {
        let mut worker = Worker::dial_with(fixture.port, "w", Some(4 << 10)).await;
        fixture.connected("w").await;
        // The kernel takes all of it, the worker's receive buffer only a part.
        fixture.send("w", &message(1, 20_000)).await;
        eventually("the kernel has it", || fixture.peer("w").is_some_and(|peer| peer.queued_bytes == 0))
            .await;
        fixture.egress.purge(true);
        assert_eq!(fixture.peer("w"), None, "it was reset");
        let mut read = Vec::new();
        let end = timeout(TIMEOUT, worker.stream.read_to_end(&mut read)).await.expect("it ends");
        assert!(end.is_err() && read.len() < 20_000, "{end:?} after {} bytes", read.len());
    });
}

#[test]
fn a_finished_mapping_keeps_connections_and_an_unfinished_one_keeps_unused_ones() {
    Fixture::run(EgressLimits::default(), |fixture| async move {
        let mut used = Worker::dial(fixture.port, "used").await;
        let mut idle = Worker::dial(fixture.port, "idle").await;
        fixture.connected("used").await;
        fixture.connected("idle").await;
        fixture.send("used", &message(0, 10)).await;
        assert_eq!(used.next().await, Some(parts(&message(0, 10))));
        // The kernel acknowledges the received bytes with the ping.
        used.ping([1; 16]).await;
        let mut pings = fixture.pings.open();
        timeout(TIMEOUT, pings.recv()).await.expect("in time");
        eventually("all is out", || fixture.peer("used").is_some_and(|peer| peer.queued_bytes == 0)).await;
        fixture.egress.purge(true);
        fixture.send("used", &message(1, 10)).await;
        assert_eq!(used.next().await, Some(parts(&message(1, 10))), "over the same connection");
        fixture.egress.purge(false);
        assert_eq!(used.next().await, None, "what it has received cannot be told from what it has read");
        fixture.send("idle", &message(2, 10)).await;
        assert_eq!(idle.next().await, Some(parts(&message(2, 10))));
    });
}

#[test]
fn every_mapping_begins_at_its_first_message() {
    Fixture::run(limits(64 << 10, 64 << 20), |fixture| async move {
        let mut rng = fastrand::Rng::with_seed(3);
        for mapping in 0..40 {
            let first = mapping * 1_000_000;
            let mut worker = Worker::dial_with(fixture.port, "w", Some(16 << 10)).await;
            fixture.connected("w").await;
            let count = rng.u64(1..600);
            let read = rng.u64(0..count);
            let sender = async {
                for number in 0..count {
                    fixture.send("w", &message(first + number, 1_000 + (number % 7) as usize * 1_500)).await;
                }
            };
            let receiver = async {
                for number in 0..read {
                    let expected = message(first + number, 1_000 + (number % 7) as usize * 1_500);
                    assert_eq!(
                        worker.next().await,
                        Some(parts(&expected)),
                        "message {number} of mapping {mapping}"
                    );
                }
            };
            tokio::join!(sender, receiver);
            fixture.egress.purge(rng.bool());
            // Only bytes already received by the worker's side may still arrive; an idle connection
            // may stay.
            let stays = fixture.peer("w").is_some_and(|peer| peer.connected);
            let mut came = read;
            while !stays && worker.next().await.is_some() {
                came += 1;
            }
            assert!(came <= count, "{came} of {count} messages");
            drop(worker);
            eventually("the connection is gone", || fixture.peer("w").is_none_or(|peer| !peer.connected))
                .await;
        }
        eventually("nothing is on disk", || fixture.metric("egress", "spilled_bytes") == 0).await;
    });
}
