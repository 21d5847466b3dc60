//! Sardana's posts, sent over plain sockets.

use std::{
    io::Write,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::support::{DEADLINE, bench, bench_with_reader_child, in_time, item, make, take, until};
use crate::{
    source::{Registry, SourceOptions},
    tests::captures::{compare, messages, path},
};

fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address")
}

fn options(address: SocketAddr) -> SourceOptions {
    SourceOptions { listen: Some(address.to_string()), ..SourceOptions::default() }
}

/// Status and body of the answer.
async fn post(address: SocketAddr, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("a server");
    let kind = if kind.is_empty() { String::new() } else { format!("content-type: {kind}\r\n") };
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{kind}content-length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await.expect("room");
    let mut answer = String::new();
    in_time("an answer", stream.read_to_string(&mut answer)).await.expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").expect("a body").1.to_owned())
}

const DESCRIPTION: &[u8] = br#"{"serialno":1,"scandir":"a","title":"b"}"#;

#[test]
fn posts_are_answered_and_arrive_as_the_originals() {
    for case in ["sardana-plain", "sardana-odd"] {
        bench(async |bench| {
            let address = free_address();
            let mut source = make("HttpSardanaIngester", &options(address)).expect("a source");
            let mut items = source.run(bench.cx("s"));
            until(&mut items, "the server", || bench.is_up()).await;
            let statuses = std::fs::read_to_string(path(&format!("{case}.status.json"))).expect("statuses");
            let statuses: Vec<(u16, String)> = serde_json::from_str(&statuses).expect("JSON");
            let text = |part: &[u8]| String::from_utf8(part.to_vec()).expect("text");
            for (parts, (status, body)) in messages(case).iter().zip(statuses) {
                let answer = post(address, &text(&parts[0]), &text(&parts[1]), &parts[2]).await;
                assert_eq!(answer.0, status, "{case}: {parts:?}: {}", answer.1);
                assert!(status != 200 || answer.1 == body, "{}", answer.1);
            }
            let count = if case == "sardana-plain" { 4 } else { 10 };
            let ours = take(&mut items, count).await;
            compare(case, ours);
        });
    }
}

