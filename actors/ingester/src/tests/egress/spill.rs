//! Spilling to disk and back in order, and failures of the disk.

use std::time::Duration;

use orchestrator_harness::SmallDisk;
use orchestrator_supervise::{Command, Origin, State, testing::eventually};
use tokio::time::timeout;

use super::peer::{Fixture, Worker, limits, message, parts};
use crate::edge::egress::EgressLimits;

#[test]
fn a_disk_that_fails_counts_as_full_until_it_works_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let spill_dir = directory.path().join("gone");
    let limits = EgressLimits { spill_dir: spill_dir.clone(), ..limits(64 << 10, 1 << 30) };
    Fixture::run(limits, |fixture| async move {
        let mut taken = 0;
        while timeout(Duration::from_millis(100), fixture.send("w", &message(taken, 1_000))).await.is_ok() {
            taken += 1;
        }
        assert!(taken < 70, "{taken} messages of 1 kB into 64 KiB of memory");
        assert!(fixture.metric("spill", "spill_failures") > 0);
        let note = fixture.tree.node("spill").and_then(|node| node.note.clone());
        let note = note.expect("a note").text;
        assert!(note.contains("free space there") && note.contains("gone"), "{note}");

        std::fs::create_dir(&spill_dir).expect("a directory");
        let more = taken + 1_000;
        for number in taken..more {
            fixture.send("w", &message(number, 1_000)).await;
        }
        assert!(fixture.peer("w").expect("known").spilled_bytes > 0);
        let mut worker = Worker::dial(fixture.port, "w").await;
        for number in 0..more {
            assert_eq!(worker.next().await, Some(parts(&message(number, 1_000))));
        }
    });
}

#[test]
fn a_full_disk_counts_as_full_and_loses_nothing() {
    SmallDisk::with(4, "tests::egress::spill::a_full_disk_counts_as_full_and_loses_nothing", |disk| {
        let limits = EgressLimits { spill_dir: disk.path().to_owned(), ..limits(64 << 10, 1 << 30) };
        Fixture::run(limits, |fixture| async move {
            let mut taken = 0;
            while timeout(Duration::from_millis(200), fixture.send("w", &message(taken, 1_000))).await.is_ok()
            {
                taken += 1;
            }
            assert!((3_000..4_500).contains(&taken), "{taken} messages of 1 kB onto 4 MiB");
            assert!(fixture.metric("spill", "spill_failures") > 0);
            let mut worker = Worker::dial(fixture.port, "w").await;
            let more = taken + 5_000;
            let sender = async {
                for number in taken..more {
                    fixture.send("w", &message(number, 1_000)).await;
                }
            };
            let receiver = async {
                for number in 0..more {
                    assert_eq!(worker.next().await, Some(parts(&message(number, 1_000))), "message {number}");
                }
            };
            tokio::join!(sender, receiver);
        });
    });
}

#[test]
fn crashes_of_the_thread_and_lost_connections_lose_no_queued_message() {
    Fixture::run(limits(128 << 10, 256 << 20), |fixture| async move {
        const COUNT: u64 = 20_000;
        let origin = Origin { by: "the test".to_owned(), reason: "chaos".to_owned() };
        let calm = tokio::sync::Notify::new();
        let sender = async {
            for number in 0..COUNT {
                fixture.send("w", &message(number, 500)).await;
                if number % 8_000 == 2_000 {
                    let running =
                        || fixture.tree.node("spill").is_some_and(|node| node.state == State::Running);
                    eventually("it runs", running).await;
                    fixture.tree.command("spill", Command::Panic, &origin).await.expect("it panics");
                }
            }
            calm.notified().await;
            fixture.send("w", &message(COUNT, 500)).await;
        };
        let receiver = async {
            let mut next = 0;
            // The first three connections are lost in mid-transfer; the kernel's buffers are
            // smaller than the total.
            for last in [false, false, false, true] {
                let mut worker = Worker::dial_with(fixture.port, "w", Some(16 << 10)).await;
                fixture.connected("w").await;
                if last {
                    calm.notify_one();
                }
                let mut left = 500_i64;
                while next <= COUNT && (last || left > 0) {
                    let parts = worker.next().await.expect("a message");
                    let header = std::str::from_utf8(&parts[0]).expect("text");
                    let number: u64 = header[16..header.len() - 1].parse().expect("a number");
                    // Messages in the kernel's buffers are lost with a connection; none is repeated
                    // or reordered.
                    assert!(number == next || left == 500 && number > next, "{number} instead of {next}");
                    next = number + 1;
                    left -= 1;
                }
            }
        };
        tokio::join!(sender, receiver);
        eventually("nothing is left", || fixture.peer("w").is_some_and(|peer| peer.queued_messages == 0))
            .await;
    });
}
