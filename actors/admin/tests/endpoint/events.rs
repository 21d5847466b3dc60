//! `GET /v1/events`.

use std::time::{Duration, Instant};

use orchestrator_supervise::{EVENT_LOG_CAPACITY, testing::eventually};
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

/// Two events each.
fn flip(site: &Site, times: usize) {
    for i in 0..times {
        site.link.down(format!("trouble {i}"), Duration::from_secs(1));
        site.link.up();
    }
}

#[test]
fn what_happens_is_told_as_it_happens() {
    site::run(|site| async move {
        let mut reader = open(&site, "", "").await;
        let before = site.tree.event_log().newest();
        assert_eq!(site.post("/v1/actors/demo/source/pause", r#"{"reason": "flood"}"#).await.status, 200);
        let told = reader.next().await.unwrap();
        assert_eq!((told.id, told.event.as_str()), (Some(before + 1), "paused"));
        assert_eq!((&told.data["path"], &told.data["seq"]), (&json!("test/demo/source"), &json!(before + 1)));
        let told = reader.next().await.unwrap();
        assert_eq!((told.event.as_str(), &told.data["reason"]), ("commanded", &json!("flood")));
    });
}

#[test]
fn who_comes_back_is_told_what_it_missed() {
    site::run(|site| async move {
        flip(&site, 3);
        let newest = site.tree.event_log().newest();
        let first = newest - 3;
        for (query, headers) in [
            (String::new(), format!("Last-Event-ID: {first}\r\n")),
            (format!("?after={first}"), String::new()),
            ("?after=1".to_owned(), format!("Last-Event-ID: {first}\r\n")),
        ] {
            let mut reader = open(&site, &query, &headers).await;
            for seq in first + 1..=newest {
                let told = reader.next().await.unwrap();
                assert_eq!((told.id, told.event == "resync"), (Some(seq), false), "{query} {headers}");
            }
        }
    });
}

#[test]
fn who_missed_too_much_is_told_to_look_anew() {
    site::run(|site| async move {
        flip(&site, EVENT_LOG_CAPACITY);
        let (oldest, newest) = (site.tree.event_log().page(0, 0).0, site.tree.event_log().newest());
        assert!(oldest > 1);
        let mut reader = open(&site, "?after=1", "").await;
        let told = reader.next().await.unwrap();
        assert_eq!(
            (told.event.as_str(), told.data),
            ("resync", json!({ "oldest": oldest, "newest": newest }))
        );
        assert_eq!(told.id, Some(oldest - 1), "so that it is not told twice");
        for seq in oldest..=newest {
            assert_eq!(reader.next().await.unwrap().id, Some(seq));
        }
        // Numbers of a former process.
        let mut reader = open(&site, "", &format!("Last-Event-ID: {}\r\n", u64::MAX)).await;
        assert_eq!(reader.next().await.unwrap().event, "resync");
        assert_eq!(reader.next().await.unwrap().id, Some(oldest));
        // Nothing missed: nothing to say but what is new.
        let mut reader = open(&site, &format!("?after={}", oldest - 1), "").await;
        assert_eq!(reader.next().await.unwrap().id, Some(oldest));
    });
}

#[test]
fn who_does_not_read_is_told_to_look_anew_and_goes_on() {
    site::run(|site| async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut reader = EventReader::open(socket.connect(site.tcp).await.unwrap(), "", "").await;
        let memory = resident();
        let before = site.tree.event_log().newest();
        // More than all buffers on the way can hold: 40 MB.
        let text = "x".repeat(2000);
        for i in 0..10_000 {
            site.link.down(format!("{i} {text}"), Duration::from_secs(1));
            site.link.up();
        }
        let grown = resident().saturating_sub(memory);
        assert!(grown < 48 * 1024 * 1024, "{grown} bytes for a reader that does not read, and the ring");
        let (mut last, mut resyncs) = (before, 0);
        let newest = site.tree.event_log().newest();
        while last < newest {
            let told = reader.next().await.unwrap();
            let id = told.id.unwrap();
            if told.event == "resync" {
                resyncs += 1;
                assert!(id > last && told.data["oldest"] == json!(id + 1), "{told:?}");
            } else {
                assert_eq!(id, last + 1, "no gap but those that are told");
            }
            last = id;
        }
        assert!(resyncs > 0, "all of it was told: the test wrote too little");
    });
}

#[test]
fn who_never_reads_again_loses_the_seat() {
    site::run(|site| async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let _deaf = EventReader::open(socket.connect(site.tcp).await.unwrap(), "", "").await;
        let text = "x".repeat(2000);
        for i in 0..10_000 {
            site.link.down(format!("{i} {text}"), Duration::from_secs(1));
            site.link.up();
        }
        assert_eq!(readers(&site), 1);
        eventually("the seat is free", || readers(&site) == 0).await;
    });
}

#[test]
fn only_what_was_asked_for_is_told() {
    site::run(|site| async move {
        let after = site.tree.event_log().newest();
        flip(&site, 2);
        site.post("/v1/actors/demo/source/restart", "").await;
        let mut reader =
            open(&site, &format!("?after={after}&path=demo/source&kind=exited,started"), "").await;
        for event in ["exited", "started"] {
            let told = reader.next().await.unwrap();
            assert_eq!((told.event.as_str(), &told.data["path"]), (event, &json!("test/demo/source")));
        }
        let cases = [
            ("?kind=started,dance", "", 400, "link_down"),
            ("?after=soon", "", 400, "`soon` is no number"),
            ("", "Last-Event-ID: -1\r\n", 400, "`-1` is no number"),
            ("?path=demo/nobody", "", 404, "there is no child"),
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
fn seats_are_bounded_on_each_socket_and_freed_by_who_leaves() {
    site::run(|site| async move {
        let mut seated = Vec::new();
        for _ in 0..16 {
            seated.push(open(&site, "", "").await);
        }
        assert_eq!(readers(&site), 16);
        let reply = site.get("/v1/events").await;
        let (status, message) = reply.error();
        assert_eq!((status, reply.header("retry-after")), (503, Some("5")));
        assert!(message.contains("admin.max_event_clients"), "{message}");
        // The other socket has seats of its own.
        let unix = UnixStream::connect(&site.socket).await.unwrap();
        let own = EventReader::open(unix, "", "").await;
        assert_eq!(readers(&site), 17);
        let left = Instant::now();
        drop((seated, own));
        eventually("every seat is free", || readers(&site) == 0).await;
        let took = left.elapsed();
        assert!(took < Duration::from_secs(5), "a seat was kept for {took:?}");
        open(&site, "", "").await;
    });
}

#[test]
fn who_closes_only_its_own_half_goes_on_reading() {
    site::run(|site| async move {
        let mut reader = open(&site, "", "").await;
        reader.stream().shutdown().await.unwrap();
        // Longer than it takes to find out that somebody is gone.
        let settled = tokio::time::Instant::now() + Duration::from_secs(2);
        tokio::time::sleep_until(settled).await;
        flip(&site, 1);
        assert_eq!(reader.next().await.unwrap().event, "link_down");
        assert_eq!(readers(&site), 1);
    });
}

#[test]
fn readers_do_not_hold_up_the_stop() {
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
