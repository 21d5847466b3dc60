//! What strangers can do to the admin endpoint of the real binary, and through it to the work: nothing.

use std::{
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    HttpReply, Reply, Site, eventually, http, http_tcp, slow_strangers, try_raw, wait_for,
};

fn site() -> Site {
    Site::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0")
}

#[test]
fn a_mebibyte_of_headers_is_refused_and_costs_nothing() {
    let site = site();
    let instance = site.start();
    let address = site.admin_tcp();
    http_tcp(address, "GET", "/v1/tree", &[], "");
    let before = instance.memory("VmRSS");
    let line = format!("X-Padding: {}\r\n", "x".repeat(1000));
    let many = line.repeat(1100);
    let huge = format!("X-Padding: {}\r\n", "x".repeat(1 << 20));
    let unended = format!("X-Padding: {}", "x".repeat(1 << 20));
    for headers in [&many, &huge, &unended] {
        let request = format!("GET /v1/tree HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n");
        for _ in 0..20 {
            // A reset says no as well.
            if let Ok(answer) = try_raw(address, request.as_bytes()) {
                let head = String::from_utf8_lossy(&answer);
                let status = head.split(' ').nth(1).unwrap_or_default();
                assert!(["400", "431", ""].contains(&status), "{head}");
            }
        }
    }
    let grown = instance.memory("VmRSS").saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes after 60 MiB of headers");
    assert_eq!(http_tcp(address, "GET", "/v1/tree", &[], "").status, 200);
}

#[test]
fn slow_strangers_on_tcp_lock_out_neither_the_operator_nor_the_workers() {
    let site = site();
    let instance = site.start();
    let (address, mut worker) = (site.admin_tcp(), site.worker());
    let siege = thread::spawn(move || slow_strangers(address));
    // How long a worker's answers take meanwhile is a figure of `orchestrator-bench strangers`; here none of them fails.
    let mut slowest = Duration::ZERO;
    loop {
        let besieged = !siege.is_finished();
        let began = Instant::now();
        let reply: HttpReply = http(&site.admin_socket(), "GET", "/v1/tree", &[], "");
        slowest = slowest.max(began.elapsed());
        assert_eq!(reply.status, 200);
        for _ in 0..20 {
            assert_eq!(worker.ready(), Reply::NoJobs);
        }
        if !besieged {
            break;
        }
    }
    let (code, _, err) = site.cli(&["restart", "queue/watcher", "--reason", "siege"]);
    assert_eq!(code, 0, "{err}");
    eprintln!("the operator waited {slowest:?} at most");
    assert!(slowest < Duration::from_secs(2), "the operator waited for {slowest:?}");
    let strangers = siege.join().expect("strangers");
    assert!(site.figure("admin", "event_clients") <= 16);
    // Those who do not get on with it are cut off, so that TCP answers although none of them leaves.
    let reply = wait_for("an answer over tcp", || {
        let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        try_raw(address, request).ok().filter(|answer| !answer.is_empty())
    });
    assert!(reply.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&reply));
    drop(strangers);
    eventually("all seats free", || site.figure("admin", "event_clients") == 0);
    assert_eq!(http_tcp(address, "GET", "/v1/tree", &[], "").status, 200);
    assert_eq!(site.node("queue/watcher")["state"], "running", "half a command is none");
    assert_eq!(site.node("admin")["restarts"], 0);
    assert!(instance.terminate().success());
}
