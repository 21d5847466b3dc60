//! Signals, limits of file descriptors and memory, many commands, and frozen children.

use std::{os::unix::process::ExitStatusExt, thread, time::Duration};

use orchestrator_harness::{Reply, TestEnv, eventually, wait_for};
use rustix::process::Signal;

/// Exit codes after a second signal, and of a refused start.
const KILLED: i32 = 137;
const EX_CONFIG: i32 = 78;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

#[test]
fn unused_signals_are_ignored() {
    let env = env();
    env.write("f.1.txt", "alpha 0 1\n");
    let instance = env.start();
    let mut worker = env.worker();
    assert_eq!(
        wait_for("the job", || Some(worker.ready()).filter(|r| *r != Reply::NoJobs)).attr_path(),
        "alpha"
    );
    for name in ["USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "PWR", "STKFLT", "XFSZ", "RTMIN+3"] {
        let before = env.log().matches("ignored").count();
        let kill =
            std::process::Command::new("kill").args(["-s", name, &instance.pid().to_string()]).status();
        assert!(kill.expect("kill(1)").success(), "{name}");
        eventually(name, || env.log().matches("ignored").count() > before);
    }
    assert_eq!(worker.done("alpha", 0), Reply::NoJobs, "the worker is served");
    assert!(instance.terminate().success(), "it did not drain");
    env.database().expect("SELECT count(*) FROM log", &["1"]);
}

#[test]
fn repeated_signals_lose_no_jobs() {
    let env = env();
    let jobs = 3_000;
    env.write("f.1.txt", (0..jobs).map(|i| format!("package{i} 1.0 1.1\n")).collect::<String>());
    let mut done = 0;
    for round in 0..4 {
        let mut instance = env.start();
        let mut worker = env.worker();
        let mut job = wait_for("a job", || Some(worker.ready()).filter(|reply| *reply != Reply::NoJobs));
        for _ in 0..50 {
            job = worker.done(job.attr_path(), 7);
            done += 1;
        }
        let ended = wait_for("the storm to end it", || {
            for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::USR1] {
                if instance.ended().is_none() {
                    instance.signal(signal);
                }
            }
            instance.ended()
        });
        assert!(ended.code() == Some(0) || ended.code() == Some(KILLED), "round {round}: {ended}");
        env.database().expect("SELECT count(*) FROM log WHERE exit_code = 7", &[&done.to_string()]);
    }
    assert!(env.start().terminate().success());
    env.database().expect("PRAGMA integrity_check", &["ok"]);
}

