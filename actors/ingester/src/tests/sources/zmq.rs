//! PULL and SUB against an independent implementation of ZeroMQ.

use bytes::Bytes;
use futures_util::StreamExt;
use orchestrator_harness::free_port;
use orchestrator_ingester_protocols::{Machine, stins::Stins};
use orchestrator_ingester_zmtp::{FrameLimits, SocketType, encode_message};
use orchestrator_observe::Link;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use zeromq::{Endpoint, PubSocket, PushSocket, Socket, SocketSend, ZmqMessage};

use super::support::{bench, bench_with_reader_child, in_time, item, make, take, until, upstream};
use crate::{
    edge::sources::{Address, ZmqSource},
    source::Source,
    tests::captures::{ZMQ_CASES, compare, messages},
};

fn message(parts: Vec<Bytes>) -> ZmqMessage {
    ZmqMessage::try_from(parts).expect("a part")
}

fn port(endpoint: &Endpoint) -> u16 {
    match endpoint {
        Endpoint::Tcp(_, port) => *port,
        other => panic!("{other} is no TCP"),
    }
}

/// Number of items that the original makes of a case.
fn expected(case: &str) -> usize {
    let mut recogniser = crate::tests::captures::recogniser(case);
    let mut items = std::collections::VecDeque::new();
    messages(case).into_iter().for_each(|message| drop(recogniser.feed(message.into(), &mut items)));
    items.len()
}

#[test]
fn pushed_messages_arrive_as_the_originals_items() {
    for case in ZMQ_CASES.iter().filter(|case| case.starts_with("stins") || case.starts_with("eiger")) {
        bench(async |bench| {
            let mut push = PushSocket::new();
            let endpoint = push.bind("tcp://127.0.0.1:0").await.expect("a port");
            let name = case.split_once('-').expect("protocol-case").0;
            let mut source = make(name, &upstream(port(&endpoint))).expect("a source");
            let mut items = source.run(bench.cx("s"));
            until(&mut items, "the connection", || bench.is_up()).await;
            for parts in messages(case) {
                push.send(message(parts)).await.expect("a peer");
            }
            let ours = take(&mut items, expected(case)).await;
            compare(case, ours);
        });
    }
}

#[test]
fn published_messages_arrive_as_the_originals_items() {
    for case in ZMQ_CASES
        .iter()
        .filter(|case| case.ends_with("plain") && !case.starts_with("stins") && !case.starts_with("eiger"))
    {
        bench(async |bench| {
            let mut publisher = PubSocket::new();
            let endpoint = publisher.bind("tcp://127.0.0.1:0").await.expect("a port");
            let name = case.split_once('-').expect("protocol-case").0;
            let mut source = make(name, &upstream(port(&endpoint))).expect("a source");
            let mut items = source.run(bench.cx("s"));
            // The time of the subscription is unknown: it is complete when an invalid message is
            // counted.
            while bench.counts.invalid.get() == 0 {
                publisher.send(message(vec![Bytes::from_static(b"nothing")])).await.expect("a publisher");
                let a_moment = tokio::time::timeout(std::time::Duration::from_millis(5), items.next()).await;
                assert!(a_moment.is_err(), "{a_moment:?}");
            }
            for parts in messages(case) {
                publisher.send(message(parts)).await.expect("a publisher");
            }
            let ours = take(&mut items, expected(case)).await;
            compare(case, ours);
        });
    }
}

#[test]
fn a_series_goes_on_after_the_source_was_restarted() {
    bench(async |bench| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut source = make("ZmqPullSingleIngester", &upstream(port)).expect("a source");
        let mut items = source.run(bench.cx("s"));
        until(&mut items, "the link to be down", || bench.down().is_some()).await;
        let reason = bench.down().expect("down");
        assert!(
            reason.contains(&format!("tcp://127.0.0.1:{port}")) && reason.contains("start the source"),
            "{reason}"
        );

        let messages = messages("stins-plain");
        let mut taken = Vec::new();
        for half in [&messages[..3], &messages[3..]] {
            let mut push = PushSocket::new();
            push.bind(&format!("tcp://127.0.0.1:{port}")).await.expect("the port");
            until(&mut items, "the connection", || bench.is_up()).await;
            for parts in half {
                push.send(message(parts.clone())).await.expect("a peer");
            }
            taken.extend(take(&mut items, half.len()).await);
            drop(push);
            until(&mut items, "the link to be down", || bench.down().is_some()).await;
        }
        assert_eq!(
            taken.iter().map(|item| item.number).collect::<Vec<_>>(),
            [None, Some(0), Some(1), Some(2), Some(3), None]
        );
        assert_eq!(bench.counts.reconnects.get(), 1);
        compare("stins-plain", taken);
    });
}

