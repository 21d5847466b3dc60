//! Messages from workers: pings and others. Attacks on the port are in `tests/hostile`.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::peer::{Fixture, TIMEOUT, Worker, message, parts};
use crate::edge::egress::EgressLimits;

#[test]
fn bad_pings_are_counted_and_change_nothing() {
    Fixture::run(EgressLimits::default(), |fixture| async move {
        let mut worker = Worker::dial(fixture.port, "w").await;
        let mut pings = fixture.pings.open();
        worker.stream.write_all(b"\0\x05short\x01\x10aaaaaaaaaaaaaaaa\0\x01b").await.expect("room");
        worker
            .stream
            .write_all(&[&b"\x02\0\0\0\0\0\x01\0\0"[..], &[0; 65_536]].concat())
            .await
            .expect("room");
        // A PING of ZMTP is answered between messages.
        worker.stream.write_all(b"\x04\x09\x04PING\0\x0ahi").await.expect("room");
        worker.ping([9; 16]).await;
        let ping = timeout(TIMEOUT, pings.recv()).await.expect("in time").expect("a ping");
        assert_eq!((&*ping.worker, ping.service_uuid), ("w", [9; 16]));
        assert_eq!(fixture.metric("egress", "bad_pings"), 3);
        let mut answer = vec![0; 30 + 9];
        worker.stream.read_exact(&mut answer).await.expect("READY and PONG");
        assert!(answer.ends_with(b"\x04\x07\x04PONGhi"), "{}", answer.escape_ascii());
        fixture.send("w", &message(1, 100)).await;
        assert_eq!(worker.next().await, Some(parts(&message(1, 100))));
    });
}
