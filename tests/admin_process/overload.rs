//! Stalled TCP connections to the admin endpoint affect neither probes, nor the unix socket, nor workers.

use std::{
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    HttpReply, Reply, TestEnv, eventually, http, http_tcp, open_stalled_connections, raw_tcp, wait_for,
};

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0")
}

#[test]
fn stalled_tcp_clients_block_neither_the_operator_nor_workers() {
    let env = env();
    let instance = env.start();
    let (address, mut worker) = (env.admin_tcp(), env.worker());
    let flood = thread::spawn(move || open_stalled_connections(address));
    // The latency of workers is measured by `orchestrator-bench connection-flood`; here every request must
    // succeed.
    let mut slowest = Duration::ZERO;
    loop {
        let flooding = !flood.is_finished();
        let began = Instant::now();
        let reply: HttpReply = http(&env.admin_socket(), "GET", "/v1/tree", &[], "");
        slowest = slowest.max(began.elapsed());
        assert_eq!(reply.status, 200);
        for _ in 0..20 {
            assert_eq!(worker.ready(), Reply::NoJobs);
        }
        if !flooding {
            break;
        }
    }
    let (code, _, err) = env.cli(&["restart", "queue/fetcher_watcher", "--reason", "flood"]);
    assert_eq!(code, 0, "{err}");
    eprintln!("the operator waited {slowest:?} at most");
    assert!(slowest < Duration::from_secs(2), "the operator waited for {slowest:?}");
    let connections = flood.join().expect("a flood that ends");
    assert!(env.metric("admin", "event_clients") <= 16);
    // The endpoint closes stalled connections, so TCP answers again although no client disconnects.
    let reply = wait_for("an answer over tcp", || {
        let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        raw_tcp(address, request).ok().filter(|answer| !answer.is_empty())
    });
    assert!(reply.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&reply));
    drop(connections);
    eventually("the streams to be released", || env.metric("admin", "event_clients") == 0);
    assert_eq!(http_tcp(address, "GET", "/v1/tree", &[], "").status, 200);
    assert_eq!(
        env.node("queue/fetcher_watcher")["state"],
        "running",
        "an incomplete command was carried out"
    );
    assert_eq!(env.node("admin")["restarts"], 0);
    assert!(instance.terminate().success());
}