#[test]
fn posts_between_runs_are_answered_and_dropped() {
    bench(async |bench| {
        let address = free_address();
        let mut source = make("sardana", &options(address)).expect("a source");
        let mut items = source.run(bench.cx("s"));
        until(&mut items, "the server", || bench.is_up()).await;
        drop(items);
        source.stop();
        assert_eq!(
            post(address, "/v1/data_desc", "application/json", DESCRIPTION).await,
            (200, "null".to_owned())
        );
        assert_eq!(bench.counts.outside.get(), 1);
        let mut items = source.run(bench.cx("s"));
        assert!(bench.is_up(), "the server stays");
        let new = br#"{"serialno":2,"scandir":"a","title":"b"}"#;
        assert_eq!(post(address, "/v1/data_desc", "", new).await.0, 200);
        assert!(item(&mut items).await.frames[0].starts_with(br#"{"type":"DataDescription","serialno":2"#));
        // The port closes with its source and registry.
        drop(items);
        drop(source);
        orchestrator_supervise::testing::eventually("the port is free", || {
            std::net::TcpListener::bind(address).is_ok()
        })
        .await;
    });
}

/// A client that finds the port open relies on the answer: losing the start would lose the whole
/// scan.
#[test]
fn the_first_post_to_a_port_that_opens_is_an_item() {
    for round in 0..200 {
        bench(async |bench| {
            let address = free_address();
            let mut source = make("sardana", &options(address)).expect("a source");
            let mut items = source.run(bench.cx("s"));
            // On another thread, to be faster than the run.
            let first = std::thread::spawn(move || {
                let deadline = std::time::Instant::now() + DEADLINE;
                let mut stream = loop {
                    // A connection to a closed port may get that port as its own and connect to itself.
                    match std::net::TcpStream::connect(address) {
                        Ok(stream) if stream.local_addr().ok() != Some(address) => break stream,
                        _ => assert!(std::time::Instant::now() < deadline, "the port opens"),
                    }
                };
                let length = DESCRIPTION.len();
                let head =
                    format!("POST /v1/data_desc HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all(&[head.as_bytes(), DESCRIPTION].concat()).expect("room");
                stream
            });
            assert_eq!(take(&mut items, 1).await.len(), 1, "in round {round}");
            drop(first.join().expect("the post"));
        });
    }
}

/// Each mapping creates new sources.
#[test]
fn the_port_stays_open_for_the_next_source() {
    bench(async |bench| {
        let address = free_address();
        let registry = Registry::standard();
        let make = registry.get("sardana").expect("a known name");
        for _ in 0..3 {
            let mut source = make(&options(address)).expect("a source");
            let mut items = source.run(bench.cx("s"));
            until(&mut items, "the server", || bench.is_up()).await;
            assert_eq!(post(address, "/v1/data_desc", "", DESCRIPTION).await.0, 200);
            item(&mut items).await;
            drop(items);
            source.stop();
            drop(source);
            assert_eq!(post(address, "/v1/record_end", "", b"{}").await.0, 200);
        }
        assert_eq!(bench.counts.outside.get(), 3);
    });
}

/// A client may look for the server before it asks for a scan.
#[test]
fn the_port_is_open_before_the_first_mapping() {
    let address = free_address();
    bench_with_reader_child("sardana", &options(address), async |bench, mut source| {
        orchestrator_supervise::testing::eventually("the server", || {
            std::net::TcpStream::connect(address).is_ok()
        })
        .await;
        assert_eq!(post(address, "/v1/data_desc", "", DESCRIPTION).await.0, 200);
        let mut items = source.run(bench.cx("s"));
        assert!(bench.is_up(), "the source has the server of the ingester");
        let new = br#"{"serialno":2,"scandir":"a","title":"b"}"#;
        assert_eq!(post(address, "/v1/data_desc", "", new).await.0, 200);
        assert!(item(&mut items).await.frames[0].starts_with(br#"{"type":"DataDescription","serialno":2"#));
        assert_eq!(bench.counts.outside.get(), 0);
    });
}

/// Another stream at the same address does not get the first one's posts.
#[test]
fn a_server_belongs_to_one_source_at_a_time() {
    bench(async |bench| {
        let address = free_address();
        let registry = Registry::standard();
        let make = |name| registry.get(name).expect("a known name")(&options(address)).expect("a source");
        let (mut first, mut second) = (make("sardana"), make("HttpSardanaIngester"));
        let mut items = first.run(bench.cx("s"));
        until(&mut items, "the server", || bench.is_up()).await;
        let mut others = second.run(bench.cx("t"));
        until(&mut others, "the link to be down", || {
            bench.down().is_some_and(|why| why.contains("free the port"))
        })
        .await;
        assert_eq!(post(address, "/v1/data_desc", "", DESCRIPTION).await.0, 200);
        item(&mut items).await;
    });
}

#[test]
fn a_slow_run_blocks_the_sender_within_bounded_memory() {
    bench(async |bench| {
        let address = free_address();
        let mut source = make("sardana", &options(address)).expect("a source");
        let mut items = source.run(bench.cx("s"));
        until(&mut items, "the server", || bench.is_up()).await;
        let record = br#"{"timestamp":1}"#;
        assert_eq!(post(address, "/v1/data_desc", "application/json", DESCRIPTION).await.0, 200);
        let mut posted = 1;
        let waits = loop {
            let mut request = Box::pin(post(address, "/v1/record_data", "application/json", record));
            match tokio::time::timeout(std::time::Duration::from_millis(300), &mut request).await {
                Ok(answer) => assert_eq!(answer.0, 200),
                Err(_) => break request,
            }
            posted += 1;
            assert!(posted < 1000, "nothing holds the sender");
        };
        let (answer, taken) = tokio::join!(waits, take(&mut items, posted + 1));
        assert_eq!((answer.0, taken.len()), (200, posted + 1));
    });
}

#[test]
fn a_port_in_use_is_retried() {
    bench(async |bench| {
        let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = taken.local_addr().expect("an address");
        let mut source = make("sardana", &options(address)).expect("a source");
        let mut items = source.run(bench.cx("s"));
        until(&mut items, "the link to be down", || {
            bench.down().is_some_and(|why| why.contains("free the port"))
        })
        .await;
        drop(taken);
        until(&mut items, "the server", || bench.is_up()).await;
    });
}
