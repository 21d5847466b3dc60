//! Delivery: each message arrives once and in order at its worker, over any change of connections.

use std::sync::Arc;

use futures_util::future::join_all;
use orchestrator_supervise::{Command, Origin, testing::eventually};
use tokio::{io::AsyncReadExt, time::timeout};
use zeromq::{DealerSocket, Socket, SocketOptions, SocketRecv, SocketSend};

use super::peer::{Fixture, TIMEOUT, Worker, limits, message, parts};
use crate::edge::egress::{EgressLimits, Message};

async fn dealer(fixture: &Fixture, name: &str) -> DealerSocket {
    let mut options = SocketOptions::default();
    options.peer_identity(name.parse().expect("an identity"));
    let mut socket = DealerSocket::with_options(options);
    socket.connect(&format!("tcp://{}", fixture.port)).await.expect("a listener");
    socket
}

#[test]
fn ten_thousand_messages_of_mixed_sizes_reach_their_dealers_in_order() {
    Fixture::run(EgressLimits::default(), |fixture| async move {
        let names = ["w0", "w1", "w2", "w3"];
        let mut expected: [Vec<Arc<Message>>; 4] = Default::default();
        let mut rng = fastrand::Rng::with_seed(7);
        for number in 0..10_000 {
            let len = match rng.u8(..) {
                0 => 1 << 20,
                1..10 => rng.usize(8_000..100_000),
                10..100 => rng.usize(200..300),
                _ => rng.usize(0..3_000),
            };
            let mut message = message(number, len);
            if rng.bool() {
                let frame = message.frames[0].slice(..len / 2);
                Arc::make_mut(&mut message).frames.push(frame);
            }
            let targets = rng.u8(1..16);
            for (index, queue) in expected.iter_mut().enumerate() {
                if targets & 1 << index != 0 {
                    queue.push(message.clone());
                }
            }
        }
        let receivers = names.iter().zip(&expected).map(|(name, expected)| {
            let fixture = &fixture;
            async move {
                let mut dealer = dealer(fixture, name).await;
                dealer.send(vec![7_u8; 16].into()).await.expect("a ping goes out");
                for (at, expected) in expected.iter().enumerate() {
                    let received = timeout(TIMEOUT, dealer.recv()).await.expect("in time").expect("no error");
                    assert!(received.into_vec() == parts(expected), "message {at} of {name} differs");
                }
            }
        });
        let sender = async {
            let longest = expected.iter().map(Vec::len).max().unwrap_or_default();
            for at in 0..longest {
                for (name, queue) in names.iter().zip(&expected) {
                    if let Some(message) = queue.get(at) {
                        fixture.send(name, message).await;
                    }
                }
            }
        };
        tokio::join!(sender, join_all(receivers));
        let mut pings = fixture.pings.open();
        for _ in names {
            let ping = timeout(TIMEOUT, pings.recv()).await.expect("in time").expect("a ping");
            assert_eq!(ping.service_uuid, [7; 16]);
            assert!(names.contains(&&*ping.worker), "{}", ping.worker);
        }
        eventually("all queues are empty", || {
            fixture.egress.peers().iter().all(|peer| peer.queued_bytes == 0)
        })
        .await;
        for (name, expected) in names.iter().zip(&expected) {
            let state = fixture.peer(name).expect("known");
            assert_eq!(state.events_out, expected.len() as u64);
            assert_eq!(
                state.bytes_out,
                expected.iter().map(|message| message.wire_bytes() as u64).sum::<u64>()
            );
        }
    });
}

#[test]
fn a_worker_that_connects_late_gets_all_and_a_restart_of_the_child_loses_nothing() {
    Fixture::run(EgressLimits::default(), |fixture| async move {
        for number in 0..100 {
            fixture.send("late", &message(number, 1_000)).await;
        }
        let state = fixture.peer("late").expect("known");
        assert_eq!((state.connected, state.queued_messages, state.events_out), (false, 100, 0));
        let origin = Origin { by: "the test".to_owned(), reason: "a restart".to_owned() };
        fixture.tree.command("egress", Command::Restart, &origin).await.expect("restarted");
        let port = fixture.egress.local_addr().expect("a port");
        let mut worker = Worker::dial(port, "late").await;
        for number in 0..100 {
            assert_eq!(worker.next().await, Some(parts(&message(number, 1_000))));
        }
    });
}

#[test]
fn a_new_connection_replaces_one_in_the_middle_of_a_message() {
    Fixture::run(EgressLimits::default(), |fixture| async move {
        let big = message(1, 32 << 20);
        let mut old = Worker::dial_with(fixture.port, "w", Some(16 << 10)).await;
        fixture.connected("w").await;
        fixture.send("w", &message(0, 10)).await;
        fixture.send("w", &big).await;
        fixture.send("w", &message(2, 10)).await;
        assert_eq!(old.next().await, Some(parts(&message(0, 10))));
        let mut some = vec![0; 1 << 20];
        old.stream.read_exact(&mut some).await.expect("the message's beginning");

        let mut new = Worker::dial(fixture.port, "w").await;
        assert!(new.next().await == Some(parts(&big)), "the whole message");
        assert_eq!(new.next().await, Some(parts(&message(2, 10))));
        // The old connection ends without affecting the new one.
        let mut rest = Vec::new();
        let _ = timeout(TIMEOUT, old.stream.read_to_end(&mut rest)).await.expect("it ends");
        assert!(rest.len() < 32 << 20);
        fixture.send("w", &message(3, 10)).await;
        assert_eq!(new.next().await, Some(parts(&message(3, 10))));
        assert!(fixture.peer("w").expect("known").connected);
    });
}

#[test]
fn four_mebibyte_frames_stay_within_the_budget() {
    Fixture::run(limits(32 << 20, 0), |fixture| async move {
        let frame = message(0, 4 << 20);
        let mut taken = 0;
        while fixture.egress.burst().try_send("w", &frame).is_ok() {
            taken += 1;
            assert!(fixture.peer("w").expect("known").queued_bytes <= 32 << 20);
        }
        assert_eq!(taken, 7);
        let mut worker = Worker::dial(fixture.port, "w").await;
        for _ in 0..taken {
            assert!(worker.next().await == Some(parts(&frame)), "a whole frame");
        }
        timeout(TIMEOUT, fixture.egress.wait_for_room("w")).await.expect("room");
    });
}
