//! `GET /livez` and `/readyz`.

use std::time::Duration;

use orchestrator_supervise::{Command, PauseSpan, testing::eventually};

use crate::site::{self, Block};

#[test]
fn a_healthy_tree_is_alive_and_ready() {
    site::run(|site| async move {
        let reply = site.get("/livez").await;
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let reply = site.get("/readyz").await;
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"));
        let verbose = site.get("/readyz?verbose").await;
        assert!(
            verbose.body.starts_with("ok\nok: test: running\nok: test/demo: running\n"),
            "{}",
            verbose.body
        );
        assert!(
            verbose.body.contains("ok: test/demo/brief: stopped\n"),
            "an exited transient child is ok: {}",
            verbose.body
        );
        for path in ["/readyz", "/livez", "/metrics", "/v1/tree", "/"] {
            let head = site.send(&format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
            assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
        }
    });
}

#[test]
fn a_link_that_is_down_fails_readiness() {
    site::run(|site| async move {
        site.link.down("connection refused: start the broker", Duration::from_secs(5));
        let reply = site.get("/readyz").await;
        let line = "failed: test/demo/store: fake to fake:1 is down: connection refused: start the broker\n";
        assert_eq!((reply.status, reply.body.as_str()), (503, line));
        let verbose = site.get("/readyz?verbose").await;
        assert!(verbose.body.contains(line) && verbose.body.contains("ok: test/demo/source: running\n"));
        assert_eq!(site.get("/livez").await.status, 200, "a link does not affect liveness");
    });
}

#[test]
fn a_stopped_child_fails_readiness_and_a_paused_one_does_not() {
    site::run(|site| async move {
        site.tree
            .command("demo/source", Command::Pause(PauseSpan::default()), &Default::default())
            .await
            .unwrap();
        assert_eq!(site.get("/readyz").await.status, 200);
        site.tree.command("demo/source", Command::Stop, &Default::default()).await.unwrap();
        let reply = site.get("/readyz").await;
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (503, "failed: test/demo/source: stopped, last exit shutdown\n")
        );
    });
}

#[test]
fn a_stuck_child_fails_readiness_with_its_work_in_progress() {
    site::run(|site| async move {
        site.store.tell(Block(Duration::from_secs(3))).unwrap();
        eventually("the store is stuck", || site.tree.node("demo/store").unwrap().stuck).await;
        let reply = site.get("/readyz").await;
        assert_eq!(reply.status, 503);
        assert!(reply.body.starts_with("failed: test/demo/store: stuck in Block for "), "{}", reply.body);
        let text = site.get_text("/v1/tree/demo/store").await.body;
        assert!(text.contains("stuck in Block for "), "{text}");
        eventually("the store runs again", || !site.tree.node("demo/store").unwrap().stuck).await;
    });
}

#[test]
fn one_request_of_a_second_does_not_fail_readiness() {
    site::run(|site| async move {
        let vitals = site.tree.vitals("demo/store").unwrap();
        let _work = vitals.begin_work("request");
        let busy_ms = || site.tree.node("demo/store").unwrap().in_progress.unwrap().for_ms;
        eventually("the request to be stuck", || site.tree.node("demo/store").unwrap().stuck).await;
        let reply = site.get("/readyz").await;
        assert!(reply.status == 200 && busy_ms() < 5_000, "{reply:?}");
        eventually("a request of 5 s", || busy_ms() >= 5_000).await;
        let reply = site.get("/readyz").await;
        assert_eq!(reply.status, 503);
        assert!(reply.body.starts_with("failed: test/demo/store: stuck in request for 5"), "{}", reply.body);
    });
}

#[test]
fn a_blocked_root_fails_liveness() {
    site::run(|site| async move {
        let (tcp, client) = (site.tcp, site);
        let ask = move || {
            use std::io::{Read, Write};
            let mut stream = std::net::TcpStream::connect(tcp).unwrap();
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        // The join below blocks the root's arbiter, so another thread polls the endpoint.
        let poller = std::thread::spawn(move || {
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            loop {
                let answer = ask();
                if !answer.starts_with("HTTP/1.1 200") || std::time::Instant::now() > deadline {
                    return answer;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let answer = poller.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("failed: test: the supervision loop has not run for "), "{answer}");
        let runs =
            || client.tree.child("").is_some_and(|root| root.arbiter_silence() < Duration::from_secs(1));
        eventually("the root runs again", runs).await;
        assert_eq!(client.get("/livez").await.status, 200);
    });
}
