//! `GET /v1/events`.

use std::time::{Duration, Instant};

use orchestrator_observe::EVENT_LOG_CAPACITY;
use orchestrator_supervise::testing::eventually;
use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream, UnixStream},
};

use crate::{
    reader::EventReader,
    site::{self, Site},
};

async fn open(site: &Site, query: &str, headers: &str) -> EventReader<TcpStream> {
    EventReader::open(TcpStream::connect(site.tcp).await.unwrap(), query, headers).await
}

fn readers(site: &Site) -> i64 {
    site.metric("event_clients")
}

/// Takes the link down and up again, with two events each time.
fn toggle_link(site: &Site, times: usize) {
    for i in 0..times {
        site.link.down(format!("failure {i}"), Duration::from_secs(1));
        site.link.up();
    }
}

#[test]
fn events_are_streamed_as_they_happen() {
    site::run(|site| async move {
        let mut reader = open(&site, "", "").await;
        let before = site.tree.event_log().newest();
        assert_eq!(site.post("/v1/actors/demo/source/pause", r#"{"reason": "flood"}"#).await.status, 200);
        let received = reader.next().await.unwrap();
        assert_eq!((received.id, received.event.as_str()), (Some(before + 1), "paused"));
        assert_eq!(
            (&received.data["path"], &received.data["seq"]),
            (&json!("test/demo/source"), &json!(before + 1))
        );
        let received = reader.next().await.unwrap();
        assert_eq!((received.event.as_str(), &received.data["reason"]), ("commanded", &json!("flood")));
    });
}

#[test]
fn a_reconnecting_client_receives_the_missed_events() {
    site::run(|site| async move {
        toggle_link(&site, 3);
        let newest = site.tree.event_log().newest();
        let first = newest - 3;
        for (query, headers) in [
            (String::new(), format!("Last-Event-ID: {first}\r\n")),
            (format!("?after={first}"), String::new()),
            ("?after=1".to_owned(), format!("Last-Event-ID: {first}\r\n")),
        ] {
            let mut reader = open(&site, &query, &headers).await;
            for seq in first + 1..=newest {
                let received = reader.next().await.unwrap();
                assert_eq!(
                    (received.id, received.event == "resync"),
                    (Some(seq), false),
                    "{query} {headers}"
                );
            }
        }
    });
}

#[test]
fn a_client_that_missed_lost_events_receives_a_resync() {
    site::run(|site| async move {
        toggle_link(&site, EVENT_LOG_CAPACITY);
        let (oldest, newest) = (site.tree.event_log().page(0, 0).0, site.tree.event_log().newest());
        assert!(oldest > 1);
        let mut reader = open(&site, "?after=1", "").await;
        let received = reader.next().await.unwrap();
        assert_eq!(
            (received.event.as_str(), received.data),
            ("resync", json!({ "oldest": oldest, "newest": newest }))
        );
        assert_eq!(received.id, Some(oldest - 1), "the id prevents a second resync");
        for seq in oldest..=newest {
            assert_eq!(reader.next().await.unwrap().id, Some(seq));
        }
        // The number of a former process.
        let mut reader = open(&site, "", &format!("Last-Event-ID: {}\r\n", u64::MAX)).await;
        assert_eq!(reader.next().await.unwrap().event, "resync");
        assert_eq!(reader.next().await.unwrap().id, Some(oldest));
        // No event was missed.
        let mut reader = open(&site, &format!("?after={}", oldest - 1), "").await;
        assert_eq!(reader.next().await.unwrap().id, Some(oldest));
    });
}

#[test]
fn a_slow_client_receives_a_resync_and_continues() {
    site::run(|site| async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut reader = EventReader::open(socket.connect(site.tcp).await.unwrap(), "", "").await;
        let memory = resident();
        let before = site.tree.event_log().newest();
        // 40 MB are more than all buffers on the way can hold.
        let text = "x".repeat(2000);
        for i in 0..10_000 {
            site.link.down(format!("{i} {text}"), Duration::from_secs(1));
            site.link.up();
        }
        let grown = resident().saturating_sub(memory);
        assert!(
            grown < 48 * 1024 * 1024,
            "{grown} bytes for the ring buffer and a client that does not read"
        );
        let (mut last, mut resyncs) = (before, 0);
        let newest = site.tree.event_log().newest();
        while last < newest {
            let received = reader.next().await.unwrap();
            let id = received.id.unwrap();
            if received.event == "resync" {
                resyncs += 1;
                assert!(id > last && received.data["oldest"] == json!(id + 1), "{received:?}");
            } else {
                assert_eq!(id, last + 1, "every gap is reported");
            }
            last = id;
        }
        assert!(resyncs > 0, "no event was lost: the test wrote too few");
    });
}

#[test]
fn a_client_that_stops_reading_loses_its_slot() {
    site::run(|site| async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let _client = EventReader::open(socket.connect(site.tcp).await.unwrap(), "", "").await;
        let text = "x".repeat(2000);
        for i in 0..10_000 {
            site.link.down(format!("{i} {text}"), Duration::from_secs(1));
            site.link.up();
        }
        assert_eq!(readers(&site), 1);
        eventually("the slot is free", || readers(&site) == 0).await;
    });
}

