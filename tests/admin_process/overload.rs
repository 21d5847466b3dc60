//! What strangers can do to the admin endpoint of the real binary, and through it to the work: nothing.

use std::{
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    HttpReply, Reply, TestEnv, eventually, http, http_tcp, open_stalled_connections, raw_tcp, wait_for,
};

fn site() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0")
}

#[test]
fn slow_strangers_on_tcp_lock_out_neither_the_operator_nor_the_workers() {
    let site = site();
    let instance = site.start();
    let (address, mut worker) = (site.admin_tcp(), site.worker());
    let siege = thread::spawn(move || open_stalled_connections(address));
    // How long a worker's answers take meanwhile is a metric of `orchestrator-bench strangers`; here none of them fails.
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
    let (code, _, err) = site.cli(&["restart", "queue/fetcher_watcher", "--reason", "siege"]);
    assert_eq!(code, 0, "{err}");
    eprintln!("the operator waited {slowest:?} at most");
    assert!(slowest < Duration::from_secs(2), "the operator waited for {slowest:?}");
    let strangers = siege.join().expect("strangers");
    assert!(site.metric("admin", "event_clients") <= 16);
    // Those who do not get on with it are cut off, so that TCP answers although none of them leaves.
    let reply = wait_for("an answer over tcp", || {
        let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        raw_tcp(address, request).ok().filter(|answer| !answer.is_empty())
    });
    assert!(reply.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&reply));
    drop(strangers);
    eventually("all seats free", || site.metric("admin", "event_clients") == 0);
    assert_eq!(http_tcp(address, "GET", "/v1/tree", &[], "").status, 200);
    assert_eq!(site.node("queue/fetcher_watcher")["state"], "running", "half a command is none");
    assert_eq!(site.node("admin")["restarts"], 0);
    assert!(instance.terminate().success());
}
