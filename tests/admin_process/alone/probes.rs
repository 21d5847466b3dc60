//! Probes have connections of their own while others stall.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::{TestEnv, eventually, raw_tcp};

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
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0");
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