#[test]
fn a_new_run_waits_for_a_start_and_the_old_connection_is_closed() {
    bench(async |bench| {
        let mut push = PushSocket::new();
        let endpoint = push.bind("tcp://127.0.0.1:0").await.expect("a port");
        let mut source = make("stins", &upstream(port(&endpoint))).expect("a source");
        let messages = messages("stins-plain");
        let mut items = source.run(bench.cx("s"));
        until(&mut items, "the connection", || bench.is_up()).await;
        push.send(message(messages[0].clone())).await.expect("a peer");
        item(&mut items).await;
        drop(items);
        source.stop();
        assert!(!bench.is_up(), "the link tells of a run that is over");

        let mut items = source.run(bench.cx("s"));
        until(&mut items, "the connection", || bench.is_up()).await;
        // Goes to the old connection until the other side has noticed its end.
        let outside = bench.counts.outside.get();
        while bench.counts.outside.get() == outside {
            let _ = push.send(message(messages[1].clone())).await;
            let a_moment = tokio::time::timeout(std::time::Duration::from_millis(5), items.next()).await;
            assert!(a_moment.is_err(), "an image before its start: {a_moment:?}");
        }
        let first = loop {
            let _ = push.send(message(messages[0].clone())).await;
            if let Ok(item) = tokio::time::timeout(std::time::Duration::from_millis(5), items.next()).await {
                break item.expect("no end").expect("no error");
            }
        };
        assert_eq!(first.frames[..], messages[0]);
    });
}

