//! Whoever can reach the port can neither end the process nor keep workers out.

use std::{net::SocketAddr, time::Duration};

use super::peer::{House, PATIENCE, Worker, message, opening, parts};
use orchestrator_ingester::edge::egress::EgressLimits;
use orchestrator_supervise::testing::eventually;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Sends `bytes` and gives what comes until the other side ends the connection.
async fn say(port: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(port).await.expect("a listener");
    // It may be refused before it is through.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it is closed");
    answer
}

async fn still_serves(house: &House) {
    let mut worker = Worker::dial(house.port, "good").await;
    house.send("good", &message(1, 100)).await;
    assert_eq!(worker.next().await, Some(parts(&message(1, 100))));
}

#[test]
fn impossible_bytes_end_their_own_connection_only() {
    House::run(EgressLimits::default(), |house| async move {
        let ready = opening("evil");
        let curve = [&ready[..12], b"CURVE", &[0; 47]].concat();
        let publisher = String::from_utf8_lossy(&ready).replace("DEALER", "PUBXYZ");
        let cases: [&[u8]; 11] = [
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\xff\0\0\0\0\0\0\0\x01\x7f\x01\x05",
            &[0; 64],
            &[0xff; 200],
            &curve,
            // 2^40 bytes as a command before, and as a message before and after the handshake.
            &[&ready[..64], b"\x06\0\0\x01\0\0\0\0\0"].concat(),
            &[&ready[..64], b"\x02\0\0\x01\0\0\0\0\0"].concat(),
            &[&ready[..], b"\x02\0\0\x01\0\0\0\0\0"].concat(),
            &[&ready[..], b"\x02\xff\xff\xff\xff\xff\xff\xff\xff"].concat(),
            &[&ready[..], b"\xf8\0"].concat(),
            &opening(""),
        ];
        for bytes in cases {
            say(house.port, bytes).await;
        }
        let answer = say(house.port, &[&ready[..64], publisher.as_bytes()].concat()).await;
        assert!(answer.len() >= 64);
        let mut dice = fastrand::Rng::with_seed(11);
        for _ in 0..200 {
            let garbage: Vec<u8> = (0..300).map(|_| dice.u8(..)).collect();
            say(house.port, &[&ready[..], &garbage, b"\xff"].concat()).await;
        }
        eventually("all are gone", || house.figure("egress", "connections") == 0).await;
        assert!(house.figure("egress", "handshakes_refused") >= 9);
        assert_eq!(house.egress.peers(), [], "strangers leave nothing behind");
        still_serves(&house).await;
    });
}

#[test]
fn bad_pings_are_counted_and_change_nothing() {
    House::run(EgressLimits::default(), |house| async move {
        let mut worker = Worker::dial(house.port, "w").await;
        let mut pings = house.pings.open();
        worker.stream.write_all(b"\0\x05short\x01\x10aaaaaaaaaaaaaaaa\0\x01b").await.expect("room");
        worker
            .stream
            .write_all(&[&b"\x02\0\0\0\0\0\x01\0\0"[..], &[0; 65_536]].concat())
            .await
            .expect("room");
        // A PING of ZMTP is answered, between messages.
        worker.stream.write_all(b"\x04\x09\x04PING\0\x0ahi").await.expect("room");
        worker.ping([9; 16]).await;
        let ping = timeout(PATIENCE, pings.recv()).await.expect("in time").expect("a ping");
        assert_eq!((&*ping.worker, ping.service_uuid), ("w", [9; 16]));
        assert_eq!(house.figure("egress", "bad_pings"), 3);
        let mut answer = vec![0; 30 + 9];
        worker.stream.read_exact(&mut answer).await.expect("READY and PONG");
        assert!(answer.ends_with(b"\x04\x07\x04PONGhi"), "{}", answer.escape_ascii());
        house.send("w", &message(1, 100)).await;
        assert_eq!(worker.next().await, Some(parts(&message(1, 100))));
    });
}

#[test]
fn half_handshakes_are_closed() {
    let limits = EgressLimits { handshake_deadline: Duration::from_millis(50), ..EgressLimits::default() };
    House::run(limits, |house| async move {
        let ready = opening("half");
        for cut in [0, 5, 11, 63, 64, 80] {
            let answer = say(house.port, &ready[..cut]).await;
            assert_eq!(answer.len(), 94, "our greeting and READY, after {cut} bytes");
        }
        still_serves(&house).await;
    });
}

#[test]
fn a_crowd_of_strangers_keeps_no_worker_out() {
    let handshake_deadline = Duration::from_secs(120);
    let limits = EgressLimits { connections_max: Some(100), handshake_deadline, ..EgressLimits::default() };
    House::run(limits, |house| async move {
        let mut workers = Vec::new();
        for number in 0..5 {
            let mut worker = Worker::dial(house.port, &format!("w{number}")).await;
            worker.ping([number; 16]).await;
            workers.push(worker);
        }
        let mut pings = house.pings.open();
        for _ in &workers {
            timeout(PATIENCE, pings.recv()).await.expect("in time");
        }
        // Mostly silent; some finish the handshake, and wait.
        let mut crowd = Vec::new();
        for number in 0..1_500 {
            let mut stream = TcpStream::connect(house.port).await.expect("accepted");
            if number % 10 == 0 {
                let _ = stream.write_all(&opening(&format!("stranger {number}"))).await;
            }
            crowd.push(stream);
            if number % 300 == 299 {
                let mut late = Worker::dial(house.port, &format!("late {number}")).await;
                late.ping([0; 16]).await;
                let ping = timeout(PATIENCE, pings.recv()).await.expect("in time").expect("a ping");
                assert_eq!(&*ping.worker, format!("late {number}"));
                workers.push(late);
            }
        }
        eventually("the crowd is thinned", || house.figure("egress", "connections") <= 100).await;
        assert!(house.figure("egress", "connections_sent_away") >= 1_400);
        for (number, worker) in workers.iter_mut().enumerate().take(5) {
            let name = format!("w{number}");
            house.send(&name, &message(1, 100)).await;
            assert_eq!(worker.next().await, Some(parts(&message(1, 100))), "{name} is still connected");
        }
        assert!(house.egress.peers().len() <= 100, "strangers leave nothing behind");
    });
}