#[test]
fn too_few_descriptors_are_refused_naming_the_required_number() {
    let mut needed = None;
    for limit in [6, 12, 16, 20, 40, 79] {
        let env = env().shell(&format!("ulimit -n {limit}"));
        let mut instance = env.spawn();
        assert_eq!(instance.wait().code(), Some(EX_CONFIG), "{limit}: {}", env.log());
        let log = env.log();
        assert!(log.contains(&format!("the limit on open files is {limit}")), "{log}");
        assert!(log.contains("LimitNOFILE"), "{log}");
        needed = log.split("needs ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    }
    let needed = needed.expect("a number");
    let env = env().shell(&format!("ulimit -n {needed}"));
    env.write("f.1.txt", "alpha 0 1\n");
    let instance = env.start();
    let mut worker = env.worker();
    let job = wait_for("the job", || Some(worker.ready()).filter(|reply| *reply != Reply::NoJobs));
    assert_eq!(job.attr_path(), "alpha", "the required number is too small");
    assert_eq!(env.cli(&["tree"]).0, 0);
    assert!(instance.terminate().success(), "{}", env.log());
}

#[test]
fn every_command_of_a_flood_is_audited() {
    let env = env();
    let _instance = env.start();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let socket = env.admin_socket();
            thread::spawn(move || {
                for _ in 0..10 {
                    let command =
                        |path: &str| orchestrator_harness::http(&socket, "POST", path, &[], "").status;
                    assert_eq!(command("/v1/actors/queue/inotify/pause"), 200);
                    assert_eq!(command("/v1/actors/queue/none/stop"), 404);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    let audited = |outcome: &str| {
        let line = |line: &&str| line.contains(": audit ") && line.contains(outcome);
        env.log().lines().filter(line).count()
    };
    eventually("each command that was carried out in the log", || audited("outcome=\"ok\"") == 40);
    assert!(audited("no child") <= 10, "refused ones are limited: {}", env.log());
}

/// Returns true for an end by the system: the loader has no memory, or an allocation failed.
fn ended_by_the_system(code: Option<i32>, signal: Option<i32>) -> bool {
    // 127: the loader; SIGSEGV: the loader, before main; SIGABRT: an allocation failed.
    code == Some(127) || signal == Some(11) || signal == Some(6)
}

#[test]
fn low_memory_ends_the_process_without_losing_jobs() {
    let start = |kib: u64| env().shell(&format!("ulimit -c 0; ulimit -v {kib}"));
    // Finds the smallest limit with which it starts. Below it the program or the system refuses the start.
    let mut kib = 40_000;
    wait_for("a limit that is enough", || {
        kib += 4_000;
        let env = start(kib);
        let mut instance = env.spawn();
        wait_for("a start or an end", || {
            if let Some(ended) = instance.ended() {
                let known =
                    ended.code() == Some(EX_CONFIG) || ended_by_the_system(ended.code(), ended.signal());
                assert!(known, "{kib} KiB: {ended}: {}", env.log());
                return Some(None);
            }
            orchestrator_harness::Worker::connect(&env.socket()).ok().map(Some)
        })
    });
    let env = start(kib + 24_000);
    let mut instance = env.start();
    let mut acknowledged = 0;
    for run in 0..200 {
        let lines: String = (0..200).map(|i| format!("p{run}x{i} {}\n", "y".repeat(run * 100))).collect();
        env.write(&format!("f{run}.1.txt"), lines);
        let Ok(mut worker) = orchestrator_harness::Worker::connect(&env.socket()) else { break };
        // Workers wait while the database has no memory.
        worker.give_up_after(Duration::from_secs(2)).expect("a time-out");
        let reply = worker.send(b"READY\n").and_then(|()| worker.try_reply());
        let Ok(Reply::Job { attr_path, .. }) = reply else { if reply.is_err() { break } else { continue } };
        let done = worker.send(format!("DONE {attr_path} 9\n").as_bytes()).and_then(|()| worker.try_reply());
        acknowledged += u64::from(matches!(done, Ok(Reply::Job { .. } | Reply::NoJobs)));
    }
    if let Some(ended) = instance.ended() {
        assert!(ended_by_the_system(ended.code(), ended.signal()), "{ended}: {}", env.log());
    }
    drop(instance);
    let count = env.database().rows("SELECT count(*) FROM log WHERE exit_code = 9");
    assert!(count[0].parse::<u64>().unwrap() >= acknowledged, "{count:?} of {acknowledged}");
    let env = env.without_shell();
    let _instance = env.start();
    env.database().expect("SELECT count(DISTINCT attr_path) >= 200 FROM queue", &["1"]);
    assert!(acknowledged > 0, "no job was acknowledged");
}

/// Freezes the arbiters of the queue's children and of the admin endpoint.
fn freeze_all(env: &TestEnv) {
    let (_, text, _) = env.cli(&["tree", "--json"]);
    let tree: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    fn paths(node: &serde_json::Value, found: &mut Vec<String>) {
        found.extend(node["path"].as_str().map(str::to_owned));
        node["children"].as_array().into_iter().flatten().for_each(|child| paths(child, found));
    }
    let mut found = Vec::new();
    paths(&tree["root"], &mut found);
    // The admin endpoint is last, because it does not answer afterwards.
    found.retain(|path| {
        ["/queue_store", "/worker_socket", "/fetcher_watcher", "/admin", "/queue"]
            .iter()
            .any(|end| path.ends_with(end))
    });
    found.sort_by_key(|path| path.ends_with("/admin"));
    assert_eq!(found.len(), 5, "{found:?}");
    for path in &found {
        let url = format!("/v1/actors/{path}/freeze");
        let reply = orchestrator_harness::http(&env.admin_socket(), "POST", &url, &[], "");
        assert!([200, 202, 409, 504].contains(&reply.status), "{path}: {reply:?}");
    }
}

#[test]
fn the_process_stops_despite_frozen_children() {
    let env = env();
    env.write("f.1.txt", "alpha 0 1\n");
    let mut instance = env.start();
    let mut worker = env.worker();
    let job = wait_for("a job", || Some(worker.ready()).filter(|reply| *reply != Reply::NoJobs));
    assert_eq!(worker.done(job.attr_path(), 5), Reply::NoJobs);
    freeze_all(&env);
    instance.signal(Signal::TERM);
    let ended = instance.wait();
    assert!(ended.code().is_some(), "{ended}: {}", env.log());
    assert!(!env.log().contains("panicked"), "{}", env.log());
    env.database().expect("SELECT count(*) FROM log WHERE exit_code = 5", &["1"]);
}
