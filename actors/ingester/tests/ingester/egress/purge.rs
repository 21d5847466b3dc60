//! The change of mappings: nothing of the old one reaches a worker afterwards.

use super::peer::{House, PATIENCE, Worker, limits, message, parts};
use orchestrator_ingester::edge::egress::EgressLimits;
use orchestrator_supervise::testing::eventually;
use tokio::{io::AsyncReadExt, time::timeout};

#[test]
fn what_waits_is_dropped_and_who_is_away_is_forgotten() {
    House::run(limits(64 << 10, 16 << 20), |house| async move {
        for number in 0..2_000 {
            house.send("away", &message(number, 1_000)).await;
        }
        eventually("it spills", || house.peer("away").is_some_and(|peer| peer.spilled_bytes > 1 << 20)).await;
        house.egress.purge(true);
        assert_eq!(house.egress.peers(), []);
        eventually("nothing is on disk", || house.figure("egress", "spilled_bytes") == 0).await;
        house.send("away", &message(7, 10)).await;
        let mut worker = Worker::dial(house.port, "away").await;
        assert_eq!(worker.next().await, Some(parts(&message(7, 10))));
    });
}

#[test]
fn who_waits_for_room_is_told() {
    House::run(limits(64 << 10, 0), |house| async move {
        while house.egress.try_send("w", &message(0, 1_000)).is_ok() {}
        let waiting = house.egress.clone();
        let waits = waiting.room("w");
        let purges = async { house.egress.purge(false) };
        let both = async { tokio::join!(waits, purges) };
        timeout(PATIENCE, both).await.expect("told");
        house.egress.try_send("w", &message(1, 1_000)).expect("room");
    });
}

/// Sends 8 MiB to a worker that reads nothing, of which the kernel takes a part, changes the mapping, and gives what the worker could read.
async fn read_after_purge(house: &House, finished: bool) -> usize {
    let mut worker = Worker::dial_with(house.port, "w", Some(16 << 10)).await;
    house.connected("w").await;
    house.send("w", &message(1, 8 << 20)).await;
    // Some of it is written.
    worker.stream.readable().await.expect("readable");
    eventually("some of it is written", || house.peer("w").is_some_and(|peer| peer.bytes_out > 0)).await;
    house.egress.purge(finished);
    assert!(house.peer("w").is_none_or(|peer| !peer.connected));
    let mut read = Vec::new();
    let end = timeout(PATIENCE, worker.stream.read_to_end(&mut read)).await.expect("it ends");
    assert!(end.is_err(), "a reset, not an end");
    read.len()
}

#[test]
fn a_connection_with_a_part_of_the_old_mapping_is_reset() {
    House::run(EgressLimits::default(), |house| async move {
        for finished in [true, false] {
            let read = read_after_purge(&house, finished).await;
            assert!(read < 1 << 20, "only what the worker's side had already: {read} bytes");
            // It dials again, and gets the new mapping from its beginning.
            let mut worker = Worker::dial(house.port, "w").await;
            house.connected("w").await;
            house.send("w", &message(0, 5)).await;
            assert_eq!(worker.next().await, Some(parts(&message(0, 5))));
            house.egress.purge(false);
        }
        eventually("resets are counted", || house.figure("egress", "connections_reset") == 4).await;
    });
}

#[test]
fn what_only_the_kernel_still_has_is_thrown_away_too() {
    House::run(EgressLimits::default(), |house| async move {
        let mut worker = Worker::dial_with(house.port, "w", Some(4 << 10)).await;
        house.connected("w").await;
        // The kernel takes all of it, and the worker's side less.
        house.send("w", &message(1, 20_000)).await;
        eventually("the kernel has it", || house.peer("w").is_some_and(|peer| peer.queued_bytes == 0)).await;
        house.egress.purge(true);
        assert_eq!(house.peer("w"), None, "it was reset");
        let mut read = Vec::new();
        let end = timeout(PATIENCE, worker.stream.read_to_end(&mut read)).await.expect("it ends");
        assert!(end.is_err() && read.len() < 20_000, "{end:?} after {} bytes", read.len());
    });
}

#[test]
fn a_finished_mapping_leaves_workers_connected_and_an_unfinished_one_those_it_did_not_use() {
    House::run(EgressLimits::default(), |house| async move {
        let mut used = Worker::dial(house.port, "used").await;
        let mut idle = Worker::dial(house.port, "idle").await;
        house.connected("used").await;
        house.connected("idle").await;
        house.send("used", &message(0, 10)).await;
        assert_eq!(used.next().await, Some(parts(&message(0, 10))));
        // With a ping the kernel confirms what has come.
        used.ping([1; 16]).await;
        let mut pings = house.pings.open();
        timeout(PATIENCE, pings.recv()).await.expect("in time");
        eventually("all is out", || house.peer("used").is_some_and(|peer| peer.queued_bytes == 0)).await;
        house.egress.purge(true);
        house.send("used", &message(1, 10)).await;
        assert_eq!(used.next().await, Some(parts(&message(1, 10))), "over the same connection");
        house.egress.purge(false);
        assert_eq!(used.next().await, None, "what it has received cannot be told from what it has read");
        house.send("idle", &message(2, 10)).await;
        assert_eq!(idle.next().await, Some(parts(&message(2, 10))));
    });
}

#[test]
fn mapping_after_mapping_begins_at_its_first_message_whatever_the_last_one_left() {
    House::run(limits(64 << 10, 64 << 20), |house| async move {
        let mut dice = fastrand::Rng::with_seed(3);
        for mapping in 0..40 {
            let first = mapping * 1_000_000;
            let mut worker = Worker::dial_with(house.port, "w", Some(16 << 10)).await;
            house.connected("w").await;
            let count = dice.u64(1..600);
            let read = dice.u64(0..count);
            let sender = async {
                for number in 0..count {
                    house.send("w", &message(first + number, 1_000 + (number % 7) as usize * 1_500)).await;
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
            house.egress.purge(dice.bool());
            // What the worker's side had is all that may still come; a connection that was done may stay.
            let stays = house.peer("w").is_some_and(|peer| peer.connected);
            let mut came = read;
            while !stays && worker.next().await.is_some() {
                came += 1;
            }
            assert!(came <= count, "{came} of {count} messages");
            drop(worker);
            eventually("the connection is gone", || house.peer("w").is_none_or(|peer| !peer.connected)).await;
        }
        eventually("nothing is on disk", || house.figure("egress", "spilled_bytes") == 0).await;
    });
}