/// Accepts a connection, completes a PUSH's handshake and sends `bytes`.
async fn raw_peer(listener: &TcpListener, bytes: &[u8]) -> tokio::net::TcpStream {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL".to_vec();
    greeting.resize(64, 0);
    greeting.extend_from_slice(b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PUSH");
    greeting.extend_from_slice(bytes);
    stream.write_all(&greeting).await.expect("room");
    stream
}

#[test]
fn a_frame_that_is_too_long_costs_the_connection_and_nothing_else() {
    bench(async |bench| {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Address::parse(&format!("tcp://{}", listener.local_addr().expect("an address")))
            .expect("an address");
        let limits = FrameLimits { frame_max: 1000, message_max: 1000, parts_max: 8 };
        let mut source =
            ZmqSource::new(address, SocketType::Pull, || Box::new(Machine::new(Stins::default())))
                .limits(limits);
        let mut items = source.run(bench.cx("s"));
        for hostile in [&b"\x02\0\0\x01\0\0\0\0\0"[..], b"\x02\0\0\0\0\0\0\x03\xe9"] {
            let peer = async {
                let mut stream = raw_peer(&listener, hostile).await;
                let mut rest = Vec::new();
                // Closed by the source.
                let _ = stream.read_to_end(&mut rest).await;
            };
            tokio::select! {
                item = items.next() => panic!("{item:?}"),
                () = in_time("the end of the connection", peer) => {}
            }
        }
        let start = br#"{"msg_number":0,"filename":""}"#;
        let framed = [&[0, u8::try_from(start.len()).expect("short")], &start[..]].concat();
        let (stream, item) = tokio::join!(raw_peer(&listener, &framed), item(&mut items));
        assert_eq!(item.frames[..], [&start[..]]);
        drop(stream);
    });
}

/// A start, then images of these sizes.
fn images(sizes: &[usize]) -> Vec<Vec<Bytes>> {
    let all = messages("stins-plain");
    let image = |(number, size): (usize, &usize)| {
        let pixels = Bytes::from(vec![number as u8; *size]);
        vec![all[1][0].clone(), pixels]
    };
    [vec![all[0].clone()], sizes.iter().enumerate().map(image).collect()].concat()
}

const LONG: usize = 3 << 20;

#[test]
fn long_messages_and_short_ones_keep_their_order() {
    let port = free_port();
    bench_with_reader_child("stins", &upstream(port), async |bench, mut source| {
        let mut push = PushSocket::new();
        push.bind(&format!("tcp://127.0.0.1:{port}")).await.expect("the port");
        let mut items = source.run(bench.cx("s"));
        until(&mut items, "the connection", || bench.is_up()).await;
        // Many short messages move the connection back to the stream's own arbiter.
        let short: Vec<usize> = (0..200).collect();
        let sizes = [&[9, LONG, 10, LONG, LONG, 11, LONG][..], &short, &[LONG, 12, LONG]].concat();
        for wanted in images(&sizes) {
            let (taken, pushed) = tokio::join!(item(&mut items), push.send(message(wanted.clone())));
            pushed.expect("a peer");
            assert!(taken.frames[..] == wanted[..], "another one than {} bytes", wanted.concat().len());
        }
    });
}

/// A retained message, as in a slow worker's queue, does not delay the next ones.
#[test]
fn retained_long_messages_delay_nothing() {
    let port = free_port();
    bench_with_reader_child("stins", &upstream(port), async |bench, mut source| {
        let mut push = PushSocket::new();
        push.bind(&format!("tcp://127.0.0.1:{port}")).await.expect("the port");
        let mut items = source.run(bench.cx("s"));
        until(&mut items, "the connection", || bench.is_up()).await;
        let mut kept = Vec::new();
        for wanted in images(&[LONG; 6]) {
            let (taken, pushed) = tokio::join!(item(&mut items), push.send(message(wanted.clone())));
            pushed.expect("a peer");
            kept.push((taken, wanted));
        }
        assert!(kept.iter().all(|(taken, wanted)| taken.frames[..] == wanted[..]), "no buffer is used twice");
    });
}

/// A run that ends in the middle of a large message closes its connection, and the next one dials
/// again.
#[test]
fn a_run_ends_in_the_middle_of_a_long_message() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("a socket");
    bench_with_reader_child("stins", &upstream(port), async |bench, mut source| {
        let listener = TcpListener::from_std(listener).expect("a reactor");
        for _ in 0..2 {
            let mut items = source.run(bench.cx("s"));
            let mut wire = Vec::new();
            for parts in images(&[LONG, LONG]) {
                encode_message(&parts, &mut wire);
            }
            let whole = wire.len() - LONG / 2;
            let peer = async {
                let mut stream = raw_peer(&listener, b"").await;
                stream.write_all(&wire[..whole]).await.expect("a reader");
                stream
            };
            let (mut stream, taken) = tokio::join!(peer, take(&mut items, 2));
            assert_eq!(taken[1].frames[1].len(), LONG);
            let more = tokio::time::timeout(std::time::Duration::from_millis(50), items.next()).await;
            assert!(more.is_err(), "half of a message: {more:?}");
            drop(items);
            source.stop();
            // A reset also shows that the connection is closed.
            let _ = in_time("the connection's end", stream.read_to_end(&mut Vec::new())).await;
        }
    });
}

#[test]
fn a_closed_port_is_dialled_at_a_constant_short_interval() {
    bench(async |bench| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut source = make("stins", &upstream(port)).expect("a source");
        let mut items = source.run(bench.cx("s"));
        // With delays that double, the tenth attempt would be announced for 0.8 s or more after the ninth.
        let mut seen = std::collections::BTreeSet::new();
        until(&mut items, "ten attempts", || {
            let Some((_, _, Link::Down { retry_at, .. })) = bench.vitals.link_state() else { return false };
            let delay = retry_at.saturating_duration_since(std::time::Instant::now());
            assert!(
                delay <= std::time::Duration::from_millis(100),
                "{delay:?} after {} attempts",
                seen.len()
            );
            seen.insert(retry_at);
            seen.len() == 10
        })
        .await;
    });
}
