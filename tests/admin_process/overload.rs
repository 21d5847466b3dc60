//! Stalled TCP connections to the admin endpoint affect neither probes, nor the unix socket, nor workers.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
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
    // The latency of workers is measured by `orchestrator-bench connection-flood`; here every request must succeed.
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

/// Requests that stall: most of a head, a head without its body, and a probe whose head does not end.
const STALLED: [&str; 3] = [
    "GET /v1/tree HTTP/1.1\r\nHost: local",
    "POST /v1/actors/queue/reader/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
];

/// Opens a connection that sends `text`, and keeps it until it is closed or `ended`.
fn stall(address: SocketAddr, text: &str, tried: &AtomicUsize, ended: &AtomicBool) {
    let stream = TcpStream::connect_timeout(&address, Duration::from_millis(1_500));
    tried.fetch_add(1, SeqCst);
    let Ok(mut stream) = stream else { return };
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let is_open = |stream: &mut TcpStream| {
        stream
            .read(&mut [0; 512])
            .map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |count| count > 0)
    };
    while !ended.load(SeqCst) && is_open(&mut stream) {}
}

#[test]
fn probes_are_answered_while_360_connections_stall() {
    let env = env();
    let instance = env.start();
    let address = env.admin_tcp();
    for text in STALLED {
        let (tried, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        let times = thread::scope(|scope| {
            for _ in 0..360 {
                scope.spawn(|| stall(address, text, &tried, &ended));
            }
            eventually("the connections", || tried.load(SeqCst) == 360);
            let times = ["/livez", "/readyz", "/metrics"].map(|probe| {
                let began = Instant::now();
                let answer =
                    raw_tcp(address, format!("GET {probe} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
                (began.elapsed(), answer.is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200")), probe)
            });
            ended.store(true, SeqCst);
            times
        });
        // A stalled connection is closed after 5 s.
        let is_served = |(time, is_ok, _): &(Duration, bool, _)| *is_ok && *time < Duration::from_secs(2);
        assert!(times.iter().all(is_served), "{text}: {times:?}");
    }
    assert_eq!(env.node("queue/reader")["state"], "running");
    assert_eq!(env.node("admin")["restarts"], 0);
    assert!(instance.terminate().success());
}