#[test]
fn events_are_filtered_by_path_and_kind() {
    site::run(|site| async move {
        let after = site.tree.event_log().newest();
        toggle_link(&site, 2);
        site.post("/v1/actors/demo/source/restart", "").await;
        let mut reader =
            open(&site, &format!("?after={after}&path=demo/source&kind=exited,started"), "").await;
        for event in ["exited", "started"] {
            let received = reader.next().await.unwrap();
            assert_eq!(
                (received.event.as_str(), &received.data["path"]),
                (event, &json!("test/demo/source"))
            );
        }
        let cases = [
            ("?kind=started,unknown", "", 400, "link_down"),
            ("?after=soon", "", 400, "`soon` is not the number"),
            ("", "Last-Event-ID: -1\r\n", 400, "`-1` is not the number"),
            ("?path=demo/missing", "", 404, "there is no child"),
            ("?since=1", "", 400, "after=NUMBER"),
        ];
        for (query, headers, status, words) in cases {
            let request = format!("GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
            let (got, message) = site.send(&request).await.error();
            assert_eq!(got, status, "{query}");
            assert!(message.contains(words), "{message}");
        }
    });
}

#[test]
fn slots_are_limited_on_each_socket_and_freed_on_disconnect() {
    site::run(|site| async move {
        let mut clients = Vec::new();
        for _ in 0..16 {
            clients.push(open(&site, "", "").await);
        }
        assert_eq!(readers(&site), 16);
        let reply = site.get("/v1/events").await;
        let (status, message) = reply.error();
        assert_eq!((status, reply.header("retry-after")), (503, Some("5")));
        assert!(message.contains("admin.max_event_clients"), "{message}");
        // The other socket has its own slots.
        let unix = UnixStream::connect(&site.socket).await.unwrap();
        let own = EventReader::open(unix, "", "").await;
        assert_eq!(readers(&site), 17);
        let left = Instant::now();
        drop((clients, own));
        eventually("every slot is free", || readers(&site) == 0).await;
        let took = left.elapsed();
        assert!(took < Duration::from_secs(5), "a slot was taken for {took:?}");
        open(&site, "", "").await;
    });
}

#[test]
fn a_half_closed_client_receives_events() {
    site::run(|site| async move {
        let mut reader = open(&site, "", "").await;
        reader.stream().shutdown().await.unwrap();
        // This is longer than the detection of a closed connection takes.
        let settled = tokio::time::Instant::now() + Duration::from_secs(2);
        tokio::time::sleep_until(settled).await;
        toggle_link(&site, 1);
        assert_eq!(reader.next().await.unwrap().event, "link_down");
        assert_eq!(readers(&site), 1);
    });
}

#[test]
fn a_client_that_sends_more_than_its_request_receives_events() {
    site::run(|site| async move {
        let mut reader = open(&site, "", "").await;
        reader.stream().write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        for _ in 0..2 {
            toggle_link(&site, 1);
            assert_eq!(reader.next().await.unwrap().event, "link_down");
            assert_eq!(reader.next().await.unwrap().event, "link_up");
        }
        drop(reader);
        // A failed write shows that the client is gone.
        let gone = || {
            toggle_link(&site, 1);
            readers(&site) == 0
        };
        eventually("the slot is free", gone).await;
    });
}

#[test]
fn event_streams_do_not_delay_a_stop() {
    let stopped = std::cell::Cell::new(None);
    site::run(|site| {
        let stopped = &stopped;
        async move {
            for _ in 0..5 {
                std::mem::forget(open(&site, "", "").await);
            }
            let mut last = open(&site, "", "").await;
            let began = Instant::now();
            assert_eq!(site.post("/v1/actors/admin/restart", "").await.status, 202);
            while last.next().await.is_some() {}
            assert!(began.elapsed() < Duration::from_secs(1), "the stream ends at once");
            std::mem::forget(last);
            stopped.set(Some(Instant::now()));
        }
    });
    let took = stopped.get().unwrap().elapsed();
    assert!(took < Duration::from_millis(2900), "{took:?}");
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}
